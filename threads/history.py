"""What a thread's past looks like to a prompt: the rolling summary and the turns it does not cover.

Property (DESIGN 6): every finished turn is in the summary, verbatim, or named as awaiting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from django.db.models import Count, Sum

from governance.policy_rules import Policy
from memory.boundary import HistoryTurn, ToolLine
from memory.sanitize import break_joined
from memory.scope import Scope
from memory.tokens import estimate
from threads.models import Run, RunStatus, ThreadSummary
from threads.turn_cutting import LEAST_TURN_TOKENS, TURN_OVERHEAD_TOKENS

SHOWN: Final = (RunStatus.SUCCEEDED, RunStatus.FAILED)
_MOST_HEADS: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnHead:
    """A finished turn without its text: what choosing needs. Tokens as the prompt shows it."""

    run_id: str
    seq: int
    tokens: int
    message_count: int
    created_at: datetime
    external_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadView:
    """A thread's past as a prompt may use it; `heads` are the uncovered turns, oldest first.

    Very long backlogs list only their newest turns; `older_uncovered` counts the rest. `summary_at`
    is when the last turn it covers was.
    """

    summary: str
    upto_seq: int
    heads: tuple[TurnHead, ...]
    older_uncovered: int = 0
    older_tokens: int = 0
    summary_at: datetime | None = None

    @property
    def uncovered_messages(self) -> int:
        """How many messages no summary covers."""
        return sum(head.message_count for head in self.heads) + 2 * self.older_uncovered

    @property
    def uncovered_tokens(self) -> int:
        """What the uncovered turns would cost verbatim."""
        return sum(head.tokens for head in self.heads) + self.older_tokens


EMPTY_VIEW: Final = ThreadView(summary="", upto_seq=0, heads=())


def turn_tokens(*, input_text: str, output_text: str) -> int:
    """Estimate what one turn costs in a prompt; stored with the run, so that choosing is cheap."""
    return estimate(input_text) + estimate(output_text) + TURN_OVERHEAD_TOKENS


def read_view(*, scope: Scope, thread_id: str, is_oldest_first: bool = False) -> ThreadView:
    """Return a thread's past; `scope` must name the thread's session. Cost: two queries, three for a long backlog.

    Of a backlog over 400 turns only the newest are listed, or with `is_oldest_first` the oldest;
    `older_uncovered` counts those that are not.
    """
    row = ThreadSummary.objects.in_scope(scope).filter(thread_id=thread_id).first()
    upto = row.summary_upto_seq if row else 0
    uncovered = (
        Run.objects.in_scope(scope)
        .filter(thread_id=thread_id, seq__gt=upto, status__in=SHOWN)
        .order_by("seq" if is_oldest_first else "-seq")
    )
    columns = ("id", "seq", "turn_tokens", "message_count", "created_at", "external_id")
    newest = list(uncovered.values_list(*columns)[: _MOST_HEADS + 1])
    listed = newest[:_MOST_HEADS]
    older, older_tokens = 0, 0
    if len(newest) > _MOST_HEADS:
        totals = uncovered.aggregate(turns=Count("id"), tokens=Sum("turn_tokens"))
        older = max(totals["turns"] - _MOST_HEADS, 0)
        older_tokens = max((totals["tokens"] or 0) - sum(row[2] for row in listed), 0)
    if not is_oldest_first:
        listed.reverse()
    heads = [
        TurnHead(
            run_id=run_id,
            seq=seq,
            tokens=tokens,
            message_count=messages,
            created_at=created_at,
            external_id=external_id,
        )
        for run_id, seq, tokens, messages, created_at, external_id in listed
    ]
    return ThreadView(
        summary=row.rolling_summary if row else "",
        upto_seq=upto,
        heads=tuple(heads),
        older_uncovered=older,
        older_tokens=older_tokens,
        summary_at=row.summary_upto_at if row else None,
    )


def verbatim_room(*, policy: Policy) -> int:
    """Return how many tokens of verbatim turns fit beside a full summary and the boundary."""
    boundary = 120
    return max(
        policy.count("thread_tokens") - policy.count("summary_tokens") - boundary,
        LEAST_TURN_TOKENS,
    )


def needs_roll(*, policy: Policy, uncovered_messages: int, uncovered_tokens: int) -> bool:
    """Say whether the summary must roll: more than N messages uncovered, or they do not fit."""
    too_many = uncovered_messages > policy.count("summary_after_messages")
    return too_many or uncovered_tokens > verbatim_room(policy=policy)


def load_turns(*, scope: Scope, heads: Sequence[TurnHead]) -> list[tuple[TurnHead, HistoryTurn]]:
    """Return turns with their texts, in the order of `heads`, without what failed ones put out.

    A turn erased since `heads` were read is missing. Cost: one query.
    """
    if not heads:
        return []
    rows = Run.objects.in_scope(scope).filter(pk__in=[head.run_id for head in heads])
    columns = ("id", "input", "output", "status", "tool_steps")
    found = {row[0]: _turn(*row[1:]) for row in rows.values_list(*columns)}
    loaded = [(head, found[head.run_id]) for head in heads if head.run_id in found]
    # An order spread over several messages is harmless one by one: read together, it is not.
    said = break_joined([turn.user_text for _, turn in loaded])
    return [
        (head, turn if turn.user_text == text else replace(turn, user_text=text))
        for (head, turn), text in zip(loaded, said, strict=True)
    ]


def _turn(
    question: str, answer: str, status: str, tool_steps: Sequence[Mapping[str, Any]]
) -> HistoryTurn:
    if status == RunStatus.FAILED:
        return HistoryTurn(user_text=question, assistant_text="", is_failed=True)
    return HistoryTurn(
        user_text=question, assistant_text=answer, tool_lines=tool_lines(tool_steps=tool_steps)
    )


def tool_lines(*, tool_steps: Sequence[Mapping[str, Any]]) -> tuple[ToolLine, ...]:
    """Return a run's tool calls as its turn shows them, from `Run.tool_steps`."""
    return tuple(
        ToolLine(
            name=str(step.get("name", "")),
            arguments=str(step.get("arguments", "")),
            result=str(step.get("result", "")),
            reference_id=str(step.get("reference_id", "")),
        )
        for step in tool_steps
    )


def uncovered_totals(*, scope: Scope, thread_id: str) -> tuple[int, int]:
    """Return (messages, tokens) that no summary covers. Cost: two queries."""
    row = ThreadSummary.objects.in_scope(scope).filter(thread_id=thread_id).first()
    totals = (
        Run.objects.in_scope(scope)
        .filter(
            thread_id=thread_id,
            seq__gt=row.summary_upto_seq if row else 0,
            status__in=SHOWN,
        )
        .aggregate(messages=Sum("message_count"), tokens=Sum("turn_tokens"))
    )
    return totals["messages"] or 0, totals["tokens"] or 0
