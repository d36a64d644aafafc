"""A run's life in the database: accepted with a number, ended once, teaching only if it succeeded."""

from __future__ import annotations

import inspect
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import IntegrityError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from governance.policy import change_policy
from memory.errors import NotFoundError
from memory.models import Job, Tenant
from memory.rls import scoped_transaction
from tests.factories import (
    NOW,
    make_agent,
    make_end_user,
    make_key,
    make_run,
    make_tenant,
    scope_of,
)
from tests.talking import new_thread, prepare, stored_run, tell
from tests.threads.test_turns import at_once, tables_with
from threads import finish, pipeline, runs
from threads.models import Message, Run, RunStatus, RunTrace, Thread
from threads.runs import Answered, RunFinishedError, cancel_run, read_run

SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


@pytest.fixture
def world(db: None) -> Any:
    tenant = make_tenant()
    return tenant, make_key(tenant), make_agent(tenant)


def answered(text: str = "答", **values: Any) -> Answered:
    given: dict[str, Any] = {
        "text": text,
        "model": "m",
        "input_tokens": 5,
        "output_tokens": 2,
        "cost_usd": Decimal(0),
        "is_cost_known": True,
        "steps": ({"kind": "model", "ms": 1.5, "data": {}},),
    }
    return Answered(**(given | values))


def thread_of(prepared: Any) -> Thread:
    with scoped_transaction(prepared.scope):
        return Thread.objects.in_scope(prepared.scope).get(pk=prepared.thread_id)


@pytest.mark.req("A04")
def test_new_thread_and_untitled_thread_take_their_title_from_the_first_input(world: Any) -> None:
    tenant, key, agent = world
    prepared = prepare(key, agent, "出一份\n数据结构试卷" * 10)
    assert prepared.title == thread_of(prepared).title == ("出一份 数据结构试卷" * 10)[:40]
    prepare(key, agent, "另一个问题", prepared.thread_id)
    assert thread_of(prepared).title == prepared.title
    empty = new_thread(agent, make_end_user(tenant, "teacher-7b"))
    later = prepare(key, agent, "第一句", empty.pk, user_id="teacher-7b")
    assert later.title == thread_of(later).title == "第一句"


@pytest.mark.req("A05")
def test_runs_accepted_at_once_have_dense_unique_numbers_g1(committed_db: None) -> None:
    """G1."""
    tenant = make_tenant()
    key, agent = make_key(tenant), make_agent(tenant)
    first = prepare(key, agent, "0")
    works = [lambda n=n: prepare(key, agent, str(n), first.thread_id) for n in range(1, 10)]
    assert at_once(works) == []
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        found = list(Run.objects.in_scope(scope).order_by("seq").values_list("seq", "input"))
    assert [seq for seq, _ in found] == list(range(1, 11))
    assert {text for _, text in found} == {str(n) for n in range(10)}


def accept_next(tenant: Tenant, thread: Thread) -> Run:
    return runs.accept(
        scope=scope_of(tenant),
        thread=thread,
        question=runs.Question(text="next"),
        now=NOW,
        is_bootstrap=False,
        context={},
    )


@pytest.mark.req("A05")
def test_number_of_a_rolled_back_accept_is_given_back(world: Any) -> None:
    tenant, key, agent = world
    first = prepare(key, agent, "一")

    def take_and_break() -> None:
        with scoped_transaction(scope_of(tenant)):
            assert accept_next(tenant, thread_of(first)).seq == 2
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        take_and_break()
    prepare(key, agent, "二", first.thread_id)
    assert thread_of(first).next_seq == 3


def test_accept_in_an_erased_thread_is_not_found(world: Any) -> None:
    tenant, _, agent = world
    gone = new_thread(agent)
    with scoped_transaction(scope_of(tenant)):
        Thread.objects.in_scope(scope_of(tenant)).filter(pk=gone.pk).delete()
        with pytest.raises(NotFoundError):
            accept_next(tenant, gone)


def test_accepted_run_has_its_input_message_and_a_lease(world: Any) -> None:
    _, key, agent = world
    before = timezone.now()
    prepared = prepare(key, agent, "问题")
    run = stored_run(prepared)
    assert (run.status, run.input, run.seq, run.message_count) == ("running", "问题", 1, 1)
    assert run.lease_until is not None
    assert run.lease_until > before + timedelta(seconds=300)
    with scoped_transaction(prepared.scope):
        message = Message.objects.in_scope(prepared.scope).get()
    assert (message.role, message.position, message.content) == ("user", 0, "问题")


