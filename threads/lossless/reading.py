"""Loading a lossless thread's past: never more text than a prompt could show, in four queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from django.db.models import Count, F, Min, Q, QuerySet, Sum, TextField, Value, Window
from django.db.models.functions import Cast, Length, RowNumber

from governance.policy_rules import Policy
from memory.boundary import Wording, message_label, wrap_message
from memory.ledger import target_budget
from memory.sanitize import break_joined
from memory.scope import Scope
from memory.tokens import estimate
from threads.forest.reading import ForestView, read_forest
from threads.history import SHOWN
from threads.history import tool_lines as read_tool_lines
from threads.lossless.packing import LosslessPast, Unloaded
from threads.lossless.texts import MESSAGE_TOKENS
from threads.lossless.turns import LoadedTurn
from threads.models import Agent, Message, Run, RunStatus
from threads.past import LAST_TURNS

__all__ = ["LosslessPast", "Unloaded", "read_lossless"]

_MOST_TOKENS: Final = 80_000
_ROOM_PERCENT: Final = 120  # compression may bring a little more into the target
_CHARACTERS_PER_TOKEN: Final = 4
_OPENING_TOOL: Final = "view_message"
_COLUMNS: Final = (
    "id",
    "seq",
    "created_at",
    "external_id",
    "input",
    "output",
    "status",
    "tool_steps",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Uncovered:
    """The uncovered turns that were loaded, oldest first, and what is known of all of them."""

    rows: Sequence[Sequence[Any]]
    turn_count: int = 0
    tokens: int = 0
    loaded_tokens: int = 0
    first_seq: int = 0

    @property
    def is_complete(self) -> bool:
        return len(self.rows) == self.turn_count


def read_lossless(
    *,
    scope: Scope,
    thread_id: str,
    agent: Agent,
    policy: Policy,
    wording: Wording,
    tag: str,
    now: datetime,
) -> LosslessPast:
    """Return a thread's past, inside the caller's transaction; `scope` must name the session.

    The newest turns that no node covers are loaded up to 120% of the target, at most 80,000 tokens
    of them; the tail is loaded whatever it costs, since it can be cut. Older ones are only counted.

    Args:
        scope: Names the thread's session.
        thread_id: The thread.
        agent: Whose window and tools count.
        policy: What holds for that agent.
        wording: The fixed phrases, in the prompt's language.
        tag: The thread's own tag: the same in every run, so that prefix caches work.
        now: The time of the run.

    Cost: at most four queries.
    """
    target = target_budget(
        context_window=agent.context_window, max_output_tokens=agent.max_output_tokens
    )
    usual = max(min(target, _MOST_TOKENS), 0)
    room = max(min(target * _ROOM_PERCENT // 100, _MOST_TOKENS), 0)
    forest = read_forest(scope=scope, thread_id=thread_id)
    finished = Run.objects.in_scope(scope).filter(thread_id=thread_id, status__in=SHOWN)
    tail = max(policy.count("forest_tail_turns"), LAST_TURNS)
    frame = _frame_tokens(wording, tag, now)
    uncovered = _read_uncovered(finished, forest, room=room, least=tail, frame=frame)
    head = _read_head(finished, forest, uncovered, policy.count("forest_head_turns"))
    ids = _read_message_ids(scope, thread_id, [row[0] for row in (*head, *uncovered.rows)])
    turns = [_turn(row, ids) for row in (*head, *uncovered.rows)]
    return LosslessPast(
        wording=wording,
        tag=tag,
        thread_id=thread_id,
        now=now,
        roots=forest.roots,
        turns=_unjoined(turns),
        head_turns=len(head) if forest.roots or head else policy.count("forest_head_turns"),
        tail_turns=tail,
        target_tokens=usual,
        can_open_originals=_OPENING_TOOL in agent.tools,
        unloaded=_unloaded(forest, uncovered, head, frame),
    )


def _frame_tokens(wording: Wording, tag: str, now: datetime) -> int:
    """Return about what a turn costs beyond its texts."""
    label = message_label(wording=wording, speaker="assistant", on=now.date())
    empty = wrap_message(wording=wording, tag=tag, label=label, body="")
    return 2 * (estimate(empty) + MESSAGE_TOKENS)


def _read_uncovered(
    finished: QuerySet[Run], forest: ForestView, *, room: int, least: int, frame: int
) -> _Uncovered:
    """Load the newest uncovered turns within `room` tokens, and the last `least` in any case."""
    steps = Length(Cast("tool_steps", TextField())) / Value(_CHARACTERS_PER_TOKEN)
    cost = F("turn_tokens") + Value(frame) + steps
    newest_first = F("seq").desc()
    rows = list(
        finished.filter(seq__gt=forest.upto_seq)
        .annotate(
            spent=Window(Sum(cost), order_by=newest_first),
            place=Window(RowNumber(), order_by=newest_first),
            turn_count=Window(Count("id")),
            all_tokens=Window(Sum(cost)),
            first_seq=Window(Min("seq")),
        )
        .filter(Q(spent__lte=room) | Q(place__lte=least))
        .order_by("seq")
        .values_list(*_COLUMNS, "turn_count", "all_tokens", "spent", "first_seq")
    )
    if not rows:
        return _Uncovered(rows=())
    count, tokens, spent, first = rows[0][len(_COLUMNS) :]
    return _Uncovered(
        rows=rows, turn_count=count, tokens=tokens, loaded_tokens=spent, first_seq=first
    )


def _read_head(
    finished: QuerySet[Run], forest: ForestView, uncovered: _Uncovered, head_turns: int
) -> list[Any]:
    """Return the protected head: what comes before the first node, whatever policy says today."""
    if forest.first_seq is not None:
        before = finished.filter(seq__lt=forest.first_seq)
        return list(before.order_by("seq").values_list(*_COLUMNS))
    if uncovered.is_complete or not head_turns:
        return []
    before = finished.filter(seq__lt=uncovered.rows[0][1])
    return list(before.order_by("seq").values_list(*_COLUMNS)[:head_turns])


def _read_message_ids(
    scope: Scope, thread_id: str, run_ids: Sequence[str]
) -> dict[tuple[str, str], str]:
    """Return which message holds a run's question, its first, and which its answer, its last."""
    if not run_ids:
        return {}
    rows = Message.objects.in_scope(scope).filter(
        thread_id=thread_id, run_id__in=run_ids, role__in=("user", "assistant")
    )
    found: dict[tuple[str, str], tuple[int, str]] = {}
    for run_id, role, position, message_id in rows.values_list("run_id", "role", "position", "id"):
        place = position if role == "user" else -position
        known = found.get((run_id, role))
        if known is None or place < known[0]:
            found[run_id, role] = (place, message_id)
    return {key: message_id for key, (_, message_id) in found.items()}


