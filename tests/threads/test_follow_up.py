"""Which job follows a turn, by strategy and policy."""

from __future__ import annotations

from typing import Any

import pytest

from governance.policy import change_policy
from memory.models import Job
from memory.rls import scoped_transaction
from tests.factories import NOW, make_agent, make_key, make_provider, make_tenant, scope_of
from tests.talking import last_of, new_thread, prepare, session_of, tell
from threads.events import Completed
from threads.models import Thread


def thread_with(strategy: str, **changes: Any) -> Thread:
    tenant = make_tenant()
    changes = {"forest_base_tokens": 200, "summary_after_messages": 15} | changes
    change_policy(scope=scope_of(tenant), changes=changes, now=NOW)
    agent = make_agent(tenant, provider=make_provider(tenant), thread_strategy=strategy)
    return new_thread(agent)


def pairs(count: int) -> list[tuple[str, str]]:
    return [(f"第{number}个问题，" + "请修改。" * 12, "好。" * 30) for number in range(count)]


def kinds(thread: Thread) -> list[str]:
    scope = session_of(thread)
    with scoped_transaction(scope):
        rows = Job.objects.in_scope(scope).filter(thread_id=thread.pk)
        return list(rows.values_list("kind", flat=True))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("strategy", "turns", "wanted"),
    [
        ("lossless", 7, []),
        ("lossless", 8, ["build_nodes"]),
        ("rolling", 7, []),
        ("rolling", 8, ["roll_summary"]),
    ],
)
def test_recorded_turns_ask_for_what_their_strategy_needs(
    strategy: str, turns: int, wanted: list[str]
) -> None:
    thread = thread_with(strategy)
    tell(thread, pairs(turns))
    assert kinds(thread) == wanted


@pytest.mark.django_db
@pytest.mark.parametrize("strategy", ["lossless", "rolling"])
def test_nothing_follows_without_write_back(strategy: str) -> None:
    thread = thread_with(strategy, writeback=False)
    tell(thread, pairs(12))
    assert kinds(thread) == []


@pytest.mark.django_db
def test_job_of_a_thread_is_one_however_many_turns_ask_for_it() -> None:
    thread = thread_with("lossless")
    for _ in range(10):
        tell(thread, pairs(2))
    assert kinds(thread) == ["build_nodes"]


@pytest.mark.parametrize(
    ("strategy", "wanted"), [("lossless", ["build_nodes"]), ("rolling", ["roll_summary"])]
)
def test_finished_run_asks_for_what_its_strategy_needs(
    committed_db: None, strategy: str, wanted: list[str]
) -> None:
    thread = thread_with(strategy, forest_tail_turns=1, forest_base_turns=3)
    tell(thread, pairs(5))
    assert kinds(thread) == []
    change_policy(
        scope=scope_of(thread.agent.tenant), changes={"summary_after_messages": 11}, now=NOW
    )
    prepared = prepare(
        make_key(thread.agent.tenant),
        thread.agent,
        "第六个问题，请修改。",
        thread.pk,
        user_id=thread.end_user.user_id,
    )
    assert isinstance(last_of(prepared), Completed)
    assert kinds(thread) == wanted