def end_of(prepared: Any, how: str) -> bool:
    now = timezone.now()
    if how == "succeeded":
        stored = finish.succeed(prepared=prepared, answered=answered(), now=now)
        return stored is not None
    if how == "failed":
        return finish.fail(prepared=prepared, code="x", detail="y" * 900, now=now)
    return finish.cancel(prepared=prepared, now=now)


@pytest.mark.parametrize("first", ["succeeded", "failed", "cancelled"])
@pytest.mark.parametrize("second", ["succeeded", "failed", "cancelled"])
def test_first_end_stands_and_the_second_changes_nothing_139(
    world: Any, first: Any, second: Any
) -> None:
    """139."""
    _, key, agent = world
    prepared = prepare(key, agent, "问")
    assert end_of(prepared, first)
    before = stored_run(prepared)
    assert before.status == first
    assert not end_of(prepared, second)
    after = stored_run(prepared)
    assert (after.status, after.finished_at, after.output) == (
        before.status,
        before.finished_at,
        before.output,
    )
    with scoped_transaction(prepared.scope):
        count = Message.objects.in_scope(prepared.scope).count()
    assert count == (2 if first == "succeeded" else 1)
    with pytest.raises(RunFinishedError):
        cancel_run(scope=prepared.scope, run_id=prepared.run_id, now=NOW)


def test_cancelling_and_finishing_at_once_has_one_winner(committed_db: None) -> None:
    tenant = make_tenant()
    key, agent = make_key(tenant), make_agent(tenant)
    for _ in range(5):
        prepared = prepare(key, agent, "问")
        results: dict[str, bool] = {}
        works = [
            lambda how=how, p=prepared, r=results: r.update({how: end_of(p, how)})
            for how in ("succeeded", "failed", "cancelled")
        ]
        assert at_once(works) == []
        winners = [how for how, is_won in results.items() if is_won]
        assert winners == [stored_run(prepared).status]


def test_database_refuses_a_move_the_state_machine_lacks(world: Any) -> None:
    _, key, agent = world
    prepared = prepare(key, agent, "问")
    end_of(prepared, "failed")
    with pytest.raises(IntegrityError), scoped_transaction(prepared.scope):
        Run.objects.in_scope(prepared.scope).update(status=RunStatus.SUCCEEDED)


def test_cancel_of_another_tenants_run_is_not_found(world: Any) -> None:
    _, key, agent = world
    prepared = prepare(key, agent, "问")
    with pytest.raises(NotFoundError):
        cancel_run(scope=scope_of(make_tenant()), run_id=prepared.run_id, now=NOW)
    with pytest.raises(NotFoundError), scoped_transaction(prepared.scope):
        read_run(scope=prepared.scope, run_id="run_nothing")
    assert stored_run(prepared).status == "running"


@pytest.mark.req("B13")
@pytest.mark.parametrize("how", ["succeeded", "failed", "cancelled"])
@pytest.mark.parametrize("is_on", [True, False])
def test_only_a_succeeded_run_with_the_switch_on_enqueues_work(
    world: Any, how: Any, is_on: Any
) -> None:
    tenant, key, agent = world
    change_policy(scope=scope_of(tenant), changes={"writeback": is_on}, now=NOW)
    thread = new_thread(agent, make_end_user(tenant, "teacher-7"))
    make_turns(thread, 10)
    meddling = {"writeback": True, "status": "succeeded", "policy": {"writeback": True}}
    prepared = prepare(key, agent, "问", thread.pk, metadata=meddling)
    assert end_of(prepared, how)
    with scoped_transaction(scope_of(tenant)):
        kinds = list(Job.objects.in_scope(scope_of(tenant)).values_list("kind", flat=True))
    wanted = (
        ["extract_core", "index_recall", "roll_summary"] if is_on and how == "succeeded" else []
    )
    assert sorted(kinds) == wanted


def make_turns(thread: Thread, count: int) -> None:
    for number in range(count):
        make_run(thread, input=f"问{number}", output="答", turn_tokens=14, message_count=2)


@pytest.mark.req("B13")
def test_no_caller_can_say_what_is_written_back() -> None:
    """58: neither a request nor any way to end a run has a word for it."""
    taken = set(inspect.signature(pipeline.prepare).parameters)
    for end in (finish.succeed, finish.fail, finish.cancel, finish.reject):
        taken |= set(inspect.signature(end).parameters)
    assert taken == {
        "principal", "agent_id", "request", "prepared", "answered", "code", "detail", "context",
        "steps", "spent", "now",
    }  # fmt: skip


