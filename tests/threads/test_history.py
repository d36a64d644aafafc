"""What of a thread's past gets into a prompt, on a real database."""

from __future__ import annotations

import random
from typing import Any

import pytest

from governance.policy_rules import effective
from memory.boundary import CHINESE, ENGLISH
from memory.models import Tenant
from memory.rls import scoped_transaction
from memory.sanitize import sanitize
from memory.tokens import estimate
from tests.factories import make_agent, make_run, make_tenant
from tests.talking import new_thread, session_of, tell
from tests.threads.thread_sections import (
    EN,
    TAG,
    ZH,
    accounted,
    assert_cut_turns_are_marked_and_named,
    packed,
    random_text,
    section_of,
    summarise,
)
from threads.history import (
    needs_roll,
    read_view,
    uncovered_totals,
    verbatim_room,
)
from threads.models import Run, Thread


@pytest.fixture
def thread(db: None) -> Thread:
    return new_thread(make_agent(make_tenant()))


@pytest.mark.req("A08")
@pytest.mark.parametrize("seed", range(24))
def test_every_finished_turn_is_summarised_shown_or_named(thread: Thread, seed: Any) -> None:
    rng = random.Random(seed)
    for _ in range(rng.choice([1, 3, 12, 30])):
        status = rng.choice(["succeeded"] * 5 + ["failed"])
        tell(thread, [(random_text(rng), random_text(rng))], status=status)
    policy = rng.choice([{}, {"recent_turns": 0}, {"recent_turns": 5}, {"summary_tokens": 200}])
    upto = rng.choice([0, 0, 1])
    if upto:
        summarise(thread, random_text(rng) or "摘要", upto)
    cap = rng.choice([0, 60, 150, 400, 1000, 2000, 2000])
    wording = rng.choice([CHINESE, ENGLISH])
    view, section = section_of(thread, cap=cap, wording=wording, **policy)
    with scoped_transaction(session_of(thread)):
        finished = set(
            Run.objects.in_scope(session_of(thread))
            .filter(status__in=("succeeded", "failed"))
            .values_list("seq", flat=True)
        )
    assert finished <= accounted(view, section)
    assert section.tokens == estimate(section.text) <= cap
    assert estimate(section.summary) <= 600
    closing = wording.close_line(section=wording.history, tag=TAG)
    assert section.text.count(closing) == (1 if section.text else 0)
    assert "<|im_start|>" not in section.text
    seqs = [head.seq for head in section.shown]
    assert seqs == sorted(seqs)
    if seqs:
        assert seqs == list(range(seqs[0], view.heads[-1].seq + 1))
    if section.summary != sanitize(view.summary).text:
        assert "summary" in {row.kind for row in section.dropped()}
    assert section.wanted == section.tokens + sum(row.tokens for row in section.dropped())
    assert_cut_turns_are_marked_and_named(thread, section, wording)


@pytest.mark.req("A11")
def test_failed_turn_is_placeholder_without_output_or_error(thread: Thread) -> None:
    tell(thread, [("那道题呢", "Traceback HTTP 500 sk-secret")], status="failed")
    tell(thread, [("再试一次", "好了")])
    _, section = section_of(thread)
    assert "‹助手› （该轮未成功完成，已跳过）" in section.text
    assert "那道题呢" in section.text
    assert "Traceback" not in section.text
    assert "recorded_as_failed" not in section.text


@pytest.mark.req("A11")
def test_failed_turn_with_giant_output_leaves_room_to_others(thread: Thread) -> None:
    tell(thread, [("失败的", EN * 2000)], status="failed")
    tell(thread, [("成功的", ZH * 20)])
    _, section = section_of(thread)
    assert ZH * 20 in section.text
    assert "略去" not in section.text


@pytest.mark.req("A11")
def test_cancelled_rejected_and_unfinished_are_left_out(thread: Thread) -> None:
    for status in ("cancelled", "rejected"):
        make_run(thread, status=status, input=f"MARK-{status}", output="MARK")
    make_run(
        thread,
        status="running",
        origin="run",
        input="MARK-running",
        output="",
        finished_at=None,
        lease_until="2036-01-01T00:00:00Z",
    )
    make_run(thread, input="可见", output="答", turn_tokens=20, message_count=2)
    view, section = section_of(thread)
    assert [head.seq for head in view.heads] == [4]
    assert "可见" in section.text
    assert "MARK" not in section.text


