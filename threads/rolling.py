"""The strategy `rolling`: a summary of what is old, and every turn it does not cover, verbatim.

Loading asks the database once; packing is pure (threads.past), but for the ids of the messages of
the last turns, which are asked for when one of them must be cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from governance.policy_rules import Policy
from memory.boundary import HistoryTurn, Wording, wrap_history
from memory.compression.dedupe import dedupe
from memory.compression.open_items import open_lines
from memory.compression.turns import SummaryTurn
from memory.cutting import BARE_MARK, fit_text
from memory.sanitize import sanitize
from memory.scope import Scope
from memory.tokens import estimate
from threads.cut_marks import read_marks
from threads.history import ThreadView, TurnHead, load_turns
from threads.past import LAST_TURNS, PackedPast, Recent, Squeeze
from threads.rolling_rows import awaiting_rows, cut_rows, rolling_items, summary_rows
from threads.turn_cutting import (
    LEAST_TURN_TOKENS,
    CutMarks,
    FittedTurn,
    cleaned_turn,
    fit_turns,
    referenced,
)

_NEEDLE_CHARS: Final = 3  # as much is left of any text that is cut

LoadedTurns = Sequence[tuple[TurnHead, HistoryTurn]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingPast:
    """A thread's past under the strategy rolling, loaded.

    Attributes:
        loaded: The newest uncovered turns with their texts, oldest first: as many as could fit.
        marks_of: Gives, per run, what stands where its texts are cut; may ask the database.
    """

    thread_id: str
    view: ThreadView
    loaded: LoadedTurns
    wording: Wording
    tag: str
    policy: Policy
    marks_of: Callable[[Sequence[str]], Mapping[str, CutMarks]]

    def usual_cap(self) -> int:
        """Return policy's cap of the thread section."""
        return self.policy.count("thread_tokens")

    def texts(self) -> Sequence[str]:
        """Return the summary and the texts of the loaded turns."""
        said = [text for _, turn in self.loaded for text in (turn.user_text, turn.assistant_text)]
        return [self.view.summary, *said]

    def recent(self) -> Sequence[Recent]:
        """Return what shows each of the last turns: the start of a text, or the mark of a cut."""
        last = self.loaded[max(len(self.loaded) - LAST_TURNS, 0) :]
        marks = self.marks_of([head.run_id for head, _ in last])
        found = []
        labels = (self.wording.user_label, self.wording.assistant_label)
        for head, turn in last:
            said = zip(labels, (turn.user_text, turn.assistant_text), strict=True)
            starts = (
                f"{label} {sanitize(text[: _NEEDLE_CHARS * 16]).text[:_NEEDLE_CHARS]}".strip()
                for label, text in said
                if text.strip()
            )
            cuts = marks[head.run_id]
            needles = (*starts, cuts.question, cuts.answer)
            found.append(Recent(run_id=head.run_id, needles=needles))
        return found

    def pack(self, *, cap: int, squeeze: Squeeze = Squeeze.WHOLE, stand_in: str = "") -> PackedPast:
        """Return the section; see threads.past."""
        if squeeze < Squeeze.SUMMARISED:
            cap = max(cap, self.usual_cap())
        draft = _Draft(past=self, turns_loaded=self._squeezed(squeeze), cap=cap, stand_in=stand_in)
        draft.write()
        return _packed(self, draft)

    def _squeezed(self, squeeze: Squeeze) -> LoadedTurns:
        """Return the loaded turns without what repeats, then without what tools answered."""
        turns = list(self.loaded)
        if squeeze >= Squeeze.DEDUPED:
            turns = self._without_repeats(turns)
        if squeeze >= Squeeze.REFERENCED:
            turns = [(head, referenced(turn)) for head, turn in turns]
        return turns

    def _without_repeats(self, turns: LoadedTurns) -> list[tuple[TurnHead, HistoryTurn]]:
        """Put a mark where an older turn's text says what a turn before it said already."""
        first = max(len(turns) - self.policy.count("recent_turns"), 0)
        texts = [
            text for _, turn in turns[:first] for text in (turn.user_text, turn.assistant_text)
        ]
        same = self.wording.same_above
        kept = [
            text if place == of or not text.strip() else same
            for place, (text, of) in enumerate(zip(texts, dedupe(texts), strict=True))
        ]
        older = [
            (head, replace(turn, user_text=kept[2 * at], assistant_text=kept[2 * at + 1]))
            for at, (head, turn) in enumerate(turns[:first])
        ]
        return [*older, *turns[first:]]


