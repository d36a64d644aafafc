"""Stand-ins for embedding models: toy vectors, and models that fail in one way or another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from memory.providers.embeddings.base import EmbedderConfig, EmbeddingError
from memory.retrieval.codes import Vector
from tests.shelving import toy_vector
from threads.recall import finding, models_in_use


@dataclass
class ToyEmbedder:
    """Gives toy vectors and keeps what it was asked; with an error, fails instead."""

    error: EmbeddingError | None = None
    asked: list[str] = field(default_factory=list)
    during: Callable[[], Any] | None = None

    def query(self, text: str, *, seconds: float) -> Vector:
        self.asked.append(text)
        if self.during:
            self.during()
        if self.error:
            raise self.error
        return toy_vector(text)


def use_embedder(patch: pytest.MonkeyPatch, embedder: ToyEmbedder) -> ToyEmbedder:
    """Let every model of this process be the stand-in, and forget what was known of models."""

    def made(_: EmbedderConfig) -> ToyEmbedder:
        return embedder

    models_in_use.forget_active_models()
    patch.setattr(finding, "embedder", made)
    return embedder
