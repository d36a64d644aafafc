"""A lossless thread's past as messages within a number of tokens; nothing of it is ever lost. Pure.

Order: head turns, skeleton of summary nodes and its acknowledgement, uncompressed middle, tail. With
one more turn everything before the changed part is the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from memory.boundary import Wording
from memory.ledger import CUT, Dropped
from memory.trust import ContextItem, Source
from threads.forest.reading import RootNode
from threads.lossless.drafts import Draft, shrink
from threads.lossless.repeats import Repeats
from threads.lossless.texts import ShownText, ThreadTexts
from threads.lossless.turns import (
    LoadedTurn,
    ShownNode,
    ShownTurn,
    show_node,
    show_turn,
)
from threads.past import LAST_TURNS, PackedPast, Recent, Squeeze
from threads.turn_cutting import FittedTurn

AWAITING: Final = "awaiting_summary"
_MOST_ROUNDS: Final = 3
_NEEDLE_CHARACTERS: Final = 2  # as much is left of any text that is cut
_MOST_NAMED: Final = 50  # the ledger is stored with every run


@dataclass(frozen=True, slots=True, kw_only=True)
class Unloaded:
    """The turns of a backlog too large to be shown: how many, their numbers, what they would cost."""

    turn_count: int
    first_seq: int
    last_seq: int
    tokens: int


@dataclass(kw_only=True)
class LosslessPast:
    """A loaded lossless past.

    Attributes:
        turns: The loaded turns, oldest first.
        head_turns: How many of the first are the protected head.
        tail_turns: How many of the last are never replaced by a mark.
        target_tokens: What it may cost where nothing else bounds it.
        can_open_originals: Whether the agent has view_message.
        unloaded: What lies between head and the other turns and was not loaded.
    """

    wording: Wording
    tag: str
    thread_id: str
    now: datetime
    roots: tuple[RootNode, ...]
    turns: tuple[LoadedTurn, ...]
    head_turns: int
    tail_turns: int
    target_tokens: int
    can_open_originals: bool = False
    unloaded: Unloaded | None = None
    _texts: ThreadTexts = field(init=False)
    _shown: dict[tuple[str, bool, FittedTurn | None], ShownTurn] = field(default_factory=dict)
    _nodes: list[ShownNode] = field(default_factory=list)
    _known_repeats: Repeats | None = None

    def __post_init__(self) -> None:
        """Prepare for cleaning each text once, at the first packing that shows it."""
        self._texts = ThreadTexts(wording=self.wording, tag=self.tag)

    def usual_cap(self) -> int:
        """Return the tokens it may have: no limit but the target."""
        return self.target_tokens

    def texts(self) -> Sequence[str]:
        """Return all loaded texts as they are stored."""
        found = [text for turn in self.turns for text in (turn.question, turn.answer)]
        found += [line.result for turn in self.turns for line in turn.tool_lines]
        return (*found, *(root.summary for root in self.roots))

    def recent(self) -> Sequence[Recent]:
        """Return what shows each of the last turns, whole or cut. No query."""
        turns = self._draft(Squeeze.WHOLE).turns
        return [_recent(shown, self.wording) for shown in turns[-LAST_TURNS:]]

    def pack(self, *, cap: int, squeeze: Squeeze = Squeeze.WHOLE, stand_in: str = "") -> PackedPast:
        """Return it as messages; at SUMMARISED they cost at most `cap` tokens, if need be nothing.

        Cost: the first time each text is cleaned and counted, later arithmetic.
        """
        draft = self._draft(squeeze)
        if squeeze is Squeeze.SUMMARISED and draft.tokens() > cap:
            draft = self._shrunk(cap, stand_in)
        return self._packed(draft, stand_in=stand_in)

    def _shrunk(self, cap: int, stand_in: str) -> Draft:
        """Return a draft that fits; no mark in it names a turn that has left."""
        left = 0
        for may_mark in (*[True] * _MOST_ROUNDS, False):
            draft = self._draft(Squeeze.SUMMARISED, left=left, may_mark=may_mark)
            if stand_in.strip():
                heading = self.wording.summary_heading
                draft.stand_in = self._texts.framed(before=heading, body=stand_in)
            before = len(draft.middle)
            shrink(draft, cap=cap)
            fewer = before - len(draft.middle)
            if not (fewer and any(shown.is_marked for shown in draft.middle)):
                break
            left += fewer
        return draft

    def _draft(self, squeeze: Squeeze, *, left: int = 0, may_mark: bool = True) -> Draft:
        """Return everything as `squeeze` shows it, without the first `left` turns of the middle."""
        head_to = min(self.head_turns, len(self.turns))
        tail_from = max(len(self.turns) - self.tail_turns, head_to)
        is_bare = squeeze >= Squeeze.REFERENCED
        shown = [self._cheaper(turn) if is_bare else self._show(turn) for turn in self.turns]
        if squeeze >= Squeeze.DEDUPED and may_mark:
            repeats = self._repeats(tail_from).marked(head_to=head_to, start=head_to + left)
            for index, fitted in repeats.items():
                marked = self._show(self.turns[index], is_bare=is_bare, fitted=fitted)
                if marked.tokens < shown[index].tokens:
                    shown[index] = marked
        if not self._nodes:
            self._nodes = [show_node(texts=self._texts, root=root) for root in self.roots]
        return Draft(
            texts=self._texts,
            can_open_originals=self.can_open_originals,
            head=shown[:head_to],
            nodes=list(self._nodes),
            middle=shown[head_to + left : tail_from],
            tail=shown[tail_from:],
            waiting=(self.unloaded.turn_count if self.unloaded else 0) + left,
            gone=list(self.turns[head_to : head_to + left]),
        )

    def _repeats(self, end: int) -> Repeats:
        if self._known_repeats is None:
            self._known_repeats = Repeats(texts=self._texts, turns=self.turns[:end])
        return self._known_repeats

    def _cheaper(self, turn: LoadedTurn) -> ShownTurn:
        """Return a turn with bare tool lines; whole where cleaning makes that the cheaper one."""
        bare, whole = self._show(turn, is_bare=True), self._show(turn)
        return bare if bare.tokens < whole.tokens else whole

    def _show(
        self, turn: LoadedTurn, *, is_bare: bool = False, fitted: FittedTurn | None = None
    ) -> ShownTurn:
        key = (turn.run_id, is_bare and bool(turn.tool_lines), fitted)
        if key not in self._shown:
            self._shown[key] = show_turn(
                texts=self._texts, turn=turn, fitted=fitted, is_bare=is_bare
            )
        return self._shown[key]

    def _packed(self, draft: Draft, *, stand_in: str) -> PackedPast:
        turns = draft.turns
        items = [shown.item for shown in draft.head]
        items += [node.item(self.thread_id) for node in draft.nodes]
        if draft.stand_in:
            items.append(self._stand_in_item(draft.stand_in))
        items += [shown.item for shown in (*draft.middle, *draft.tail)]
        gone = sorted(draft.gone, key=lambda turn: turn.seq)
        return PackedPast(
            messages=draft.messages(),
            tokens=draft.tokens(),
            items=tuple(items),
            dropped=self._dropped(draft, gone, stand_in),
            leaving=tuple(self._show(turn).as_summary_turn() for turn in gone),
            reference_ids=tuple(
                line.reference_id
                for shown in turns
                if shown.tools
                for line in shown.turn.tool_lines
                if line.reference_id
            ),
            open_items=tuple(item for root in self.roots for item in root.open_items),
        )

    def _stand_in_item(self, shown: ShownText) -> ContextItem:
        return ContextItem(
            section="thread",
            kind="summary",
            id=self.thread_id,
            tier="derived",
            content=shown.body,
            tokens=shown.tokens,
            source=Source(kind="thread", id=self.thread_id),
            created_at=self.now,
        )

    def _dropped(
        self, draft: Draft, gone: Sequence[LoadedTurn], stand_in: str
    ) -> tuple[Dropped, ...]:
        rows = _unloaded_rows(self.unloaded)
        heads = {turn.run_id for turn in self.turns[: self.head_turns]}
        front = [turn for turn in gone if turn.run_id in heads]
        back = [turn for turn in gone if turn.run_id not in heads]
        named = [*front, *back[-_MOST_NAMED:]]
        older = back[: max(len(back) - _MOST_NAMED, 0)]
        if older:
            tokens = sum(self._show(turn).tokens for turn in older)
            numbers = f"{older[0].seq}-{older[-1].seq}"
            rows.append(Dropped(kind="turns", id=numbers, tokens=tokens, reason=AWAITING))
        rows += [
            Dropped(kind="turn", id=turn.run_id, tokens=self._show(turn).tokens, reason=AWAITING)
            for turn in named
        ]
        rows += _node_rows(draft)
        if stand_in.strip() and draft.gone and not draft.stand_in:
            tokens = self._texts.framed(before=self.wording.summary_heading, body=stand_in).tokens
            rows.append(
                Dropped(kind="summary", id=self.thread_id, tokens=tokens, reason="section_cap")
            )
        rows += [
            Dropped(kind="turn", id=shown.turn.run_id, tokens=missing, reason=CUT)
            for shown in draft.turns
            if (missing := self._show(shown.turn).tokens - shown.tokens) > 0
        ]
        return tuple(rows)


def _unloaded_rows(unloaded: Unloaded | None) -> list[Dropped]:
    if unloaded is None:
        return []
    numbers = f"{unloaded.first_seq}-{unloaded.last_seq}"
    return [Dropped(kind="turns", id=numbers, tokens=unloaded.tokens, reason=AWAITING)]


def _node_rows(draft: Draft) -> list[Dropped]:
    rows = [
        Dropped(kind="node", id=node.root.id, tokens=node.whole_tokens, reason="section_cap")
        for node in draft.gone_nodes
    ]
    rows += [
        Dropped(kind="node", id=node.root.id, tokens=missing, reason=CUT)
        for node in draft.nodes
        if (missing := node.whole_tokens - node.text.tokens) > 0
    ]
    return rows


def _recent(shown: ShownTurn, wording: Wording) -> Recent:
    """Return what shows a turn, whole or cut: how its texts begin, or the marks of a cut."""
    marks = shown.turn.marks(wording)
    starts = (_start(text.content) for text in (shown.question, shown.answer))
    return Recent(run_id=shown.turn.run_id, needles=(*starts, marks.question, marks.answer))


def _start(content: str) -> str:
    """Return the line that opens a message's frame, and a few characters of its text."""
    return content[: content.index("\n") + 1 + _NEEDLE_CHARACTERS]
