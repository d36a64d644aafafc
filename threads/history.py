"""What a thread's past looks like to a prompt: the rolling summary and the turns it does not cover.

Property (DESIGN 6): every finished turn is in the summary, verbatim, or named as awaiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from django.db.models import Count, Sum

from governance.policy_rules import Policy
from memory.boundary import HistoryTurn, Wording, wrap_history
from memory.ledger import CUT, Dropped
from memory.scope import Scope
from memory.tokens import estimate, truncate_middle
from threads.models import Message, Run, RunStatus, ThreadSummary
from threads.turn_cutting import (
    LEAST_TURN_TOKENS,
    TURN_OVERHEAD_TOKENS,
    CutMarks,
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
        shown: The turns in it, oldest first; the last ones may be cut in the middle.
        awaiting: The listed uncovered turns that are not in it.
        summary: The summary as shown, cut if there was no room for all of it.
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


def load_turns(*, scope: Scope, heads: Sequence[TurnHead]) -> list[HistoryTurn]:
    """Return the texts of turns, in the order of `heads`, without what failed ones put out.

    A turn erased since `heads` were read is missing. Cost: one query.
    """
    return [turn for _, turn in _loaded(scope, heads)]


def _loaded(scope: Scope, heads: Sequence[TurnHead]) -> list[tuple[TurnHead, HistoryTurn]]:
    """Return the turns that are still there, each with its head."""
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

    The newest turns are verbatim, the last few cut in the middle if need be; what does not fit is
    named as awaiting. Cost: one query, a second one where a turn must be cut.
    """
    draft = _Draft(scope=scope, view=view, wording=wording, tag=tag, policy=policy, cap=cap)
    draft.write()
    tokens = estimate(draft.text)
    is_shown = bool(draft.text)
    shown = tuple(head for head, _ in draft.turns) if is_shown else ()
    summary = draft.summary if is_shown else ""
    names = {head.run_id for head in shown}
    awaiting = tuple(head for head in view.heads if head.run_id not in names)
    return ThreadSection(
        text=draft.text,
        tokens=tokens,
        wanted=max(estimate(view.summary) + view.uncovered_tokens, tokens),
        items=len(shown) + bool(summary),
        shown=shown,
        awaiting=awaiting,
        summary=summary,
        left_out=(*_left_out(scope, view, summary, awaiting), *draft.cut_rows()),
    )


def _left_out(
    scope: Scope, view: ThreadView, summary: str, awaiting: Sequence[TurnHead]
) -> tuple[Dropped, ...]:
    """Name what the prompt lacks; turns too many to list are one row with their numbers."""
    rows = []
    if summary != view.summary:
        tokens = max(estimate(view.summary) - estimate(summary), 0)
        name = scope.thread_id or ""
        reason = CUT if summary else "section_cap"
        rows.append(Dropped(kind="summary", id=name, tokens=tokens, reason=reason))
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
    return tuple(rows)


@dataclass(kw_only=True)
class _Draft:
    """A thread section being written; `text` is within `cap` once `write` has returned."""

    scope: Scope
    view: ThreadView
    wording: Wording
    tag: str
    policy: Policy
    cap: int
    text: str = ""
    summary: str = ""
    turns: list[tuple[TurnHead, HistoryTurn]] = field(default_factory=list)
    marks: dict[str, CutMarks] = field(default_factory=dict)

    def write(self) -> None:
        """Choose, cut and render."""
        view, policy = self.view, self.policy
        if not (view.summary or view.heads):
            return
        room = self.cap - estimate(self._rendered(waiting=1))
        self.summary = self._summary_within(room)
        left = room - estimate(self.summary)
        self.turns = _loaded(self.scope, _chosen(view, policy, left))
        recent = min(policy.count("recent_turns"), len(self.turns))
        limit = min(policy.count("recent_tokens"), max(left, 0))
        self._cut_recent(recent, limit)
        self.text = self._rendered()
        while (over := estimate(self.text) - self.cap) > 0:
            if not (self.turns or self.summary):
                self.text = ""
                return
            recent, limit = self._shrink(recent, limit, over)
            self.text = self._rendered()

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
        return truncate_middle(self.view.summary, max_tokens=most, mark="\n…\n")

    def _cut_recent(self, recent: int, limit: int) -> None:
        if not recent:
            return
        heads = [head for head, _ in self.turns[-recent:]]
        cut = fit_turns(
            turns=[turn for _, turn in self.turns[-recent:]],
            wording=self.wording,
            limit=limit,
            read_marks=lambda: self._marks_of(heads),
        )
        self.turns[-recent:] = list(zip(heads, cut, strict=True))

    def _marks_of(self, heads: Sequence[TurnHead]) -> list[CutMarks]:
        if not self.marks:
            found = _marks(self.scope, self.wording, heads)
            self.marks = {head.run_id: marks for head, marks in zip(heads, found, strict=True)}
        return [self.marks[head.run_id] for head in heads]

    def cut_rows(self) -> list[Dropped]:
        """Return the ledger's rows of the turns shown with their middle left out."""
        rows = []
        for head, turn in self.turns if self.text else ():
            marks = self.marks.get(head.run_id)
            if marks and (marks.question in turn.user_text or marks.answer in turn.assistant_text):
                tokens = max(head.tokens - shown_tokens(turn, wording=self.wording), 0)
                rows.append(Dropped(kind="turn", id=head.run_id, tokens=tokens, reason=CUT))
        return rows

    def _shrink(self, recent: int, limit: int, over: int) -> tuple[int, int]:
        """Take away the least of it: an older turn, then some of the last ones, then whatever."""
        if len(self.turns) > recent:
            del self.turns[0]
        elif recent and limit > recent * LEAST_TURN_TOKENS:
            limit = max(limit - over - 2, recent * LEAST_TURN_TOKENS)
            self._cut_recent(recent, limit)
        elif recent:
            del self.turns[0]
            recent -= 1
        else:
            self.summary = ""
        return recent, limit


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


def _marks(scope: Scope, wording: Wording, heads: Sequence[TurnHead]) -> list[CutMarks]:
    """Return, per turn, what stands where its question and its answer were cut. Cost: one query."""
    rows = (
        Message.objects.in_scope(scope)
        .filter(run_id__in=[head.run_id for head in heads], role__in=("user", "assistant"))
        .order_by("run_id", "position")
        .values_list("run_id", "role", "id")
    )
    found: dict[tuple[str, str], str] = {}
    for run_id, role, message_id in rows:
        # A run's question is its first user message, its answer the last of the assistant's.
        if role == "assistant" or (run_id, role) not in found:
            found[run_id, role] = message_id
    return [
        CutMarks(
            question=wording.mark_of_cut(message_id=found.get((run_id, "user"), run_id)),
            answer=wording.mark_of_cut(message_id=found.get((run_id, "assistant"), run_id)),
        )
        for run_id in (head.run_id for head in heads)
    ]


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
