"""What of a question is embedded, and how its parts become one vector."""

from __future__ import annotations

import numpy as np
import pytest

from memory.providers.embeddings.base import (
    WRONG_LENGTH,
    EmbeddingMalformedError,
    Failure,
    blended,
)
from memory.providers.embeddings.texts import question_parts, sentences_of


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Where is it?", ["Where is it?"]),
        ("在哪里？", ["在哪里？"]),
        ("no end", ["no end"]),
        ("It rained. Where is it?", ["It rained. Where is it?", "It rained.", "Where is it?"]),
        ("下雨了。在哪里？", ["下雨了。在哪里？", "下雨了。", "在哪里？"]),
        ("   ", []),
        ("?!", ["?!"]),
    ],
)
def test_question_is_embedded_whole_and_by_its_sentences(text: str, parts: list[str]) -> None:
    assert question_parts(text, most_characters=400) == parts


def test_of_many_sentences_the_last_eight_count() -> None:
    text = " ".join(f"Sentence number {place}." for place in range(20))
    parts = question_parts(text, most_characters=4_000)
    assert len(parts) == 9
    assert parts[1:] == sentences_of(text)[-8:]


def test_whole_counts_as_much_as_all_its_sentences() -> None:
    axes = np.eye(3, dtype=np.float32)
    mixed = blended([axes[0], axes[1], axes[1]])
    assert mixed == pytest.approx([0.5**0.5, 0.5**0.5, 0.0], abs=1e-6)
    assert blended([axes[2]]) == pytest.approx(axes[2])


def test_sentence_without_vector_is_left_out_and_the_whole_must_have_one() -> None:
    axes = np.eye(2, dtype=np.float32)
    bad = Failure(code=WRONG_LENGTH)
    assert blended([axes[0], bad, axes[1]]) == pytest.approx([0.5**0.5, 0.5**0.5], abs=1e-6)
    with pytest.raises(EmbeddingMalformedError):
        blended([bad, axes[1]])


def test_opposite_parts_that_cancel_are_no_direction() -> None:
    axis = np.eye(2, dtype=np.float32)[0]
    with pytest.raises(EmbeddingMalformedError):
        blended([axis, -axis])
