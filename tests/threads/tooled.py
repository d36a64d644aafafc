"""Runs with tools for tests: real ones, or scripted ones whose results a test chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from memory.ids import new_id
from memory.providers.base import ToolCall, ToolSpec
from memory.rls import scoped_transaction
from threads.models import Message, RunTrace
from threads.pipeline import PreparedRun
from threads.tools.box import ToolBox
from threads.tools.records import NewArtifact, ToolOutcome, UpsertedItem

ALL = (
    "memory_search",
    "memory_grep",
    "view_message",
    "view_chat_history_summary",
    "memory_upsert",
    "write_artifact",
)
WRITE = '{"name": "paper.md", "content": "第一题"}'


def equipped(prepared: PreparedRun, tools: Sequence[str] = ALL) -> PreparedRun:
    """A run whose agent has these tools."""
    box = ToolBox(
        scope=prepared.scope,
        agent_id=prepared.agent.pk,
        role=prepared.agent.role,
        language="zh",
        tools=tools,
        policy=prepared.policy,
    )
    return replace(prepared, tools=box)


class ScriptedBox(ToolBox):
    """Tools that return what a function says; `calls` are those that came."""

    def __init__(self, answer: Callable[[ToolCall], str]) -> None:
        self.calls: list[ToolCall] = []
        self._answer = answer

    def specs(self) -> tuple[ToolSpec, ...]:
        schema = {"type": "object", "properties": {}}
        return (ToolSpec(name="look", description="Looks something up.", parameters=schema),)

    def call(self, *, call: ToolCall, now: datetime) -> ToolOutcome:
        self.calls.append(call)
        return outcome_of(call, self._answer(call), now=now)

    @property
    def written(self) -> tuple[NewArtifact, ...]:
        return ()

    @property
    def upserted(self) -> tuple[UpsertedItem, ...]:
        return ()


def outcome_of(call: ToolCall, text: str, *, now: datetime) -> ToolOutcome:
    """The outcome of a call that found `text`."""
    return ToolOutcome(
        call=call,
        reference_id=new_id("msg"),
        content=text,
        shown=text,
        summary=f"{call.name}: {len(text)} characters",
        is_error=False,
        started_at=now,
        ms=1.0,
        facts={"tool": call.name},
    )


def scripted(prepared: PreparedRun, answer: Callable[[ToolCall], str]) -> tuple[PreparedRun, Any]:
    """A run with one scripted tool, `look`, and its box."""
    box = ScriptedBox(answer)
    return replace(prepared, tools=box), box


def with_policy(prepared: PreparedRun, **values: Any) -> PreparedRun:
    """A run whose policy has other values."""
    policy = prepared.policy
    return replace(prepared, policy=replace(policy, values={**policy.values, **values}))


def messages_stored(prepared: PreparedRun) -> list[Message]:
    """The messages of a run, in order."""
    with scoped_transaction(prepared.scope):
        rows = Message.objects.in_scope(prepared.scope).filter(run_id=prepared.run_id)
        return list(rows.order_by("position"))


def trace_of(prepared: PreparedRun) -> RunTrace:
    """The trace of a run."""
    with scoped_transaction(prepared.scope):
        return RunTrace.objects.in_scope(prepared.scope).get(run_id=prepared.run_id)
