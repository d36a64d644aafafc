"""What happens to a forest while the model works, and when the process dies, with real commits."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import pytest
from django.db import connection, connections

from governance.policy import change_policy
from memory import jobs
from memory.jobs import LeaseLostError
from memory.models import Job, JobKind, MemoryOp, Tenant
from memory.rls import scoped_transaction
from tests.factories import NOW, make_agent, make_tenant, scope_of
from tests.fakes.openai_replies import Json, Reply
from tests.fakes.openai_server import FakeOpenAI
from tests.foresting import (
    HANDLERS,
    claim_nodes,
    due,
    erase_run,
    expire,
    grow,
    node_reply,
    nodes_of,
    originals,
    pairs,
    roots_of,
    waiting,
    work_off,
    wrong_with,
)
from tests.talking import fake_provider, new_thread, ops_of, session_of, tell
from threads.forest.jobs import build_nodes, consolidate_nodes
from threads.models import Message, Run, SummaryNode, Thread

BUILD, CONSOLIDATE = JobKind.BUILD_NODES, JobKind.CONSOLIDATE_NODES


def run_apart(act: Callable[[], object]) -> None:
    try:
        act()
    finally:
        connections.close_all()


def apart(act: Callable[[], object]) -> None:
    """Do something on a connection of its own, as another process would."""
    worker = threading.Thread(target=run_apart, args=(act,))
    worker.start()
    worker.join(30)


def meanwhile(server: FakeOpenAI, act: Callable[[], object]) -> None:
    """Have `act` done while the model works, once."""
    pending = [act]

    def answer(body: Json) -> Reply:
        if pending:
            apart(pending.pop())
        return node_reply(body)

    server.answer_with(answer)


def sent(server: FakeOpenAI, place: int) -> str:
    return json.dumps(server.requests[place].body, ensure_ascii=False)


@pytest.mark.req("A05")
@pytest.mark.parametrize("kind", [BUILD, CONSOLIDATE])
def test_job_run_twice_makes_no_second_node_139(
    live: Thread, server: FakeOpenAI, kind: JobKind
) -> None:
    """139: delivered again, it does nothing."""
    due(live, kind)
    claim = claim_nodes(live, kind)
    for _ in range(3):
        HANDLERS[kind](scope=session_of(live), claim=claim)
    nodes, calls = nodes_of(live), len(server.requests)
    HANDLERS[kind](scope=session_of(live), claim=claim)
    assert [node.pk for node in nodes_of(live)] == [node.pk for node in nodes]
    assert len(server.requests) == calls
    assert wrong_with(live) == ()


@pytest.mark.req("A05")
@pytest.mark.parametrize("kind", [BUILD, CONSOLIDATE])
def test_claim_lost_while_the_model_works_writes_nothing_and_the_next_one_does_152(
    live: Thread, server: FakeOpenAI, kind: JobKind
) -> None:
    """139, 152: the process is gone after the call and before the commit; two workers."""
    due(live, kind)
    before = [node.pk for node in nodes_of(live)]
    first = claim_nodes(live, kind)
    seconds: list[jobs.Claim | None] = []
    meanwhile(server, lambda: seconds.append(expire(first, live)))
    with pytest.raises(LeaseLostError):
        HANDLERS[kind](scope=session_of(live), claim=first)
    assert [node.pk for node in nodes_of(live)] == before
    (second,) = seconds
    assert second is not None
    HANDLERS[kind](scope=session_of(live), claim=second)
    assert len(nodes_of(live)) == len(before) + 1
    assert wrong_with(live) == ()
    assert len(ops_of(live)) == len(server.requests)


@pytest.mark.parametrize("seq", [2, 4, 5])
def test_run_erased_while_its_chunk_is_summarised_is_in_no_node_g2(
    live: Thread, server: FakeOpenAI, seq: int
) -> None:
    """G2: the source is deleted while the model runs."""
    tell(live, pairs(9))
    meanwhile(server, lambda: erase_run(live, seq))
    grow(live)
    assert f"CNRY-{seq} " in sent(server, 0)
    assert f"CNRY-{seq} " not in sent(server, 1)
    assert len(nodes_of(live)) == 1
    assert wrong_with(live) == ()
    assert len(ops_of(live)) == 2


def test_message_erased_while_its_chunk_is_summarised_g2(live: Thread, server: FakeOpenAI) -> None:
    """G2: one utterance goes, its run stays."""
    tell(live, pairs(8))
    scope = session_of(live)

    def erase() -> None:
        with scoped_transaction(scope):
            Message.objects.in_scope(scope).filter(run__seq=3, role="assistant").delete()

    meanwhile(server, erase)
    grow(live)
    assert len(server.requests) == 2
    (node,) = nodes_of(live)
    assert node.message_count == 7
    assert wrong_with(live) == ()


def test_text_masked_while_its_chunk_is_summarised_is_read_again_g8(
    live: Thread, server: FakeOpenAI
) -> None:
    """G8: what was changed meanwhile wins."""
    tell(live, pairs(8))
    scope = session_of(live)

    def mask() -> None:
        with scoped_transaction(scope):
            Run.objects.in_scope(scope).filter(seq=3).update(input="MASKED " + "请修改。" * 12)

    meanwhile(server, mask)
    grow(live)
    assert "CNRY-3 " in sent(server, 0)
    assert "CNRY-3 " not in sent(server, 1)
    assert "MASKED" in sent(server, 1)
    assert len(nodes_of(live)) == 1


def test_run_erased_while_its_nodes_merge_is_in_no_node_afterwards_g2(
    live: Thread, server: FakeOpenAI
) -> None:
    """G2: what was made of it goes too, and is built again without it."""
    due(live, CONSOLIDATE)
    before = {node.pk for node in nodes_of(live)}
    meanwhile(server, lambda: erase_run(live, 8))
    calls = len(server.requests)
    work_off(live)
    assert wrong_with(live) == ()
    assert all("CNRY-8 " not in sent(server, place) for place in range(calls, len(server.requests)))
    kept = {node.pk for node in nodes_of(live)} & before
    assert kept == {node.pk for node in nodes_of(live) if (node.level, node.end_seq) == (0, 5)}
    assert 8 not in originals(live)
    assert roots_of(live)[-1][2] >= 13


def test_thread_deleted_meanwhile_writes_nothing_131(live: Thread, server: FakeOpenAI) -> None:
    """131."""
    tell(live, pairs(8))
    tenant_wide = scope_of(Tenant(id=live.tenant_id))

    def delete() -> None:
        with scoped_transaction(tenant_wide):
            Thread.objects.in_scope(tenant_wide).filter(pk=live.pk).delete()

    meanwhile(server, delete)
    claim = claim_nodes(live)
    with pytest.raises(LeaseLostError):
        build_nodes(scope=session_of(live), claim=claim)
    assert nodes_of(live) == []
    with scoped_transaction(tenant_wide):
        booked = MemoryOp.objects.in_scope(tenant_wide).get()
    assert (booked.thread_id, booked.job_id, booked.outcome) == (None, None, "ok")


def test_turns_recorded_meanwhile_stay_outside_the_node_being_written(
    live: Thread, server: FakeOpenAI
) -> None:
    tell(live, pairs(8))
    meanwhile(server, lambda: tell(live, pairs(8, start=9)))
    grow(live)
    assert [place[1:] for place in roots_of(live)] == [(2, 5), (6, 9), (10, 13)]
    assert waiting(live) == []
    assert wrong_with(live) == ()


def test_nodes_merged_meanwhile_are_not_merged_twice(live: Thread, server: FakeOpenAI) -> None:
    due(live, CONSOLIDATE)
    scope = session_of(live)

    def merge() -> None:
        with scoped_transaction(scope):
            children = SummaryNode.objects.in_scope(scope).filter(end_seq__lte=9)
            one, other = children.order_by("start_seq")
            values = {
                name: getattr(one, name) + getattr(other, name)
                for name in ("turn_count", "message_count", "token_count", "source_token_count")
            }
            node = SummaryNode.objects.create(
                tenant_id=live.tenant_id,
                thread=live,
                end_user_id=live.end_user_id,
                level=1,
                start_seq=one.start_seq,
                end_seq=other.end_seq,
                start_at=one.start_at,
                end_at=other.end_at,
                summary="别人写的",
                method="extractive",
                **values,
            )
            children.filter(level=0).update(parent=node)

    meanwhile(server, merge)
    work_off(live)
    assert next(node.summary for node in nodes_of(live) if node.start_seq == 2) == "别人写的"
    assert wrong_with(live) == ()


def test_no_transaction_or_lock_is_held_while_the_model_works(
    live: Thread, server: FakeOpenAI
) -> None:
    tell(live, pairs(20))
    states = []

    def look() -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE usename = current_user"
                " AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'"
            )
            states.append(cursor.fetchone()[0])

    def answer(body: Json) -> Reply:
        apart(look)
        return node_reply(body)

    server.answer_with(answer)
    grow(live)
    assert len(states) == len(server.requests) >= 5
    assert set(states) == {0}


@pytest.mark.req("B11")
@pytest.mark.req("A24")
def test_two_persons_grown_at_once_do_not_mix(committed_db: None, server: FakeOpenAI) -> None:
    tenant = make_tenant()
    changes = {"forest_base_tokens": 200, "forest_consolidation_k": 2}
    change_policy(scope=scope_of(tenant), changes=changes, now=NOW)
    agent = make_agent(
        tenant, provider=fake_provider(tenant, server), model="fake-1", thread_strategy="lossless"
    )
    threads = [new_thread(agent), new_thread(agent)]
    names = ["苹果", "bananas"]
    for one, name in zip(threads, names, strict=True):
        tell(one, [(f"{name} {n} 请改。" * 12, f"{name} {n} 好。" * 12) for n in range(20)])
    both_are_in = threading.Barrier(2, timeout=30)

    def work(one: Thread) -> None:
        both_are_in.wait()
        grow(one)

    workers = [
        threading.Thread(target=run_apart, args=(lambda one=one: work(one),)) for one in threads
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(90)
    for request in server.requests:
        said = json.dumps(request.body, ensure_ascii=False)
        assert not ("苹果" in said and "bananas" in said)
    for one, other in (threads, reversed(threads)):
        assert wrong_with(one) == ()
        assert len(nodes_of(one)) >= 5
        scope = session_of(other)
        with scoped_transaction(scope):
            assert not SummaryNode.objects.in_scope(scope).filter(thread_id=one.pk).exists()


def test_consolidation_and_building_hand_over_and_end(live: Thread, server: FakeOpenAI) -> None:
    tell(live, pairs(60))
    jobs_done = grow(live)
    assert waiting(live) == []
    assert jobs_done > 2
    with scoped_transaction(session_of(live)):
        rows = Job.objects.in_scope(session_of(live)).filter(thread_id=live.pk)
        assert set(rows.values_list("kind", flat=True)) == {BUILD, CONSOLIDATE}
    claim = claim_nodes(live, CONSOLIDATE)
    calls = len(server.requests)
    consolidate_nodes(scope=session_of(live), claim=claim)
    assert len(server.requests) == calls
