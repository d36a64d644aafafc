"""What the two models that run in this process share: loading once, one text at a time, deadlines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from threading import Lock
from time import monotonic
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.providers.embeddings.base import (
    NOTHING_TO_EMBED,
    EmbeddingModelMissingError,
    EmbeddingRefusedError,
    EmbeddingTimeoutError,
    Failure,
    Vector,
    blended,
    checked,
)
from memory.providers.embeddings.texts import question_parts, readable

_MOST_QUESTION_CHARACTERS: Final = 800


class EmbeddedModel(ABC):
    """A model in a package; it is loaded by the first text, or earlier by `warm`.

    One call computes at a time: a question waits for the slice of passages before it, not for all.
    """

    kind: str
    name: str
    dimensions: int
    _most_characters: int
    _texts_at_once: int

    def __init__(self) -> None:
        """Load nothing yet."""
        self._lock = Lock()
        self._is_loaded = False

    def warm(self, *, seconds: float = 60.0) -> None:
        """Load the model, if it is not. Cost: seconds of computing the first time.

        Raises:
            EmbeddingModelMissingError: Its package is not installed.
            EmbeddingTimeoutError: Somebody else is still loading it.
        """
        with self._held(until=monotonic() + seconds):
            pass

    def passages(self, texts: Sequence[str], *, seconds: float) -> list[Vector | Failure]:
        """See `Embedder.passages`.

        Raises:
            EmbeddingModelMissingError: The model's package is not installed.
            EmbeddingTimeoutError: The time was up before all were done.
        """
        until = monotonic() + seconds
        found: list[Vector | Failure] = [Failure(code=NOTHING_TO_EMBED)] * len(texts)
        said = (readable(text, most_characters=self._most_characters) for text in texts)
        rest = iter([(at, text) for at, text in enumerate(said) if text])
        while part := list(islice(rest, self._texts_at_once)):
            with self._held(until=until):
                rows = self._encode([text for _, text in part], is_question=False)
            for (at, _), row in zip(part, rows, strict=True):
                found[at] = checked(row, dimensions=self.dimensions)
        return found

    def query(self, text: str, *, seconds: float) -> Vector:
        """See `Embedder.query`.

        Raises:
            EmbeddingRefusedError: The text is blank.
            EmbeddingModelMissingError: The model's package is not installed.
            EmbeddingTimeoutError: The model was busy for too long.
        """
        asked = question_parts(text, most_characters=_MOST_QUESTION_CHARACTERS)
        if not asked:
            raise EmbeddingRefusedError("There is nothing to embed.")
        with self._held(until=monotonic() + seconds):
            rows = self._encode(asked, is_question=True)
        return blended([checked(row, dimensions=self.dimensions) for row in rows])

    @contextmanager
    def _held(self, *, until: float) -> Iterator[None]:
        left = until - monotonic()
        if left <= 0 or not self._lock.acquire(timeout=left):
            raise EmbeddingTimeoutError
        try:
            if not self._is_loaded:
                self._load_or_explain()
            yield
        finally:
            self._lock.release()

    def _load_or_explain(self) -> None:
        try:
            self._load()
        except (ImportError, OSError) as error:
            raise EmbeddingModelMissingError(
                f"The embedding model {self.name} is not installed for this platform."
            ) from error
        self._is_loaded = True

    @abstractmethod
    def _load(self) -> None:
        """Import the package and load its weights; raises ImportError where there is none."""

    @abstractmethod
    def _encode(self, texts: Sequence[str], *, is_question: bool) -> NDArray[np.float32]:
        """Return one row a text."""
