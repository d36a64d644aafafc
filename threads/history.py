"""What a thread's past looks like to a prompt: the rolling summary and the turns it does not cover.

Property (DESIGN 6): every finished turn is in the summary, verbatim, or named as awaiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from django.db.models import Count, Sum

from governance.policy_rules import Policy
from memory.boundary import HistoryTurn, Wording, wrap_history
from memory.cutting import BARE_MARK, fit_text
from memory.ledger import CUT, Dropped
from memory.sanitize import sanitize
from memory.scope import Scope
from memory.tokens import estimate
from threads.cut_marks import read_marks
from threads.models import Run, RunStatus, ThreadSummary
from threads.turn_cutting import (
    LEAST_TURN_TOKENS,
    TURN_OVERHEAD_TOKENS,
    CutMarks,
    FittedTurn,
    cleaned_turn,
    fit_turns,
    shown_tokens,
)

SHOWN: Final = (RunStatus.SUCCEEDED, RunStatus.FAILED)
_MOST_HEADS: Final = 400
_MOST_NAMED: Final = 50  # the ledger is stored with every run


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
    older_tokens: int = 0

    @property
    def uncovered_messages(self) -> int:
        """How many messages no summary covers."""
        return sum(head.message_count for head in self.heads) + 2 * self.older_uncovered

    @property
    def uncovered_tokens(self) -> int:
        """What the uncovered turns would cost verbatim."""
        return sum(head.tokens for head in self.heads) + self.older_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSection:
    """The thread section of one prompt; `text` is empty where there is nothing to show.

    Attributes:
        wanted: What is in it and what `left_out` says is not: exactly `tokens` and its sum.
        shown: The turns in it, oldest first, each with the tokens of what is shown of it; the last
            ones may be cut in the middle.
        awaiting: The listed uncovered turns that are not in it.
        summary: The summary as shown: cleaned, cut if there was no room for all of it.
        left_out: The ledger's rows of everything that is not in it, or not whole.
    """

    text: str
    tokens: int
    wanted: int
    items: int
    shown: tuple[TurnHead, ...]
    awaiting: tuple[TurnHead, ...]
    summary: str = ""
    left_out: tuple[Dropped, ...] = ()

    def dropped(self) -> tuple[Dropped, ...]:
        """The ledger's rows of the turns that wait for their summary, and of a summary cut."""
        return self.left_out


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
    texts = {
        run_id: HistoryTurn(
            user_text=question,
            assistant_text="" if status == RunStatus.FAILED else answer,
            is_failed=status == RunStatus.FAILED,
        )
        for run_id, question, answer, status in rows.values_list("id", "input", "output", "status")
    }
    return [(head, texts[head.run_id]) for head in heads if head.run_id in texts]


def thread_section(
    *, scope: Scope, view: ThreadView, wording: Wording, tag: str, policy: Policy, cap: int
) -> ThreadSection:
    """Return the thread section within `cap` tokens, boundary included.

    The newest turns are verbatim, the last few cut in the middle if need be, with a mark; what does
    not fit is named as awaiting. Cost: one query, a second one where a turn must be cut.
    """
    draft = _Draft(scope=scope, view=view, wording=wording, tag=tag, policy=policy, cap=cap)
    draft.write()
    tokens = estimate(draft.text)
    turns = draft.turns if draft.text else []
    summary = draft.summary if draft.text else ""
    names = {head.run_id for head, _ in turns}
    awaiting = tuple(head for head in view.heads if head.run_id not in names)
    left_out = (
        *_summary_rows(scope, draft.whole_summary, summary),
        *_awaiting_rows(view, awaiting),
        *_cut_rows(turns),
    )
    return ThreadSection(
        text=draft.text,
        tokens=tokens,
        wanted=tokens + sum(row.tokens for row in left_out),
        items=len(turns) + bool(summary),
        shown=tuple(
            replace(head, tokens=shown_tokens(turn, wording=wording)) for head, turn in turns
        ),
        awaiting=awaiting,
        summary=summary,
        left_out=left_out,
    )


def _summary_rows(scope: Scope, whole: str, shown: str) -> list[Dropped]:
    """Name a summary that is not there, or not all of it."""
    if shown == whole:
        return []
    tokens = max(estimate(whole) - estimate(shown), 0)
    reason = CUT if shown else "section_cap"
    return [Dropped(kind="summary", id=scope.thread_id or "", tokens=tokens, reason=reason)]


def _awaiting_rows(view: ThreadView, awaiting: Sequence[TurnHead]) -> list[Dropped]:
    """Name the turns the prompt lacks; those too many to list are one row with their numbers."""
    rows = []
    named = awaiting[-_MOST_NAMED:]
    older = awaiting[: len(awaiting) - len(named)]
    if view.older_uncovered or older:
        numbers = f"{view.upto_seq + 1}-{(named or view.heads)[0].seq - 1}"
        tokens = view.older_tokens + sum(head.tokens for head in older)
        rows.append(Dropped(kind="turns", id=numbers, tokens=tokens, reason="awaiting_summary"))
    rows += [
        Dropped(kind="turn", id=head.run_id, tokens=head.tokens, reason="awaiting_summary")
        for head in named
    ]
    return rows


