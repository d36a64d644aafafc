"""Compressing a past until its prompt fits: order, veto list, budgets, and the account of it."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.policy_rules import effective
from memory.boundary import HistoryTurn, ToolLine, new_tag, wording_for
from memory.compression.veto import missing
from memory.language import resolve
from memory.sections import Candidate
from memory.tokens import estimate
from memory.trust import ContextItem
from threads.counting import Counter
from threads.history import ThreadView, TurnHead, turn_tokens
from threads.models import Agent
from threads.prompt.assembly import Assembled, assemble
from threads.prompt.given import PromptInput
from threads.request import HandedFact, HandedMaterial, RunRequest
from threads.rolling import RollingPast
from threads.turn_cutting import CutMarks

NOW = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
TAG = new_tag(random.Random(5))
ZH = "把第三题的二叉树改成红黑树，总分一百分。"
EN = "Please swap question three for a red-black tree, one hundred points in all. "


def turn(seq: int, question: str, answer: str, *, steps: int = 0) -> tuple[TurnHead, HistoryTurn]:
    head = TurnHead(
        run_id=f"run_{seq}",
        seq=seq,
        tokens=turn_tokens(input_text=question, output_text=answer),
        message_count=2,
        created_at=NOW + timedelta(days=seq),
    )
    lines = tuple(
        ToolLine(
            name="memory_grep",
            arguments='{"query": "红黑树"}' * 5,
            result="三条结果：" + ZH * 5,
            reference_id=f"msg_tool{seq}{step}",
        )
        for step in range(steps)
    )
    return head, HistoryTurn(user_text=question, assistant_text=answer, tool_lines=lines)


def marks(run_ids: Any) -> dict[str, CutMarks]:
    wording = wording_for("zh")
    return {
        run_id: CutMarks(
            question=wording.mark_of_cut(message_id=f"msg_q{run_id}"),
            answer=wording.mark_of_cut(message_id=f"msg_a{run_id}"),
        )
        for run_id in run_ids
    }


def build(
    question: str,
    turns: Any = (),
    *,
    summary: str = "",
    window: int = 1024,
    output: int = 256,
    system: str = "You help.",
    remembered: Any = None,
    policy: Any = None,
    model: str = "gpt-4o",
    **request: Any,
) -> Assembled:
    agent = Agent(
        system_prompt=system,
        context_window=window,
        max_output_tokens=output,
        language="auto",
        model=model,
        role="examiner",
    )
    wording = wording_for(resolve("auto", question))
    past = RollingPast(
        thread_id="th_1",
        view=ThreadView(summary=summary, upto_seq=0, heads=tuple(head for head, _ in turns)),
        loaded=tuple(turns),
        wording=wording,
        tag=TAG,
        policy=effective(policy or {}),
        marks_of=marks,
    )
    return assemble(
        PromptInput(
            agent=agent,
            policy=past.policy,
            wording=wording,
            tag=TAG,
            past=past,
            counter=Counter.new(model),
            request=RunRequest(input=question, user_id="u", **request),
            question=question,
            now=NOW,
            is_bootstrap=True,
            remembered=remembered or {},
        )
    )


def preference(text: str, number: int = 1) -> Candidate:
    item = ContextItem(
        section="preferences",
        kind="preference",
        id=f"mem_{number}",
        tier="approved",
        content=text,
        approved_at=NOW,
    )
    return Candidate(item=item, label="", text=text)


def real_tokens(built: Assembled) -> int:
    return sum(
        estimate(message.content, kind="tokenizer", model="gpt-4o") for message in built.messages
    )


def levels(built: Assembled) -> list[tuple[str, str]]:
    return [(step.level, step.outcome) for step in built.compressions]


@pytest.mark.req("B04")
@pytest.mark.parametrize("text", [ZH, EN])
def test_decisions_come_in_the_stated_order(text: str) -> None:
    question = "第三题呢？" if text == ZH else "And question three?"
    turns = [turn(n, f"{n} {text}", text) for n in range(1, 5)]
    long = (HandedMaterial(title="大纲", content=text * 60),)
    assert build(question, turns, window=8192).ledger.decision == "pass"
    assert build(question, turns, window=1024, materials=long).ledger.decision == "trim"
    many = [turn(n, f"{n} {text}", text * 3) for n in range(1, 12)]
    assert build(question, many, window=1024).ledger.decision == "compress"
    assert build(text * 200, turns, window=1024).ledger.decision == "reject"


@pytest.mark.req("B08")
@pytest.mark.req("B11")
def test_repeats_go_first_and_nothing_else_if_that_does() -> None:
    turns = [turn(n, ZH * 6, ZH * 6) for n in range(1, 5)]
    built = build("第三题呢？", turns)
    assert levels(built) == [("dedupe", "kept")]
    assert built.ledger.decision == "compress"
    (step,) = built.compressions
    assert step.tokens_after < step.tokens_before
    assert step.summary_id.startswith("sum_")
    assert built.pending_summary is None


@pytest.mark.req("B12")
def test_tool_answers_become_references_before_any_turn_leaves() -> None:
    turns = [turn(n, f"第{n}题？", f"第{n}题改好了", steps=2) for n in range(1, 4)]
    built = build("第三题呢？", turns)
    assert levels(built) == [("dedupe", "nothing"), ("tool_results", "kept")]
    content = built.messages[-1].content
    for number in range(1, 4):
        assert f"msg_tool{number}0" in content
        assert f"第{number}题改好了" in content
    assert "三条结果" not in content


@pytest.mark.req("B08")
@pytest.mark.req("B09")
def test_older_turns_leave_for_a_summary_and_the_last_two_stay() -> None:
    turns = [turn(n, f"第{n}问：{ZH}", f"第{n}答：{ZH * 2}") for n in range(1, 13)]
    built = build("订单呢？", turns)
    assert levels(built)[-1] == ("summary", "kept")
    content = built.messages[-1].content
    assert "第11问" in content
    assert "第12问" in content
    assert built.pending_summary is not None
    assert {told.seq for told in built.pending_summary.turns} <= set(range(1, 11))
    rows = {row.name: row for row in built.ledger.sections}
    assert any(gone.reason == "awaiting_summary" for gone in rows["thread"].dropped)


@pytest.mark.req("B09")
@pytest.mark.parametrize(
    ("anchor", "question"),
    [
        ("AB-1003", "订单AB-1003是什么？"),
        ("2026-03-14", "2026-03-14 那天说了什么？"),
        ("1,250.50", "Where did 1,250.50 come from?"),
        ("“蓝鲸”", "“蓝鲸”是谁起的名？"),
    ],
)
def test_what_the_request_names_and_the_past_holds_is_not_lost(anchor: str, question: str) -> None:
    turns = [turn(n, f"第{n}问：{ZH}", f"第{n}答：{ZH * 2}") for n in range(2, 13)]
    turns.insert(0, turn(1, f"记下{anchor}这件事。", ZH))
    built = build(question, turns)
    assert built.ledger.decision == "compress"
    past = built.messages[-1].content.removesuffix(question)
    assert anchor.strip("“”") in past


@pytest.mark.req("B09")
def test_open_items_of_a_summary_survive_its_cutting() -> None:
    summary = "\n".join([*(f"- 2026-01-{n:02} {ZH}" for n in range(1, 20)), "待办：给第五题写解析"])
    turns = [turn(n, f"第{n}问", ZH * 4) for n in range(1, 8)]
    built = build("接着做", turns, summary=summary)
    assert built.ledger.decision == "compress"
    assert "待办：给第五题写解析" in built.messages[-1].content


@pytest.mark.req("B08")
def test_prompt_that_no_level_makes_fit_is_refused_with_everything_named() -> None:
    turns = [turn(n, f"第{n}问", ZH * 4) for n in range(1, 8)]
    question = "第三题"
    while estimate(question, kind="tokenizer", model="gpt-4o") < 660:
        question += "接下来再问一句别的，"
    assert build(question).ledger.decision in {"pass", "trim"}
    built = build(question, turns)
    assert built.ledger.decision == "reject"
    assert built.messages == ()
    for row in built.ledger.sections:
        assert row.granted == 0
        assert sum(gone.tokens for gone in row.dropped) == row.wanted


@pytest.mark.req("A08")
def test_preferences_are_never_cut_for_anything_else() -> None:
    wanted = {"preferences": [preference("回答用中文，先给结论。"), preference("不用表格。", 2)]}
    turns = [turn(n, f"第{n}问：{ZH}", f"第{n}答：{ZH * 2}") for n in range(1, 13)]
    built = build(
        "第三题呢？",
        turns,
        remembered=wanted,
        materials=(HandedMaterial(title="大纲", content=ZH * 300),),
    )
    assert built.ledger.decision == "compress"
    content = built.messages[-1].content
    assert (
        content.index("[User Preferences") < content.index("回答用中文") < content.index("不用表格")
    )
    rows = {row.name: row for row in built.ledger.sections}
    assert rows["preferences"].dropped == ()
    assert rows["reference"].granted == 0


words = st.one_of(
    st.text(max_size=120),
    st.sampled_from(
        [ZH, EN, "订单AB-1003，", "12.50 ", "\n", "😀", "ข้อสอบ", "dGhpcyBpcyBiYXNl"]
    ).flatmap(lambda piece: st.integers(1, 60).map(lambda count: piece * count)),
)
pairs = st.lists(st.tuples(words, words, st.integers(0, 2)), max_size=9)


@pytest.mark.req("B03")
@pytest.mark.req("B09")
@settings(max_examples=120, deadline=None)
@given(
    question=words.filter(lambda text: text.strip()),
    system=words,
    summary=words,
    said=pairs,
    facts=st.lists(st.tuples(words, words), max_size=3),
    materials=st.lists(st.tuples(words, words), max_size=2),
    preferences=st.lists(words.filter(lambda text: text.strip()), max_size=2),
    window=st.integers(1024, 9000),
    model=st.sampled_from(["gpt-4o", "gpt-4", "some-local-model"]),
)
def test_any_prompt_is_within_target_by_the_real_tokenizer_and_keeps_the_veto_list(
    question: Any,
    system: Any,
    summary: Any,
    said: Any,
    facts: Any,
    materials: Any,
    preferences: Any,
    window: Any,
    model: Any,
) -> None:
    turns = [turn(n, q, a, steps=steps) for n, (q, a, steps) in enumerate(said, start=1)]
    built = build(
        question,
        turns,
        summary=summary,
        window=window,
        system=system,
        model=model,
        remembered={"preferences": [preference(p, n) for n, p in enumerate(preferences)]},
        facts=tuple(HandedFact(label=label, value=value) for label, value in facts),
        materials=tuple(HandedMaterial(title=title, content=text) for title, text in materials),
    )
    ledger = built.ledger
    rows = {row.name: row for row in ledger.sections}
    for row in ledger.sections:
        assert row.granted + sum(gone.tokens for gone in row.dropped) == row.wanted
        assert row.granted <= max(row.cap, 0)
    if ledger.decision == "reject":
        assert built.messages == ()
        return
    exact = sum(
        estimate(message.content, kind="tokenizer", model=model) for message in built.messages
    )
    assert exact + 4 * len(built.messages) + 3 <= ledger.target_budget
    assert ledger.prompt_tokens <= ledger.target_budget
    assert sum(row.granted for row in ledger.sections) <= ledger.prompt_tokens
    assert ledger.current_tokens >= ledger.prompt_tokens
    assert missing(built.veto, messages=built.messages, tools=()) == ()
    assert built.messages[-1].content.endswith(question)
    places = [row.position for row in ledger.sections]
    assert places == sorted(places)
    if "preferences" in rows and rows["preferences"].dropped:
        assert rows["preferences"].cap == 400  # its own cap, not the room