@pytest.mark.req("B17")
def test_secrets_of_a_run_are_in_no_column_91(committed_db: None, superuser_url: str) -> None:
    """91, 94: looked for in every column of every table."""
    tenant = make_tenant()
    key, agent = make_key(tenant), make_agent(tenant)
    prepared = prepare(
        key,
        agent,
        f"mein {SECRET}",
        metadata={SECRET: {"a": [SECRET, {"b": f"x {SECRET}"}]}, "n": 3},
    )
    text = f"sure, {SECRET}"
    assert finish.succeed(prepared=prepared, answered=answered(text), now=NOW)
    assert tables_with(superuser_url, SECRET) == []
    run = stored_run(prepared)
    assert run.metadata["n"] == 3
    assert "[secret:" in run.output
    assert "threads_runtrace" in tables_with(superuser_url, "[secret:")


def test_trace_numbers_its_steps_on(world: Any) -> None:
    _, key, agent = world
    prepared = prepare(key, agent, "问")
    steps = ({"kind": "model", "ms": 1.5, "data": {"a": "二"}}, {"kind": "tool", "ms": 2})
    finish.succeed(prepared=prepared, answered=answered(steps=steps), now=NOW)
    with scoped_transaction(prepared.scope):
        stored = RunTrace.objects.in_scope(prepared.scope).get().steps
    assert [(step["seq"], step["kind"]) for step in stored] == [
        (1, "scope"),
        (2, "precheck"),
        (3, "retrieval"),
        (4, "assemble"),
        (5, "model"),
        (6, "tool"),
        (7, "writeback"),
    ]
    assert stored[4]["data"] == {"a": "二"}


@pytest.mark.req("C05")
def test_first_turn_and_turn_after_a_long_pause_are_bootstrap(world: Any) -> None:
    _, key, agent = world
    first = prepare(key, agent, "一")
    second = prepare(key, agent, "二", first.thread_id)
    assert (first.is_bootstrap, second.is_bootstrap) == (True, False)
    with scoped_transaction(first.scope):
        an_hour_ago = timezone.now() - timedelta(hours=1)
        Run.objects.in_scope(first.scope).update(created_at=an_hour_ago)
    assert prepare(key, agent, "三", first.thread_id).is_bootstrap


def test_prepare_and_finish_take_few_statements(world: Any) -> None:
    tenant, key, agent = world
    thread = new_thread(agent, make_end_user(tenant, "teacher-7"))
    tell(thread, [("题目" * 800, "答案" * 800)] * 3)
    with CaptureQueriesContext(connection) as accepted:
        prepared = prepare(key, agent, "问", thread.pk)
    with CaptureQueriesContext(connection) as finished:
        finish.succeed(prepared=prepared, answered=answered(), now=NOW)
    with CaptureQueriesContext(connection) as failed:
        end_of(prepare(key, agent, "问", thread.pk), "failed")
    # In a test's own transaction BEGIN and COMMIT are a savepoint's two, and one scope is restored.
    # Eight of them are recall: the model in use, the teams, and two searches that find no shelf.
    assert len(accepted) <= 25, [query["sql"][:90] for query in accepted.captured_queries]
    assert len(finished) <= 9, [query["sql"][:90] for query in finished.captured_queries]
    assert len(failed) - len(accepted) <= 5


@pytest.mark.req("A08")
def test_concurrent_run_sees_only_turns_finished_when_it_was_prepared(world: Any) -> None:
    _, key, agent = world
    first = prepare(key, agent, "CNRY-eins")
    second = prepare(key, agent, "zwei", first.thread_id)
    assert "CNRY-eins" not in second.request.messages[-1].content
    finish.succeed(prepared=first, answered=answered("CNRY-antwort"), now=NOW)
    third = prepare(key, agent, "drei", first.thread_id)
    assert "CNRY-antwort" in third.request.messages[-1].content
    assert "zwei" not in third.request.messages[-1].content


def test_run_handed_back_at_its_end_is_the_run_as_stored(world: Any) -> None:
    """What answers the client is not read back, so it must be the same as reading it back."""
    _, key, agent = world
    prepared = prepare(key, agent, "问")
    ended = finish.succeed(prepared=prepared, answered=answered(), now=NOW)
    assert ended is not None
    stored = stored_run(prepared)
    # The lease is the database's own time; the trace is no part of the answer.
    for field in Run._meta.concrete_fields:
        if field.attname != "lease_until":
            assert getattr(ended, field.attname) == getattr(stored, field.attname), field.attname
