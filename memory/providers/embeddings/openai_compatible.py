"""Any server that speaks the OpenAI embeddings API, through the same guarded transport as chat.

Nothing a server sends is trusted: results are put in order by their index, counted, and each vector
is measured. Texts go nowhere while a transaction is open.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Lock
from time import monotonic
from typing import Final

import httpx2
from django.utils import timezone

from memory.providers.breaker import CircuitBreaker
from memory.providers.embeddings.background import run_in_background
from memory.providers.embeddings.base import (
    NOTHING_TO_EMBED,
    WRONG_LENGTH,
    EmbedderConfig,
    EmbeddingError,
    EmbeddingInTransactionError,
    EmbeddingMalformedError,
    EmbeddingRefusedError,
    EmbeddingTimeoutError,
    EmbeddingUnavailableError,
    Failure,
    Vector,
    blended,
    checked,
)
from memory.providers.embeddings.endpoint import Endpoint
from memory.providers.embeddings.texts import question_parts, readable
from memory.providers.errors import ProviderMisconfiguredError
from memory.providers.network import Resolve
from memory.providers.transport import MAX_JSON_BYTES
from memory.rls import open_scope

KIND: Final = "openai_compatible"
MOST_TEXTS: Final = 64
# Most models read 512 to 8,192 tokens, and some refuse a longer text.
MOST_CHARACTERS: Final = 4_000
_BYTES_A_NUMBER: Final = 26
_breaker = CircuitBreaker()
_breaker_lock = Lock()


class OpenAICompatibleEmbedder:
    """One model of one server; safe in any thread, since its connections live in one loop."""

    kind = KIND

    def __init__(self, config: EmbedderConfig, *, resolve: Resolve | None = None) -> None:
        """Check the configuration; `resolve` is for tests. No network.

        Raises:
            ProviderMisconfiguredError: There is no endpoint, or it can not be used as it stands.
            ProviderRefusedHostError: The host is not on the operator's list.
        """
        if config.endpoint is None:
            raise ProviderMisconfiguredError("The embedding model has no endpoint.")
        self.name = config.name
        self.dimensions = config.dimensions
        self._config = config
        self._endpoint = Endpoint(config.endpoint, resolve=resolve)
        # Questions wait less: their timeouts must not rest what the worker does without hurry.
        self._breaker_keys = tuple(
            f"{config.endpoint.id}:{config.name}:{use}" for use in ("passages", "query")
        )
        self._most_seconds = config.endpoint.timeouts.total_seconds
        room = MAX_JSON_BYTES // (_BYTES_A_NUMBER * config.dimensions)
        self._texts_at_once = max(1, min(MOST_TEXTS, room))

    def passages(self, texts: Sequence[str], *, seconds: float) -> list[Vector | Failure]:
        """See `Embedder.passages`. Cost: one request for 64 texts, fewer at very many dimensions.

        Raises:
            EmbeddingError: or a subclass, when a request failed.
            EmbeddingInTransactionError: A transaction is open.
        """
        until = monotonic() + seconds
        found: list[Vector | Failure] = [Failure(code=NOTHING_TO_EMBED)] * len(texts)
        said = [readable(text, most_characters=MOST_CHARACTERS) for text in texts]
        rest = [at for at, text in enumerate(said) if text]
        for begin in range(0, len(rest), self._texts_at_once):
            part = rest[begin : begin + self._texts_at_once]
            sent = [said[at] for at in part]
            results = self._ask(sent, until - monotonic(), self._breaker_keys[0])
            for at, result in zip(part, results, strict=True):
                found[at] = result
        return found

    def query(self, text: str, *, seconds: float) -> Vector:
        """See `Embedder.query`. Cost: one request.

        Raises:
            EmbeddingError: or a subclass, when there is no good vector.
            EmbeddingInTransactionError: A transaction is open.
        """
        asked = question_parts(text, most_characters=MOST_CHARACTERS)
        if not asked:
            raise EmbeddingRefusedError("There is nothing to embed.")
        return blended(self._ask(asked, seconds, self._breaker_keys[1]))

    def measure(self, *, seconds: float) -> int:
        """Return how many numbers the vector of some text has, whatever is configured.

        Raises:
            EmbeddingError: or a subclass, when there is no vector.
        """
        row = _rows(self._sent(["What is near to what?"], seconds))[:1]
        if not row or not isinstance(row[0], list) or not row[0]:
            raise EmbeddingMalformedError("The endpoint answered without a vector.")
        return len(row[0])

    def close(self) -> None:
        """Close the connections; a later call opens others."""
        run_in_background(self._endpoint.aclose(), seconds=5)

    def _ask(
        self, texts: Sequence[str], seconds: float, breaker_key: str
    ) -> list[Vector | Failure]:
        if open_scope() is not None:
            raise EmbeddingInTransactionError
        allowed = min(seconds, self._most_seconds)
        if allowed <= 0:
            raise EmbeddingTimeoutError
        with _breaker_lock:
            if _breaker.is_open(provider_id=breaker_key, now=timezone.now()):
                raise EmbeddingUnavailableError("The embedding endpoint rests after failures.")
        try:
            results = _results(self._sent(texts, allowed), len(texts), self.dimensions)
        except EmbeddingRefusedError:
            raise  # it answers: the text is at fault
        except EmbeddingError:
            with _breaker_lock:
                _breaker.failed(provider_id=breaker_key, now=timezone.now())
            raise
        with _breaker_lock:
            _breaker.succeeded(provider_id=breaker_key)
        return results

    def _sent(self, texts: Sequence[str], seconds: float) -> bytes:
        body: dict[str, object] = {"model": self.name, "input": list(texts)}
        if self._config.asks_dimensions:
            body["dimensions"] = self.dimensions
        try:
            work = self._endpoint.post(body, texts=texts, seconds=seconds)
            return run_in_background(work, seconds=seconds)
        except TimeoutError as error:
            raise EmbeddingTimeoutError from error
        except (httpx2.InvalidURL, ValueError) as error:  # passed our checks, not the client's
            raise EmbeddingUnavailableError("The base URL cannot be read.") from error


def measure(config: EmbedderConfig, *, dimensions: int | None, seconds: float) -> int:
    """Ask an endpoint how long its model's vectors are. Cost: one request on a connection of its own.

    Args:
        config: The model; its dimensions are not looked at.
        dimensions: How long they are to be, for a model that can shorten them; None not to say.
        seconds: What the request may take.

    Raises:
        EmbeddingError: or a subclass, when it gives none.
        ProviderError: The endpoint can not be used as it stands, or is not allowed.
    """
    asked = replace(config, dimensions=dimensions or 1, asks_dimensions=dimensions is not None)
    model = OpenAICompatibleEmbedder(asked)
    try:
        return model.measure(seconds=seconds)
    finally:
        model.close()


def _results(content: bytes, count: int, dimensions: int) -> list[Vector | Failure]:
    rows = _rows(content)
    if len(rows) != count:
        raise EmbeddingMalformedError(f"{count} texts were sent and {len(rows)} vectors came back.")
    return [
        checked(row, dimensions=dimensions) if isinstance(row, list) else Failure(code=WRONG_LENGTH)
        for row in rows
    ]


def _rows(content: bytes) -> list[object]:
    """Return the vectors as they came, in the order of the texts."""
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        answer = None
    data = answer.get("data") if isinstance(answer, Mapping) else None
    if not isinstance(data, list) or not all(isinstance(item, Mapping) for item in data):
        raise EmbeddingMalformedError("The answer holds no list of vectors.")
    places = [item.get("index", at) for at, item in enumerate(data)]
    if set(map(str, places)) != set(map(str, range(len(data)))):
        raise EmbeddingMalformedError("The answer's vectors are not numbered one a text.")
    in_order = sorted(zip(map(int, places), range(len(data)), strict=True))
    return [data[at].get("embedding") for _, at in in_order]
