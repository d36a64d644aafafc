"""What a thread's past looks like to a prompt: the rolling summary and the turns it does not cover.

Property (DESIGN 6): every finished turn is in the summary, verbatim, or named as awaiting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Sum

from governance.policy_rules import Policy
from memory.boundary import HistoryTurn, Wording, wrap_history
from memory.ledger import Dropped
from memory.scope import Scope
from memory.tokens import estimate, truncate_middle
from threads.models import Message, Run, RunStatus, ThreadSummary

_SHOWN: Final = (RunStatus.SUCCEEDED, RunStatus.FAILED)
_MOST_HEADS: Final = 400
_TURN_OVERHEAD_TOKENS: Final = 8
_LEAST_TURN_TOKENS: Final = 40


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

    Very long backlogs list only their newest turns; `older_uncovered` counts the rest.
    """

    summary: str
    upto_seq: int
    heads: tuple[TurnHead, ...]
    older_uncovered: int = 0

    @property
    def uncovered_messages(self) -> int:
        """How many messages no summary covers."""
        return sum(head.message_count for head in self.heads) + 2 * self.older_uncovered

    @property
    def uncovered_tokens(self) -> int:
        """What the listed uncovered turns would cost verbatim."""
        return sum(head.tokens for head in self.heads)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSection:
    """The thread section of one prompt; `text` is empty where there is nothing to show."""

    text: str
    tokens: int
    wanted: int
    items: int
    shown: tuple[TurnHead, ...]
    awaiting: tuple[TurnHead, ...]

    def dropped(self) -> tuple[Dropped, ...]:
        """The ledger's rows of the turns that wait for their summary."""
        return tuple(
            Dropped(kind="turn", id=head.run_id, tokens=head.tokens, reason="awaiting_summary")
            for head in self.awaiting
        )


EMPTY_VIEW: Final = ThreadView(summary="", upto_seq=0, heads=())


def turn_tokens(*, input_text: str, output_text: str) -> int:
    """Estimate what one turn costs in a prompt; stored with the run, so that choosing is cheap."""
    return estimate(input_text) + estimate(output_text) + _TURN_OVERHEAD_TOKENS


def read_view(*, scope: Scope, thread_id: str, is_oldest_first: bool = False) -> ThreadView:
    """Return a thread's past; `scope` must name the thread's session. Cost: two queries.

    Of a backlog over 400 turns only the newest are listed, or with `is_oldest_first` the oldest;
    `older_uncovered` counts those that are not.
    """
    row = ThreadSummary.objects.in_scope(scope).filter(thread_id=thread_id).first()
    upto = row.summary_upto_seq if row else 0
    uncovered = (
        Run.objects.in_scope(scope)
        .filter(thread_id=thread_id, seq__gt=upto, status__in=_SHOWN)
        .order_by("seq" if is_oldest_first else "-seq")
    )
    columns = ("id", "seq", "turn_tokens", "message_count", "created_at", "external_id")
    newest = list(uncovered.values_list(*columns)[: _MOST_HEADS + 1])
    older = uncovered.count() - _MOST_HEADS if len(newest) > _MOST_HEADS else 0
    listed = newest[:_MOST_HEADS] if is_oldest_first else newest[:_MOST_HEADS][::-1]
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
    )


def verbatim_room(*, policy: Policy) -> int:
    """Return how many tokens of verbatim turns fit beside a full summary and the boundary."""
    boundary = 120
    return max(
        policy.count("thread_tokens") - policy.count("summary_tokens") - boundary,
        _LEAST_TURN_TOKENS,
    )


def needs_roll(*, policy: Policy, uncovered_messages: int, uncovered_tokens: int) -> bool:
    """Say whether the summary must roll: more than N messages uncovered, or they do not fit."""
    too_many = uncovered_messages > policy.count("summary_after_messages")
    return too_many or uncovered_tokens > verbatim_room(policy=policy)


def load_turns(*, scope: Scope, heads: Sequence[TurnHead]) -> list[HistoryTurn]:
    """Return the texts of turns, in the order of `heads`. Cost: one query."""
    rows = Run.objects.in_scope(scope).filter(pk__in=[head.run_id for head in heads])
    texts = {
        run_id: HistoryTurn(
            user_text=question, assistant_text=answer, is_failed=status == RunStatus.FAILED
        )
        for run_id, question, answer, status in rows.values_list("id", "input", "output", "status")
    }
    return [texts[head.run_id] for head in heads if head.run_id in texts]


