"""Reading a question: its words, whom it names, which days it means. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.words import hashed, words_of


@dataclass(frozen=True)
class Question:
    """What a question asks for.

    Attributes:
        words: The hashes of its words, each once.
        now: What "yesterday" is relative to.
    """

    text: str
    now: datetime
    words: NDArray[np.uint32]


def read_question(text: str, *, now: datetime) -> Question:
    """Return what a question asks for; linear in its length."""
    return Question(text=text, now=now, words=np.unique(hashed(words_of(text))))
