"""A process that dies while it works on a forest, and work that comes in any order."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from governance.policy import change_policy
from memory import jobs
from memory.models import JobKind
from memory.rls import scoped_transaction
from tests.factories import NOW, make_agent, make_provider, make_run, make_tenant, scope_of
from tests.fakes.openai_server import FakeOpenAI
from tests.foresting import (
    HANDLERS,
    claim_nodes,
    due,
    erase_run,
    expire,
    grow,
    nodes_of,
    originals,
    pairs,
    roots_of,
    wrong_with,
)
from tests.talking import new_thread, session_of, tell
from threads.forest.passes import drop_nodes
from threads.forest.sources import load_texts
from threads.models import Thread

BUILD, CONSOLIDATE = JobKind.BUILD_NODES, JobKind.CONSOLIDATE_NODES


@pytest.mark.req("A05")
@pytest.mark.parametrize("kind", [BUILD, CONSOLIDATE])
def test_crash_at_any_statement_of_storing_leaves_all_or_nothing_145(
    live: Thread, server: FakeOpenAI, kind: JobKind
) -> None:
    """145: whatever statement fails, the forest is whole, and the next try makes the same node."""
    due(live, kind)
    before = [node.pk for node in nodes_of(live)]
    crashes = 0
    claim: jobs.Claim | None = claim_nodes(live, kind)
    while [node.pk for node in nodes_of(live)] == before:
        assert wrong_with(live) == ()
        assert claim is not None
        crashes += 1
        with connection.execute_wrapper(CrashAt(crashes)), suppress(CrashedError):
            HANDLERS[kind](scope=session_of(live), claim=claim)
        connection.close()
        claim = expire(claim, live)
    assert crashes >= 10
    assert len(nodes_of(live)) == len(before) + 1
    assert wrong_with(live) == ()


class CrashedError(Exception):
    """The process is gone."""


class CrashAt:
    """Breaks the n-th statement that comes after the model was called."""

    def __init__(self, place: int) -> None:
        self.left = place
        self.is_called = False

    def __call__(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any
    ) -> Any:
        self.is_called = self.is_called or "memoryop" in sql.lower()
        if self.is_called:
            self.left -= 1
            if self.left == 0:
                raise CrashedError
        return execute(sql, params, many, context)


class Counted:
    """Counts how often the text of each turn is read, and whether anything else reads texts."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    def __call__(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any
    ) -> Any:
        self.statements.append(sql)
        return execute(sql, params, many, context)


@pytest.mark.req("C07")
@pytest.mark.django_db
def test_building_reads_the_text_of_each_turn_once_and_consolidation_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tenant = make_tenant()
    changes = {"forest_base_tokens": 200, "forest_consolidation_k": 2}
    change_policy(scope=scope_of(tenant), changes=changes, now=NOW)
    agent = make_agent(tenant, provider=make_provider(tenant), thread_strategy="lossless")
    thread = new_thread(agent)
    tell(thread, pairs(100))
    read: list[int] = []

    def counting(*, rows: Any) -> Any:
        turns = load_texts(rows=rows)
        read.extend(turn.seq for turn in turns)
        return turns

    monkeypatch.setattr("threads.forest.sources.load_texts", counting)
    counted = Counted()
    with connection.execute_wrapper(counted):
        grow(thread)
    upto = roots_of(thread)[-1][2]
    assert upto == 97
    assert read == list(range(2, upto + 1))
    texts = [
        sql
        for sql in counted.statements
        if sql.startswith("SELECT")
        and ('"threads_message"."content"' in sql or '"threads_run"."output"' in sql)
        and "MD5" not in sql
    ]
    leaves = [node for node in nodes_of(thread) if node.level == 0]
    assert len(texts) == len(leaves)
    assert len(leaves) < len(nodes_of(thread))


@pytest.mark.req("C07")
@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(4))
def test_forest_is_whole_whatever_happens_in_whatever_order(seed: int) -> None:
    dice = random.Random(seed)
    tenant = make_tenant()
    changes = {
        "forest_base_tokens": 200,
        "forest_base_turns": dice.randint(1, 5),
        "forest_consolidation_k": dice.randint(2, 4),
        "forest_head_turns": dice.randint(0, 2),
        "forest_tail_turns": dice.randint(1, 4),
    }
    change_policy(scope=scope_of(tenant), changes=changes, now=NOW)
    agent = make_agent(tenant, provider=make_provider(tenant), thread_strategy="lossless")
    thread = new_thread(agent)
    told = 0
    for _ in range(30):
        act = dice.choice(
            ["tell", "tell", "tell", "fail", "cancel", "grow", "grow", "erase", "policy"]
        )
        if act == "tell":
            count = dice.randint(1, 12)
            tell(thread, pairs(count, start=told + 1), created_at=NOW - timedelta(hours=told % 7))
            told += count
        elif act == "fail":
            tell(thread, pairs(1), status="failed")
        elif act == "cancel":
            make_run(thread, status="cancelled", message_count=1)
        elif act == "grow":
            grow(thread)
        elif act == "erase" and originals(thread):
            seq = dice.choice(list(originals(thread)))
            erase_run(thread, seq)
            scope = session_of(thread)
            with scoped_transaction(scope):
                drop_nodes(scope=scope, thread_id=thread.pk, seq=seq)
        elif act == "policy":
            changes = {
                "forest_head_turns": dice.randint(0, 3),
                "forest_tail_turns": dice.randint(1, 5),
            }
            change_policy(scope=scope_of(tenant), changes=changes, now=timezone.now())
        assert wrong_with(thread) == ()
    grow(thread)
    assert wrong_with(thread) == ()
    nodes = nodes_of(thread)
    assert nodes