def _cut_rows(turns: Sequence[tuple[TurnHead, FittedTurn]]) -> list[Dropped]:
    """Name the turns that are shown with their middle left out, by what is missing of them."""
    return [
        Dropped(kind="turn", id=head.run_id, tokens=turn.left_out_tokens, reason=CUT)
        for head, turn in turns
        if turn.left_out_tokens
    ]


@dataclass(kw_only=True)
class _Draft:
    """A thread section being written; `text` is within `cap` once `write` has returned.

    `recent` are the last turns as they are stored, `last` as they are shown, cut from the stored
    ones anew at each try; `older` are shown whole or not at all.
    """

    scope: Scope
    view: ThreadView
    wording: Wording
    tag: str
    policy: Policy
    cap: int
    text: str = ""
    whole_summary: str = ""
    summary: str = ""
    older: list[tuple[TurnHead, FittedTurn]] = field(default_factory=list)
    recent: list[tuple[TurnHead, HistoryTurn]] = field(default_factory=list)
    last: list[tuple[TurnHead, FittedTurn]] = field(default_factory=list)
    marks: dict[str, CutMarks] = field(default_factory=dict)

    @property
    def turns(self) -> list[tuple[TurnHead, FittedTurn]]:
        """The turns as shown, oldest first."""
        return self.older + self.last

    def write(self) -> None:
        """Choose, cut and render."""
        cleaned = sanitize(self.view.summary).text
        self.whole_summary = cleaned if cleaned.strip() else ""
        if not (self.whole_summary or self.view.heads):
            return
        room = self.cap - estimate(self._rendered(waiting=1))
        self.summary = self._summary_within(room)
        left = room - estimate(self.summary)
        self._load(left)
        most = limit = min(self.policy.count("recent_tokens"), max(left, 0))
        self._cut_recent(limit)
        self.text = self._rendered()
        while (over := estimate(self.text) - self.cap) > 0:
            if not (self.turns or self.summary):
                self.text = ""
                return
            limit = self._shrink(most, limit, over)
            self.text = self._rendered()

    def _load(self, room: int) -> None:
        chosen = _chosen(self.view, self.policy, room)
        loaded = load_turns(scope=self.scope, heads=chosen)
        first = max(len(loaded) - self.policy.count("recent_turns"), 0)
        self.older = [(head, cleaned_turn(turn)) for head, turn in loaded[:first]]
        self.recent = loaded[first:]

    def _rendered(self, *, waiting: int | None = None) -> str:
        if waiting is None:
            waiting = len(self.view.heads) - len(self.turns) + self.view.older_uncovered
        return wrap_history(
            wording=self.wording,
            tag=self.tag,
            summary=self.summary,
            turns=[turn for _, turn in self.turns],
            awaiting_count=waiting,
        )

    def _summary_within(self, room: int) -> str:
        """Return the summary, cut to its cap and so that the last turns have at least half."""
        most = min(self.policy.count("summary_tokens"), room)
        if self.view.heads:
            most = min(most, max(room // 2, room - self.policy.count("recent_tokens")))
        if most < LEAST_TURN_TOKENS:
            return ""
        fitted = fit_text(self.whole_summary, most=most, marks=("\n…\n", BARE_MARK))
        return fitted.text if fitted else ""

    def _cut_recent(self, limit: int) -> None:
        """Show the last turns within `limit`; where one has no place, no older one has either."""
        heads = [head for head, _ in self.recent]
        fitted = fit_turns(
            turns=[turn for _, turn in self.recent],
            wording=self.wording,
            limit=limit,
            read_marks=lambda: self._marks_of(heads),
        )
        missing = len(heads) - len(fitted)
        if missing:
            self.older, self.recent = [], self.recent[missing:]
        self.last = list(zip(heads[missing:], fitted, strict=True))

    def _marks_of(self, heads: Sequence[TurnHead]) -> list[CutMarks]:
        if not self.marks:
            run_ids = [head.run_id for head in heads]
            self.marks = read_marks(scope=self.scope, wording=self.wording, run_ids=run_ids)
        return [self.marks[head.run_id] for head in heads]

    def _shrink(self, most: int, limit: int, over: int) -> int:
        """Take away the least of it: an older turn, then some of the last ones, then whatever."""
        if self.older:
            del self.older[0]
            return limit
        least = len(self.recent) * LEAST_TURN_TOKENS
        if limit > least:
            limit = max(limit - over - 2, least)
        elif self.recent:
            del self.recent[0]
            limit = most  # those that stay may use what it leaves
        if self.recent or self.last:
            self._cut_recent(limit)
        else:
            self.summary = ""
        return limit


def _chosen(view: ThreadView, policy: Policy, room: int) -> list[TurnHead]:
    """Pick the newest turns that fit; the last few are in whatever they cost, they can be cut."""
    recent = policy.count("recent_turns")
    kept = list(reversed(view.heads))[:recent]
    used = min(sum(head.tokens for head in kept), policy.count("recent_tokens"))
    for head in reversed(view.heads[: len(view.heads) - len(kept)]):
        if used + head.tokens > room:
            break
        used += head.tokens
        kept.append(head)
    kept.reverse()
    return kept


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
