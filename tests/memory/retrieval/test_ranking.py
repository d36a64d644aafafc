"""Ranking on numbers: what counts, that its parts explain it, and that nothing unrelated is relevant."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.retrieval.question import read_question
from memory.retrieval.ranking import DEFAULT_COSINE, Ranked, rank
from memory.retrieval.shelf_copy import ShelfCopy
from memory.retrieval.signals import Usual
from tests.factories import NOW
from tests.memory.retrieval.copying import axis, copy_of

FILLER = ["the weather was grey", "we had soup again", "traffic was slow", "nothing new here"]
FILLER_ZH = ["天气阴沉", "又喝了汤", "路上很堵", "没有什么新鲜事"]


def ranked(copy: ShelfCopy, text: str, **more: object) -> Ranked:
    return rank(copy, read_question(text, now=NOW), **{"vector": None, **more})  # type: ignore[arg-type]


def order(copy: ShelfCopy, text: str, **more: object) -> list[int]:
    return list(np.argsort(-ranked(copy, text, **more).relevance, kind="stable"))


def explained(found: Ranked) -> np.ndarray:
    odds = np.sum(list(found.parts.values()), axis=0, dtype=np.float64)
    return 1 / (1 + np.exp(-odds))


@pytest.mark.req("B06")
@pytest.mark.parametrize(
    ("texts", "question"),
    [
        (["I adopted a cat named Miso", *FILLER], "What is my cat called?"),
        (["每日复盘和数据库备份方案", *FILLER_ZH], "备份"),
        (["端到端测试", *FILLER_ZH], "端到端测试结果"),
    ],
    ids=["english", "chinese, bug D1", "chinese, bug D3"],
)
def test_words_alone_find_the_text_first(texts: list[str], question: str) -> None:
    found = ranked(copy_of(texts, sessions=list("abcde")), question)
    assert found.relevance.argmax() == 0
    assert found.relevance[0] > 0.2
    assert (found.relevance[1:] <= 0.2).all()
    assert order(copy_of(texts), question)[0] == 0


@pytest.mark.req("A27")
@pytest.mark.parametrize("question", ["What is the capital of Mongolia?", "氮气的沸点是多少？"])
@pytest.mark.parametrize("size", [1, 4, 40])
def test_unrelated_question_finds_nothing(question: str, size: int) -> None:
    texts = [f"{text} {place}" for place, text in enumerate((FILLER + FILLER_ZH) * 5)][:size]
    vectors = [axis(1) for _ in texts]
    assert (ranked(copy_of(texts), question).relevance < 0.2).all()
    with_vectors = ranked(copy_of(texts, vectors=vectors), question, vector=axis(2))
    assert (with_vectors.relevance < 0.2).all()


@pytest.mark.req("A27")
@pytest.mark.parametrize(
    "said",
    [
        *(
            "hi",
            "Hello there!",
            "thanks",
            "Thank you so much!",
            "ok",
            "got it, thanks",
            "good morning",
        ),
        *("谢谢", "你好", "好的，收到", "嗯嗯", "哈哈哈", "晚安", "没问题", "辛苦了"),
        *("???", "😀", "…", ""),
    ],
)
def test_small_talk_finds_nothing_though_it_was_said_before(said: str) -> None:
    texts = ["hi", "ok thanks", "谢谢，收到", "对了", "good morning", *FILLER]
    vectors = [axis(0)] * len(texts)
    found = ranked(copy_of(texts, vectors=vectors), said, vector=axis(0))
    assert (found.relevance < 0.2).all()


@pytest.mark.parametrize(
    "asked", ["谢谢你推荐的那本书叫什么", "hi, where is my cat?", "ok google", "好茶"]
)
def test_question_that_begins_with_small_talk_is_none(asked: str) -> None:
    assert not read_question(asked, now=NOW).is_small_talk


def test_one_that_differs_a_little_among_entries_all_alike_is_not_far_off() -> None:
    texts = [f"reading {place}" for place in range(60)]
    vectors = [axis(1)] * 59 + [axis(1, toward=2, share=0.02)]
    found = ranked(copy_of(texts, vectors=vectors), "lullaby", vector=axis(2))
    assert (found.relevance < 0.2).all()
    assert found.parts["meaning"].max() < 3


@pytest.mark.req("A27")
@pytest.mark.parametrize(
    "question",
    [
        "Who won the match today?",
        "今天谁赢了世界杯？",
        "What did the pope say on November 2nd?",
        "11月2日的股市",
    ],
)
def test_day_alone_makes_nothing_relevant(question: str) -> None:
    texts = ["I adopted a cat", "the router is new", "我们去了杭州", *FILLER]
    vectors = [axis(place % 4) for place in range(len(texts))]
    copy = copy_of(texts, vectors=vectors, days_ago=[0.1] * len(texts))
    assert (ranked(copy, question, vector=axis(6)).relevance < 0.2).all()
    assert (ranked(copy, question).relevance < 0.2).all()


@pytest.mark.parametrize(
    "question", ["Did we adopt a cat on November 2nd?", "11月2日我们去了哪里，杭州吗"]
)
def test_day_counts_for_what_answers_besides(question: str) -> None:
    texts = ["we adopt a cat", "我们去了杭州", *FILLER]
    then = copy_of(texts, sessions=list("abcdef"), days_ago=[0.1] * 6)
    before = copy_of(texts, sessions=list("abcdef"), days_ago=[40] * 6)
    on_the_day, earlier = (ranked(copy, question).relevance.max() for copy in (then, before))
    assert on_the_day > 0.2
    assert on_the_day > earlier


def test_parts_sum_to_the_odds() -> None:
    copy = copy_of(["Anna: I ran on Monday", "Where?", *FILLER], vectors=[axis(0)] * 6)
    found = ranked(copy, "When did Anna run?", vector=axis(0))
    assert found.relevance == pytest.approx(explained(found), abs=1e-6)
    assert {"words", "session", "meaning", "speaker", "day", "form", "standing"} <= set(found.parts)


def test_speaker_named_in_the_question_comes_first() -> None:
    texts = ["I love hiking", "I love hiking"]
    for names in (["Anna", "Ben"], ["安娜", "小明"]):
        copy = copy_of(texts, speakers=names, sessions=["a", "b"])
        assert order(copy, f"What does {names[1]} love about hiking?")[0] == 1
        both = ranked(copy, f"Do {names[0]} and {names[1]} love hiking?").parts["speaker"]
        assert (both == 0).all()


@pytest.mark.parametrize("question", ["What did we eat on June 3rd?", "6月3日我们吃了什么？"])
def test_named_day_comes_first(question: str) -> None:
    days_ago = [(NOW - NOW.replace(month=6, day=day)).days for day in (1, 3, 20)]
    copy = copy_of(["we ate 面条"] * 3, days_ago=days_ago, sessions=["a", "b", "c"])
    assert order(copy, question)[0] == 1


def test_answer_beside_its_question_gains_from_it() -> None:
    texts = ["What instrument do you play?", "The cello, since childhood", *FILLER]
    alone = copy_of(texts, sessions=list("abcdef"))
    together = copy_of(texts)
    question = "Which instrument was it?"
    rank_alone = order(alone, question).index(1)
    assert order(together, question).index(1) < rank_alone


def test_hours_apart_are_other_sessions() -> None:
    texts = ["What instrument do you play?", "The cello, since childhood", *FILLER]
    apart = ranked(copy_of(texts, days_ago=[9, 7, 5, 4, 3, 2]), "Which instrument was it?")
    together = ranked(copy_of(texts), "Which instrument was it?")
    assert apart.parts["words"][1] < together.parts["words"][1]


def test_meaning_finds_what_no_word_does() -> None:
    vectors = [axis(3), axis(1), axis(2), axis(4), axis(5)]
    copy = copy_of(["一只叫米索的猫", *FILLER], vectors=vectors)
    asked = axis(3, toward=6, share=0.3)
    found = ranked(copy, "pet?", vector=asked)
    assert found.relevance.argmax() == 0
    assert found.relevance[0] > 0.2
    assert found.vector_count == 5
    assert found.keyword_count == 0


def test_entry_without_vector_is_neither_lost_nor_preferred() -> None:
    copy = copy_of(["my cat is Miso", *FILLER], vectors=[None, axis(1), axis(2), axis(4), axis(5)])
    found = ranked(copy, "cat", vector=axis(1))
    assert found.vector_count == 4
    assert found.relevance[0] > 0.2


def test_failed_keyword_leg_leaves_meaning() -> None:
    copy = copy_of(["my cat is Miso", *FILLER], vectors=[axis(0), *map(axis, (1, 2, 3, 4))])
    found = ranked(copy, "cat", vector=axis(0), has_keywords=False)
    assert found.relevance.argmax() == 0
    assert found.keyword_count == 0
    assert "words" not in found.parts


def test_unknown_name_stands_in_the_way() -> None:
    copy = copy_of(["we went hiking in spring", *FILLER])
    known = ranked(copy, "who went hiking in spring").relevance[0]
    unknown = ranked(copy, "When did Brunhilde go hiking in spring?").relevance[0]
    month = ranked(copy, "When did we go hiking in April?").relevance[0]
    assert unknown < month
    assert unknown < known


def test_passage_is_judged_by_meaning() -> None:
    texts = ["soup and rain and traffic", "她在晚会上跳舞", *FILLER]
    copy = copy_of(texts, vectors=[axis(1), axis(0), axis(2), axis(3), axis(4), axis(5)])
    passage = "It rained. We had soup. Traffic was bad. What shall I wear tonight?"
    assert order(copy, passage, vector=axis(0))[0] == 1


def test_other_models_cosines_are_put_on_the_same_scale() -> None:
    narrow = Usual(0.8, 0.03)
    texts = ["one", *FILLER]
    copy = copy_of(texts)
    wide = np.array([0.6, 0.1, 0.2, 0.15, 0.1], dtype=np.float32)
    near = (
        narrow.mean + (wide - DEFAULT_COSINE.mean) / DEFAULT_COSINE.spread * narrow.spread
    ).astype(np.float32)
    default = ranked(copy, "pet", cosines=wide).relevance
    other = ranked(copy, "pet", cosines=near, usual_cosine=narrow).relevance
    assert other.argmax() == default.argmax() == 0
    assert abs(other[0] - default[0]) < 0.4


def test_empty_shelf_has_nothing() -> None:
    assert len(ranked(copy_of([]), "cat").relevance) == 0


def test_question_without_words_ranks_by_meaning_alone() -> None:
    copy = copy_of(FILLER, vectors=[axis(0), axis(1), axis(2), axis(3)])
    assert ranked(copy, "???", vector=axis(2)).relevance.argmax() == 2


@settings(max_examples=60)
@given(
    st.lists(st.text(max_size=60), min_size=1, max_size=12),
    st.text(max_size=200),
    st.integers(0, 7),
)
def test_any_shelf_and_question_give_shares(texts: list[str], question: str, number: int) -> None:
    vectors = [axis(place % 8) if place % 3 else None for place in range(len(texts))]
    sessions = [str(place // 3) for place in range(len(texts))]
    copy = copy_of(texts, vectors=vectors, sessions=sessions)
    for vector in (None, axis(number)):
        found = ranked(copy, question, vector=vector)
        assert found.relevance.shape == (len(texts),)
        assert np.isfinite(found.relevance).all()
        assert ((found.relevance >= 0) & (found.relevance <= 1)).all()
        assert found.relevance == pytest.approx(explained(found), abs=1e-5)


def test_order_of_entries_does_not_change_what_they_are_worth() -> None:
    texts = ["my cat is Miso", *FILLER, "a dog called Rex"]
    sessions = list("abcdef")
    forward = ranked(copy_of(texts, sessions=sessions), "what is my cat").relevance
    backward = ranked(copy_of(texts[::-1], sessions=sessions), "what is my cat").relevance
    assert forward == pytest.approx(backward[::-1], abs=1e-5)
