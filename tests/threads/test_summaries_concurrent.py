"""What happens to a roll while the model works, with real commits."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections
from django.utils import timezone

from memory import jobs
from memory.jobs import LeaseLostError
from memory.models import Job, MemoryOp, Tenant
from memory.rls import scoped_transaction
from tests.factories import (
    NOW,
    make_agent,
    make_key,
    make_tenant,
    scope_of,
)
from tests.fakes.openai_replies import Answer, Json, Reply, text
from tests.fakes.openai_server import FakeOpenAI
from tests.talking import (
    claim_roll,
    fake_provider,
    new_thread,
    ops_of,
    prepare,
    roll,
    session_of,
    summary_of,
    tell,
)
from threads.models import Run, Thread, ThreadSummary
from threads.summaries import roll_summary

GOOD = "2026-06-12 决定把第三题换成红黑树。待办：补答案。"
SYSTEM = "You are the agent AGENT-OWN-PROMPT."


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as running:
        running.answer_with(lambda body: text(GOOD))
        yield running


def pairs(count: int, start: int = 1, length: int = 6) -> list[tuple[str, str]]:
    return [
        (f"CNRY-{number} 第{number}个问题，" + "请修改。" * length, f"第{number}个回答。" * length)
        for number in range(start, start + count)
    ]


def sent(server: FakeOpenAI) -> str:
    return "\n".join(json.dumps(one.body, ensure_ascii=False) for one in server.requests)


def meanwhile(server: FakeOpenAI, act: Any, *, reply: Reply | None = None) -> None:
    """Have `act` done while the model works, once, on a connection of its own."""
    pending = [act]

    def answer(body: Json) -> Reply:
        if pending:
            worker = threading.Thread(target=run_apart, args=(pending.pop(),))
            worker.start()
            worker.join(30)
        return reply or text(GOOD)

    server.answer_with(answer)


def run_apart(act: Any) -> None:
    try:
        act()
    finally:
        connections.close_all()


@pytest.fixture
def live(committed_db: None, server: FakeOpenAI) -> Any:
    tenant = make_tenant()
    provider = fake_provider(tenant, server)
    return new_thread(make_agent(tenant, provider=provider, model="fake-1"))


@pytest.mark.req("A05")
def test_crash_after_the_model_call_repeats_one_call_and_no_turn_139(
    live: Thread, server: FakeOpenAI
) -> None:
    """139, 152: the process dies after the call and before the commit; the job is claimed again."""
    tell(live, pairs(11))
    first = claim_roll(live)
    scope = session_of(live)

    def claimed_again() -> None:
        with scoped_transaction(scope):
            Job.objects.in_scope(scope).update(lease_until=timezone.now() - timedelta(minutes=9))
        assert jobs.claim(job_id=first.job_id, tenant_id=first.tenant_id) is not None

    meanwhile(server, claimed_again)
    with pytest.raises(LeaseLostError):
        roll_summary(scope=scope, claim=first)
    assert summary_of(live) is None
    with scoped_transaction(scope):
        again = Job.objects.in_scope(scope).get(pk=first.job_id)
        again.lease_until = timezone.now() - timedelta(minutes=9)
        again.save()
    second = jobs.claim(job_id=first.job_id, tenant_id=first.tenant_id)
    assert second is not None
    roll_summary(scope=scope, claim=second)
    for _ in range(3):
        roll_summary(scope=scope, claim=second)
    assert summary_of(live).covered_turns == 9
    assert len(server.requests) == 2
    assert len(ops_of(live)) == 2


def test_cursor_moved_meanwhile_throws_the_result_away(live: Thread, server: FakeOpenAI) -> None:
    tell(live, pairs(12))
    scope = session_of(live)

    def move() -> None:
        with scoped_transaction(scope):
            ThreadSummary.objects.create(
                tenant_id=live.tenant_id,
                thread=live,
                end_user_id=live.end_user_id,
                rolling_summary="别人写的摘要",
                summary_upto_seq=10,
                covered_turns=10,
            )

    meanwhile(server, move)
    roll(live)
    row = summary_of(live)
    assert (row.rolling_summary, row.summary_upto_seq) == ("别人写的摘要", 10)
    assert len(ops_of(live)) == 1


def test_turn_erased_meanwhile_is_in_no_summary_g2(live: Thread, server: FakeOpenAI) -> None:
    """G2: the source is deleted while the model runs."""
    tell(live, pairs(12))
    scope = session_of(live)

    def erase() -> None:
        with scoped_transaction(scope):
            Run.objects.in_scope(scope).filter(seq=3).delete()

    meanwhile(server, erase)
    roll(live)
    row = summary_of(live)
    assert (row.summary_upto_seq, row.covered_turns) == (10, 9)
    assert "CNRY-3 " in json.dumps(server.requests[0].body, ensure_ascii=False)
    assert "CNRY-3 " not in json.dumps(server.requests[1].body, ensure_ascii=False)
    assert len(ops_of(live)) == 2


def test_thread_deleted_meanwhile_writes_nothing_131(live: Thread, server: FakeOpenAI) -> None:
    """131."""
    tell(live, pairs(12))
    tenant_wide = scope_of(Tenant(id=live.tenant_id))

    def delete() -> None:
        with scoped_transaction(tenant_wide):
            Thread.objects.in_scope(tenant_wide).filter(pk=live.pk).delete()

    meanwhile(server, delete)
    claim = claim_roll(live)
    with pytest.raises(LeaseLostError):
        roll_summary(scope=session_of(live), claim=claim)
    with scoped_transaction(session_of(live)):
        assert not ThreadSummary.objects.in_scope(session_of(live)).exists()
    with scoped_transaction(tenant_wide):
        booked = MemoryOp.objects.in_scope(tenant_wide).get()
    assert (booked.thread_id, booked.job_id, booked.outcome) == (None, None, "ok")


def test_no_transaction_or_lock_is_held_while_the_model_works(
    live: Thread, server: FakeOpenAI, superuser_url: str
) -> None:
    tell(live, pairs(12))
    states = []

    def look() -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE usename = current_user"
                " AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'"
            )
            states.append(cursor.fetchone()[0])

    meanwhile(server, look)
    roll(live)
    assert states == [0]


@pytest.mark.req("A06")
@pytest.mark.req("A24")
def test_two_threads_rolled_at_once_do_not_mix(committed_db: None, server: FakeOpenAI) -> None:
    tenant = make_tenant()
    agent = make_agent(tenant, provider=fake_provider(tenant, server), model="fake-1")
    threads = [new_thread(agent), new_thread(agent)]
    names = ["苹果", "香蕉"]
    for one, name in zip(threads, names, strict=True):
        tell(one, [(f"{name}的第{n}个问题，请改。" * 4, f"{name}答{n}。" * 4) for n in range(11)])
    both_are_in = threading.Barrier(2, timeout=30)

    def answer(body: Json) -> Answer:
        said = json.dumps(body, ensure_ascii=False)
        return text(f"2026-06-12 摘要：{'苹果' if '苹果' in said else '香蕉'}。")

    server.answer_with(answer)

    def work(one: Thread) -> None:
        claim = claim_roll(one)
        both_are_in.wait()
        roll_summary(scope=session_of(one), claim=claim)

    workers = [
        threading.Thread(target=run_apart, args=(lambda one=one: work(one),)) for one in threads
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    for one, name in zip(threads, names, strict=True):
        row = summary_of(one)
        assert row.rolling_summary == f"2026-06-12 摘要：{name}。"
        assert row.summary_upto_seq == 9
    for request in server.requests:
        said = json.dumps(request.body, ensure_ascii=False)
        assert ("苹果" in said) != ("香蕉" in said)


@pytest.mark.req("A08")
def test_summary_reaches_the_next_prompt_wrapped_and_the_old_turns_do_not(
    committed_db: None, server: FakeOpenAI
) -> None:
    tenant = make_tenant()
    agent = make_agent(tenant, provider=fake_provider(tenant, server), model="fake-1")
    key = make_key(tenant)
    first = prepare(key, agent, "开始")
    with scoped_transaction(first.scope):
        thread = Thread.objects.in_scope(first.scope).get()
    with scoped_transaction(first.scope):
        Run.objects.in_scope(first.scope).update(
            status="cancelled", finished_at=NOW, lease_until=None
        )
    tell(thread, pairs(12))
    roll(thread)
    content = prepare(key, agent, "继续", thread.pk).request.messages[-1].content
    assert "（此前对话摘要）" + GOOD in content
    assert "CNRY-10 " not in content
    assert "CNRY-11 " in content
    assert "CNRY-12 " in content
