"""Turns made elsewhere."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connections
from django.utils import timezone

from governance.policy import change_policy
from memory.errors import InvalidInputError, NotFoundError
from memory.models import Job, Tenant
from memory.rls import scoped_transaction
from tests.factories import NOW, make_agent, make_end_user, make_tenant, scope_of
from tests.talking import new_thread, session_of, tell
from threads.models import Message, Run, RunOrigin, Thread, ThreadStatus
from threads.places import ThreadArchivedError
from threads.turns import RecordedMessage, RecordedTurn, record_turn, record_turns

SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


@pytest.fixture
def thread(db: None) -> Thread:
    return new_thread(make_agent(make_tenant()))


def record(thread: Thread, **values: Any) -> tuple[Run, bool]:
    turn = RecordedTurn(**({"input": "问", "output": "答"} | values))
    return record_turn(scope=session_of(thread), thread_id=thread.pk, turn=turn, now=NOW)


def rows(model: Any, thread: Thread) -> list:
    with scoped_transaction(session_of(thread)):
        return list(model.objects.in_scope(session_of(thread)).order_by("id"))


def test_repeat_by_external_id_returns_the_first(thread: Thread) -> None:
    first, is_new = record(thread, external_id="x-1")
    again, is_new_again = record(thread, external_id="x-1", input="别的")
    assert (is_new, is_new_again) == (True, False)
    assert again.pk == first.pk
    assert again.input == "问"
    other = new_thread(make_agent(Tenant(id=thread.tenant_id)))
    turn = RecordedTurn(input="a", output="b", external_id="x-1")
    wide = scope_of(Tenant(id=thread.tenant_id))
    third, is_third_new = record_turn(scope=wide, thread_id=other.pk, turn=turn, now=NOW)
    assert (third.pk, is_third_new) == (first.pk, False)
    assert len(rows(Run, thread)) == 1


def test_same_external_id_in_two_tenants_makes_two_runs(db: None) -> None:
    runs = [record(new_thread(make_agent(make_tenant())), external_id="x-1") for _ in range(2)]
    assert [is_new for _, is_new in runs] == [True, True]


def test_recorded_turn_keeps_its_messages_times_and_title(thread: Thread) -> None:
    at = NOW - timedelta(days=9)
    run, _ = record(
        thread,
        input="库存？" * 20,
        output="十二",
        created_at=at,
        messages=(
            RecordedMessage(role="user", content="库存？", speaker="老师", external_id="m-1"),
            RecordedMessage(role="assistant", content=""),
            RecordedMessage(role="tool", content="12", name="erp", tool_call_id="call_1"),
            RecordedMessage(role="assistant", content="十二", created_at=NOW),
        ),
    )
    messages = sorted(rows(Message, thread), key=lambda one: one.position)
    assert [one.role for one in messages] == ["user", "assistant", "tool", "assistant"]
    assert (messages[0].speaker, messages[0].external_id) == ("老师", "m-1")
    assert (messages[2].name, messages[2].tool_call_id) == ("erp", "call_1")
    assert [one.created_at for one in messages] == [at, at, at, NOW]
    assert (run.created_at, run.is_time_assumed, run.message_count) == (at, False, 4)
    assert (run.origin, run.seq, run.status) == ("api", 1, "succeeded")
    assert rows(Thread, thread)[0].title == ("库存？" * 20)[:40]
    unknown, _ = record(thread)
    assert (unknown.created_at, unknown.is_time_assumed) == (NOW, True)


def test_turn_of_another_age_is_refused_and_one_of_tomorrow_leads_no_list(thread: Thread) -> None:
    for far in (NOW + timedelta(days=1, seconds=1), NOW.replace(year=1969)):
        with pytest.raises(InvalidInputError, match="1970-01-01"):
            record(thread, created_at=far)
    with scoped_transaction(session_of(thread)):
        Thread.objects.in_scope(session_of(thread)).update(updated_at=NOW - timedelta(days=9))
    run, _ = record(thread, created_at=NOW + timedelta(hours=23))
    assert run.created_at == NOW + timedelta(hours=23)
    assert rows(Thread, thread)[0].updated_at == NOW


@pytest.mark.req("A11")
def test_recorded_failure_costs_only_its_question(thread: Thread) -> None:
    run, _ = record(thread, status="failed", output="Traceback " * 500)
    assert run.error_code == "recorded_as_failed"
    assert run.turn_tokens < 30


def test_archived_unknown_and_foreign_threads_are_refused(thread: Thread) -> None:
    with pytest.raises(NotFoundError):
        record_turn(
            scope=session_of(thread),
            thread_id="th_nothing",
            turn=RecordedTurn(input="a", output="b"),
            now=NOW,
        )
    stranger = scope_of(make_tenant())
    with pytest.raises(NotFoundError):
        record_turn(
            scope=stranger, thread_id=thread.pk, turn=RecordedTurn(input="a", output="b"), now=NOW
        )
    with scoped_transaction(session_of(thread)):
        Thread.objects.in_scope(session_of(thread)).update(status=ThreadStatus.ARCHIVED)
    with pytest.raises(ThreadArchivedError):
        record(thread)


@pytest.mark.req("B17")
def test_secrets_are_in_no_column_of_a_recorded_turn_91(
    committed_db: None, superuser_url: str
) -> None:
    """91: looked for in every column of every table."""
    thread = new_thread(make_agent(make_tenant()))
    record(
        thread,
        input=f"key {SECRET}",
        output=f"got {SECRET}",
        messages=(
            RecordedMessage(
                role="user",
                content=f"key {SECRET}",
                name=SECRET,
                speaker=f"me {SECRET}",
                tool_call_id=SECRET,
                external_id=f"e {SECRET}",
            ),
        ),
    )
    with pytest.raises(InvalidInputError):
        record(thread, external_id=SECRET)
    assert tables_with(superuser_url, SECRET) == []
    assert tables_with(superuser_url, "[secret:") == [
        "threads_message", "threads_run", "threads_thread"
    ]  # fmt: skip


def tables_with(superuser_url: str, needle: str) -> list[str]:
    """Return the tables that hold `needle` in any column of any row."""
    found = []
    with psycopg.connect(superuser_url) as behind:
        tables = behind.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        for (table,) in tables.fetchall():
            row = behind.execute(
                f'SELECT count(*) FROM "{table}" t WHERE strpos(t::text, %s) > 0', [needle]
            ).fetchone()
            if row != (0,):
                found.append(table)
    return sorted(found)


@pytest.mark.req("D03")
def test_recording_past_the_limit_enqueues_one_roll_unless_writeback_is_off(db: None) -> None:
    for is_on in (True, False):
        thread = new_thread(make_agent(make_tenant()))
        tenant = scope_of(Tenant(id=thread.tenant_id))
        change_policy(scope=tenant, changes={"writeback": is_on}, now=NOW)
        tell(thread, [(f"问{n}", "答") for n in range(10)])
        assert rolls(thread) == []
        tell(thread, [("问", "答"), ("再问", "再答")])
        assert [job.cursor_to for job in rolls(thread)] == ([12] if is_on else [])


def rolls(thread: Thread) -> list[Job]:
    return [job for job in rows(Job, thread) if job.kind == "roll_summary"]


def test_import_of_1000_turns_repeats_without_doubling(thread: Thread) -> None:
    turns = [RecordedTurn(input=f"问{n}", output=f"答{n}", import_key=f"k{n}") for n in range(1000)]
    scope = session_of(thread)
    with scoped_transaction(scope):
        for expected in (1000, 0):
            made = record_turns(
                scope=scope, thread=thread, turns=turns, origin=RunOrigin.IMPORT, now=NOW
            )
            assert len(made) == expected
    seqs = [run.seq for run in rows(Run, thread)]
    assert sorted(seqs) == list(range(1, 1001))
    stored = rows(Thread, thread)[0]
    assert (stored.run_count, stored.next_seq) == (1000, 1001)


def test_same_turn_twice_in_one_batch_is_one(thread: Thread) -> None:
    tell(thread, [("问", "答"), ("问", "答")], external_id="same")
    assert len(rows(Run, thread)) == 1


def at_once(works: Any) -> list:
    """Run each work in a thread of its own, all let go at one moment; return what failed."""
    gate, failures = threading.Barrier(len(works), timeout=30), []

    def go(work: Any) -> None:
        try:
            gate.wait()
            work()
        except Exception as error:  # noqa: BLE001 - reported by the test
            failures.append(error)
        finally:
            connections.close_all()

    started = [threading.Thread(target=go, args=(work,)) for work in works]
    for one in started:
        one.start()
    for one in started:
        one.join(60)
    return failures


@pytest.mark.req("A06")
def test_ten_recorders_at_once_make_dense_unique_numbers_g1(committed_db: None) -> None:
    """G1."""
    thread = new_thread(make_agent(make_tenant()))
    assert at_once([lambda n=n: record(thread, input=f"问{n}") for n in range(10)]) == []
    made = rows(Run, thread)
    assert sorted(run.seq for run in made) == list(range(1, 11))
    assert {run.input for run in made} == {f"问{n}" for n in range(10)}
    assert rows(Thread, thread)[0].run_count == 10
    assert len(rows(Message, thread)) == 20


def test_same_external_id_at_once_in_two_threads_makes_one_run(committed_db: None) -> None:
    agent = make_agent(make_tenant())
    person = make_end_user(Tenant(id=agent.tenant_id))
    threads = [new_thread(agent, person) for _ in range(6)]
    found = []
    wide = scope_of(Tenant(id=agent.tenant_id))
    works = [
        lambda one=one: found.append(
            record_turn(
                scope=wide,
                thread_id=one.pk,
                turn=RecordedTurn(input="问", output="答", external_id="x"),
                now=timezone.now(),
            )
        )
        for one in threads
    ]
    assert at_once(works) == []
    assert len({run.pk for run, _ in found}) == 1
    assert sum(is_new for _, is_new in found) == 1


def steps_of(thread: Thread, *said: tuple[str, str, str | None]) -> list[dict[str, str]]:
    """Record a turn of (role, content, tool_call_id) and return its tool steps."""
    messages = tuple(
        RecordedMessage(role=role, content=content, tool_call_id=call_id, name="look")
        for role, content, call_id in said
    )
    run, _ = record(thread, messages=messages)
    steps: list[dict[str, str]] = run.tool_steps
    return steps


def test_results_of_a_recorded_turn_are_shown_each_once_b10(thread: Thread) -> None:
    """B10: user, assistant (two calls), tool, tool; then the answer."""
    said = (("user", "问", None), ("assistant", "", None), ("tool", f"甲 {SECRET}", "c1"))
    steps = steps_of(thread, *said, ("tool", "乙\n" * 300, "c2"), ("assistant", "答", None))
    stored = [row for row in rows(Message, thread) if row.role == "tool"]
    assert [step["reference_id"] for step in steps] == [row.pk for row in stored]
    assert all(step["name"] == "look" and len(step["result"]) <= 200 for step in steps)
    assert SECRET not in repr(steps)
    plain = record(new_thread(make_agent(Tenant(id=thread.tenant_id))))[0]
    assert rows(Run, thread)[0].turn_tokens > plain.turn_tokens + 40


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ((("user", "问", None), ("tool", "alone", "c1"), ("assistant", "答", None)), []),
        ((("user", "问", None), ("assistant", "calls", None)), []),
        (
            (
                ("user", "问", None),
                ("assistant", "", None),
                ("tool", "first", "c1"),
                ("tool", "again", "c1"),
                ("tool", "no id", None),
            ),
            ["first", "no id"],
        ),
    ],
)
def test_orphaned_and_doubled_results_of_a_recorded_turn_are_not_shown(
    thread: Thread, said: Any, shown: list[str]
) -> None:
    assert [step["result"] for step in steps_of(thread, *said)] == shown
    assert len(rows(Message, thread)) == len(said)


def test_recorded_turn_that_failed_shows_no_tools(thread: Thread) -> None:
    messages = (
        RecordedMessage(role="user", content="问"),
        RecordedMessage(role="assistant", content=""),
        RecordedMessage(role="tool", content="found", tool_call_id="c1"),
    )
    run, _ = record(thread, messages=messages, status="failed")
    assert run.tool_steps == []