def test_backlog_beyond_400_turns_is_named_by_its_numbers(thread: Thread) -> None:
    tell(thread, [(f"第{number}问", "答") for number in range(450)])
    view, section = section_of(thread)
    assert len(view.heads) == 400
    assert view.older_uncovered == 50
    assert accounted(view, section) == set(range(1, 451))
    rows = section.dropped()
    assert [row.kind for row in rows] == ["turns", *["turn"] * 50]
    assert rows[0].id == f"1-{450 - len(section.shown) - 50}"
    assert sum(row.tokens for row in rows) + sum(head.tokens for head in section.shown) == (
        view.uncovered_tokens
    )
    assert f"另有 {450 - len(section.shown)} 轮" in section.text
    scope = session_of(thread)
    with scoped_transaction(scope):
        oldest = read_view(scope=scope, thread_id=thread.pk, is_oldest_first=True)
        totals = uncovered_totals(scope=scope, thread_id=thread.pk)
    assert [head.seq for head in oldest.heads] == list(range(1, 401))
    assert totals == (900, view.uncovered_tokens)
    assert oldest.uncovered_tokens == view.uncovered_tokens


def test_long_summary_is_cut_and_named_and_turns_keep_half(thread: Thread) -> None:
    tell(thread, [("一", "二"), (ZH * 2, ZH * 2)])
    summarise(thread, ZH * 100, 1)
    _, section = section_of(thread, cap=500)
    assert [head.seq for head in section.shown] == [2]
    assert 0 < estimate(section.summary) <= 250
    rows = section.dropped()
    assert [(row.kind, row.reason) for row in rows] == [("summary", "cut")]
    assert rows[0].id == thread.pk


def test_turn_erased_after_the_look_shifts_no_other(thread: Thread) -> None:
    tell(thread, [("一问", "一答"), ("二问", ZH * 60), ("三问", ZH * 60)])
    scope = session_of(thread)
    with scoped_transaction(scope):
        view = read_view(scope=scope, thread_id=thread.pk)
        gone = Run.objects.in_scope(scope).filter(seq=2)
        gone.delete()
        section = packed(scope, view, wording=CHINESE, policy=effective(), cap=2000)
    assert [head.seq for head in section.shown] == [1, 3]
    assert "二问" not in section.text
    assert section.text.index("一答") < section.text.index("三问")


@pytest.mark.req("D03")
def test_roll_is_due_past_twenty_messages_or_when_turns_no_longer_fit() -> None:
    policy = effective()
    room = verbatim_room(policy=policy)
    assert 1000 < room < 1400
    assert not needs_roll(policy=policy, uncovered_messages=20, uncovered_tokens=room)
    assert needs_roll(policy=policy, uncovered_messages=21, uncovered_tokens=0)
    assert needs_roll(policy=policy, uncovered_messages=1, uncovered_tokens=room + 1)
    short = effective({"summary_after_messages": 4})
    assert needs_roll(policy=short, uncovered_messages=5, uncovered_tokens=0)


@pytest.mark.parametrize("text", [ZH, EN])
def test_turns_not_due_for_rolling_are_all_verbatim(thread: Thread, text: Any) -> None:
    """The boundary's allowance is real: whatever is not rolled fits beside a full summary."""
    tell(thread, [("摘要里的", "一轮")])
    summarise(thread, (text * 60)[: 600 if text == ZH else 2000], 1)
    for number in range(9):
        tell(thread, [(f"{number}{text}", text * 2)])
        view, section = section_of(thread)
        is_due = needs_roll(
            policy=effective(),
            uncovered_messages=view.uncovered_messages,
            uncovered_tokens=view.uncovered_tokens,
        )
        if not is_due:
            assert section.dropped() == ()
            assert len(section.shown) == number + 1


def test_empty_thread_shows_nothing(thread: Thread) -> None:
    view, section = section_of(thread)
    assert (view.heads, section.text, section.tokens, section.dropped()) == ((), "", 0, ())


@pytest.mark.req("B18")
def test_summary_of_another_session_cannot_be_read(thread: Thread) -> None:
    tell(thread, [("一", "二")])
    summarise(thread, "只属于这个会话", 1)
    other = new_thread(make_agent(Tenant(id=thread.tenant_id)))
    scope = session_of(other)
    with scoped_transaction(scope):
        assert read_view(scope=scope, thread_id=thread.pk).summary == ""