def _turn(row: Sequence[Any], ids: Mapping[tuple[str, str], str]) -> LoadedTurn:
    run_id, seq, at, external_id, question, answer, status, tool_steps = row[: len(_COLUMNS)]
    is_failed = status == RunStatus.FAILED
    return LoadedTurn(
        run_id=run_id,
        seq=seq,
        at=at,
        question=question,
        answer="" if is_failed else answer,
        question_id=ids.get((run_id, "user"), run_id),
        answer_id=ids.get((run_id, "assistant"), run_id),
        is_failed=is_failed,
        external_id=external_id,
        tool_lines=() if is_failed else read_tool_lines(tool_steps=tool_steps),
    )


def _unjoined(turns: Sequence[LoadedTurn]) -> tuple[LoadedTurn, ...]:
    """Break the orders that short questions form only when they are read one after another."""
    said = [turn.question for turn in turns]
    return tuple(
        turn if text == turn.question else replace(turn, question=text)
        for turn, text in zip(turns, break_joined(said), strict=True)
    )


def _unloaded(
    forest: ForestView, uncovered: _Uncovered, head: Sequence[Any], frame: int
) -> Unloaded | None:
    """Account for the uncovered turns between the head and those that were loaded."""
    missing = uncovered.turn_count - len(uncovered.rows)
    first = uncovered.first_seq
    tokens = uncovered.tokens - uncovered.loaded_tokens
    if forest.first_seq is None and head:
        missing -= len(head)
        first = head[-1][1] + 1
        tokens -= sum(estimate(row[4]) + estimate(row[5]) + frame for row in head)
    if missing <= 0:
        return None
    return Unloaded(
        turn_count=missing,
        first_seq=first,
        last_seq=uncovered.rows[0][1] - 1,
        tokens=max(tokens, 0),
    )