def read_rolling(
    *,
    scope: Scope,
    thread_id: str,
    view: ThreadView,
    wording: Wording,
    tag: str,
    policy: Policy,
    is_for_rounds: bool = False,
) -> RollingPast:
    """Load the turns that a prompt could show. Cost: one query; another when a turn must be cut.

    `is_for_rounds` asks for the ids of the last turns' messages at once: the prompt may have to
    shrink while its run goes on, outside of any transaction.
    """
    heads = _chosen(view.heads, policy, policy.count("thread_tokens"))
    known: dict[str, CutMarks] = {}

    def marks_of(run_ids: Sequence[str]) -> Mapping[str, CutMarks]:
        missing = [run_id for run_id in run_ids if run_id not in known]
        if missing:
            known.update(read_marks(scope=scope, wording=wording, run_ids=missing))
        return known

    past = RollingPast(
        thread_id=thread_id,
        view=view,
        loaded=load_turns(scope=scope, heads=heads),
        wording=wording,
        tag=tag,
        policy=policy,
        marks_of=marks_of,
    )
    if is_for_rounds:
        past.recent()
    return past


def _chosen(heads: Sequence[TurnHead], policy: Policy, room: int) -> list[TurnHead]:
    """Pick the newest turns that fit; the last few are in whatever they cost, they can be cut."""
    recent = policy.count("recent_turns")
    kept = list(reversed(heads))[:recent]
    used = min(sum(head.tokens for head in kept), policy.count("recent_tokens"))
    for head in reversed(heads[: len(heads) - len(kept)]):
        if used + head.tokens > room:
            break
        used += head.tokens
        kept.append(head)
    kept.reverse()
    return kept