def thread_section(
    *, scope: Scope, view: ThreadView, wording: Wording, tag: str, policy: Policy, cap: int
) -> ThreadSection:
    """Return the thread section within `cap` tokens, boundary included.

    The newest turns are verbatim, the last few cut in the middle if need be; what does not fit is
    named as awaiting. Cost: one query, a second one where a turn must be cut.
    """
    wanted = estimate(view.summary) + view.uncovered_tokens

    def render(turns: Sequence[HistoryTurn], awaiting: int) -> str:
        return wrap_history(
            wording=wording, tag=tag, summary=view.summary, turns=turns, awaiting_count=awaiting
        )

    shown = _chosen(view, policy, cap - estimate(render([], 1)))
    turns = load_turns(scope=scope, heads=shown)
    recent = min(policy.count("recent_turns"), len(shown))
    if recent:
        limit = min(policy.count("recent_tokens"), max(cap - estimate(render([], 1)), 0))
        turns[-recent:] = _cut_recent(scope, wording, shown[-recent:], turns[-recent:], limit)
    text, shown = _fit(render, view, shown, turns, cap)
    awaiting = view.heads[: len(view.heads) - len(shown)]
    if not text:
        return ThreadSection(text="", tokens=0, wanted=wanted, items=0, shown=(), awaiting=awaiting)
    return ThreadSection(
        text=text,
        tokens=estimate(text),
        wanted=max(wanted, estimate(text)),
        items=len(shown) + bool(view.summary),
        shown=tuple(shown),
        awaiting=awaiting,
    )


def _chosen(view: ThreadView, policy: Policy, room: int) -> list[TurnHead]:
    """Pick the newest turns that fit; the last few are in whatever they cost, they can be cut."""
    recent = policy.count("recent_turns")
    kept: list[TurnHead] = []
    used = 0
    for place, head in enumerate(reversed(view.heads)):
        is_recent = place < recent
        cost = min(head.tokens, policy.count("recent_tokens")) if is_recent else head.tokens
        if not is_recent and used + cost > room:
            break
        used += cost
        kept.append(head)
    kept.reverse()
    return kept


def _fit(
    render: Callable[[Sequence[HistoryTurn], int], str],
    view: ThreadView,
    shown: list[TurnHead],
    turns: list[HistoryTurn],
    cap: int,
) -> tuple[str, list[TurnHead]]:
    """Render, leaving out the oldest turns until the text is within `cap`."""
    while True:
        waiting = len(view.heads) - len(shown) + view.older_uncovered
        text = render(turns, waiting)
        if estimate(text) <= cap:
            return text, shown
        if not turns:
            return "", []
        shown, turns = shown[1:], turns[1:]


def _cut_recent(
    scope: Scope,
    wording: Wording,
    heads: Sequence[TurnHead],
    turns: Sequence[HistoryTurn],
    limit: int,
) -> list[HistoryTurn]:
    """Cut the last turns in the middle until together they cost at most `limit` tokens."""
    costs = [turn_tokens(input_text=t.user_text, output_text=t.assistant_text) for t in turns]
    if sum(costs) <= limit:
        return list(turns)
    marks = _marks(scope, wording, heads)
    cut: list[HistoryTurn] = []
    left = limit
    for place in reversed(range(len(turns))):
        older_wish = sum(costs[:place])
        share = max(left - min(older_wish, left // 2), _LEAST_TURN_TOKENS)
        turn = _cut_turn(turns[place], share, marks.get(heads[place].run_id, ("", "")))
        left -= turn_tokens(input_text=turn.user_text, output_text=turn.assistant_text)
        cut.append(turn)
    cut.reverse()
    return cut


def _cut_turn(turn: HistoryTurn, share: int, marks: tuple[str, str]) -> HistoryTurn:
    room = max(share - _TURN_OVERHEAD_TOKENS, 2)
    question, answer = estimate(turn.user_text), estimate(turn.assistant_text)
    if question + answer <= room:
        return turn
    for_answer = min(answer, max(room - question, room // 2))
    return HistoryTurn(
        user_text=_cut_text(turn.user_text, room - for_answer, marks[0]),
        assistant_text=_cut_text(turn.assistant_text, for_answer, marks[1]),
        is_failed=turn.is_failed,
    )


def _cut_text(text: str, most: int, mark: str) -> str:
    if estimate(text) <= most:
        return text
    return truncate_middle(text, max_tokens=max(most, 1), mark=mark)


def _marks(scope: Scope, wording: Wording, heads: Sequence[TurnHead]) -> dict[str, tuple[str, str]]:
    """Return, per run, what stands where its question and its answer were cut. Cost: one query."""
    rows = (
        Message.objects.in_scope(scope)
        .filter(run_id__in=[head.run_id for head in heads], role__in=("user", "assistant"))
        .order_by("run_id", "position")
        .values_list("run_id", "role", "id")
    )
    found: dict[str, dict[str, str]] = {}
    for run_id, role, message_id in rows:
        found.setdefault(run_id, {}).setdefault(role, message_id)
    return {
        run_id: (
            wording.mark_of_cut(message_id=ids.get("user", run_id)),
            wording.mark_of_cut(message_id=ids.get("assistant", run_id)),
        )
        for run_id, ids in found.items()
    }


def uncovered_totals(*, scope: Scope, thread_id: str) -> tuple[int, int]:
    """Return (messages, tokens) that no summary covers. Cost: two queries."""
    row = ThreadSummary.objects.in_scope(scope).filter(thread_id=thread_id).first()
    totals = (
        Run.objects.in_scope(scope)
        .filter(
            thread_id=thread_id,
            seq__gt=row.summary_upto_seq if row else 0,
            status__in=_SHOWN,
        )
        .aggregate(messages=Sum("message_count"), tokens=Sum("turn_tokens"))
    )
    return totals["messages"] or 0, totals["tokens"] or 0