@dataclass(kw_only=True)
class _Draft:
    """A thread section being written; `text` is within `cap` once `write` has returned.

    `recent` are the last turns as they are stored, `last` as they are shown, cut from the stored
    ones anew at each try; `older` are shown whole or not at all.
    """

    past: RollingPast
    turns_loaded: LoadedTurns
    cap: int
    stand_in: str = ""
    text: str = ""
    whole_summary: str = ""
    summary: str = ""
    older: list[tuple[TurnHead, FittedTurn]] = field(default_factory=list)
    recent: list[tuple[TurnHead, HistoryTurn]] = field(default_factory=list)
    last: list[tuple[TurnHead, FittedTurn]] = field(default_factory=list)

    @property
    def turns(self) -> list[tuple[TurnHead, FittedTurn]]:
        """The turns as shown, oldest first."""
        return self.older + self.last

    @property
    def waiting(self) -> int:
        """How many uncovered turns are not shown."""
        view = self.past.view
        return len(view.heads) - len(self.turns) + view.older_uncovered

    def write(self) -> None:
        """Choose, cut and render."""
        view, policy = self.past.view, self.past.policy
        cleaned = sanitize(view.summary).text
        self.whole_summary = cleaned if cleaned.strip() else ""
        if not (self.whole_summary or view.heads or self.stand_in):
            return
        room = self.cap - estimate(self._rendered(waiting=1))  # the stand-in is in it
        self.summary = self._summary_within(room)
        left = room - estimate(self.summary)
        self._choose(left)
        most = limit = min(policy.count("recent_tokens"), max(left, 0))
        self._cut_recent(limit)
        self.text = self._rendered()
        while (over := estimate(self.text) - self.cap) > 0:
            if not (self.turns or self.summary or self.stand_in):
                self.text = ""
                return
            limit = self._shrink(most, limit, over)
            self.text = self._rendered()

    def _choose(self, room: int) -> None:
        policy = self.past.policy
        by_id = {head.run_id: (head, turn) for head, turn in self.turns_loaded}
        chosen = _chosen([head for head, _ in self.turns_loaded], policy, room)
        loaded = [by_id[head.run_id] for head in chosen]
        first = max(len(loaded) - policy.count("recent_turns"), 0)
        self.older = [(head, cleaned_turn(turn)) for head, turn in loaded[:first]]
        self.recent = loaded[first:]

    def _rendered(self, *, waiting: int | None = None) -> str:
        told = (self.summary, sanitize(self.stand_in).text)
        return wrap_history(
            wording=self.past.wording,
            tag=self.past.tag,
            summary="\n".join(text for text in told if text),
            turns=[turn for _, turn in self.turns],
            awaiting_count=self.waiting if waiting is None else waiting,
        )

    def _summary_within(self, room: int) -> str:
        """Return the summary, cut to its cap and so that the last turns have at least half."""
        policy = self.past.policy
        most = min(policy.count("summary_tokens"), room)
        if self.past.view.heads:
            most = min(most, max(room // 2, room - policy.count("recent_tokens")))
        if most < LEAST_TURN_TOKENS:
            return ""
        fitted = fit_text(self.whole_summary, most=most, marks=("\n…\n", BARE_MARK))
        return fitted.text if fitted else ""

    def _cut_recent(self, limit: int) -> None:
        """Show the last turns within `limit`; where one has no place, no older one has either."""
        heads = [head for head, _ in self.recent]
        fitted = fit_turns(
            turns=[turn for _, turn in self.recent],
            wording=self.past.wording,
            limit=limit,
            read_marks=lambda: self._marks_of(heads),
        )
        missing = len(heads) - len(fitted)
        if missing:
            self.older, self.recent = [], self.recent[missing:]
        self.last = list(zip(heads[missing:], fitted, strict=True))

    def _marks_of(self, heads: Sequence[TurnHead]) -> list[CutMarks]:
        marks = self.past.marks_of([head.run_id for head in heads])
        return [marks[head.run_id] for head in heads]

    def _shrink(self, most: int, limit: int, over: int) -> int:
        """Take away the least of it: an older turn, then some of the last ones, then whatever."""
        if self.older:
            del self.older[0]
            return limit
        least = len(self.recent) * LEAST_TURN_TOKENS
        if limit > least:
            limit = max(limit - over - 2, least)
        elif len(self.recent) > LAST_TURNS:
            del self.recent[0]
            limit = most  # those that stay may use what it leaves
        elif self.summary:
            self.summary = ""
            return limit
        elif self.stand_in:
            self.stand_in = ""
            return limit
        elif self.recent:
            del self.recent[0]
            limit = most  # those that stay may use what it leaves
        self._cut_recent(limit)
        return limit


def _packed(past: RollingPast, draft: _Draft) -> PackedPast:
    turns = draft.turns if draft.text else []
    summary = draft.summary if draft.text else ""
    stand_in = draft.stand_in if draft.text else ""
    names = {head.run_id for head, _ in turns}
    leaving = _leaving(past, names)
    told_at = leaving[-1].at if leaving else past.view.summary_at
    awaiting = [head for head in past.view.heads if head.run_id not in names]
    return PackedPast(
        text=draft.text,
        tokens=estimate(draft.text),
        items=rolling_items(
            thread_id=past.thread_id,
            wording=past.wording,
            summaries=((summary, past.view.summary_at), (stand_in, told_at)),
            turns=turns,
        ),
        dropped=(
            *summary_rows(thread_id=past.thread_id, whole=draft.whole_summary, shown=summary),
            *awaiting_rows(view=past.view, awaiting=awaiting),
            *cut_rows(turns),
        ),
        leaving=leaving,
        reference_ids=tuple(
            line.reference_id for _, turn in turns for line in turn.tool_lines if line.reference_id
        ),
        open_items=open_lines(draft.whole_summary),
    )


def _leaving(past: RollingPast, shown: set[str]) -> tuple[SummaryTurn, ...]:
    return tuple(
        SummaryTurn(
            seq=head.seq,
            user_text=sanitize(turn.user_text).text,
            assistant_text=sanitize(turn.assistant_text).text,
            at=head.created_at,
            is_failed=turn.is_failed,
        )
        for head, turn in past.loaded
        if head.run_id not in shown
    )
