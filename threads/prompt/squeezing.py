"""Compressing a thread's past until a prompt fits: the levels of DESIGN 8 over the packed past.

Each level is checked on the assembled prompt against the veto list. The last one lets turns leave
and puts a summary in their place, written without a model here; `threads.stand_in` may have a
model write a better one before the run's first call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from memory.assembly import prompt_tokens
from memory.compression.anchors import anchor_lines, anchors_of, held_by
from memory.compression.chain import LevelStep, run_chain
from memory.compression.extractive import extractive_summary
from memory.compression.turns import SummaryTurn
from memory.compression.veto import FixedText, Missing, RecentTurn, VetoList, missing
from memory.ids import new_id
from memory.language import Language
from memory.providers.base import ChatMessage
from memory.tokens import estimate, truncate_end
from threads.past import PackedPast, Past, Squeeze

_LEAST_STAND_IN_TOKENS: Final = 60
_MOST_STAND_IN_TOKENS: Final = 600
_EARLIER: Final[dict[Language, str]] = {"zh": "此前", "en": "earlier"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What a past is squeezed for: the room it has, and the prompt around it.

    Attributes:
        room: The estimated tokens the past may cost.
        render: Gives the whole prompt with a packed past in its place.
        usual: The past as its strategy shows it, which did not fit.
        fixed: Texts that must stay as they are.
    """

    past: Past
    room: int
    render: Callable[[PackedPast], tuple[ChatMessage, ...]]
    usual: PackedPast
    question: str
    system_prompt: str
    language: Language
    fixed: tuple[FixedText, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSummary:
    """Turns that left a prompt, whose summary a model may still write.

    `pins` are lines that must stand in it whatever the model writes.
    """

    turns: tuple[SummaryTurn, ...]
    pins: str
    max_tokens: int
    language: Language


@dataclass(frozen=True, slots=True, kw_only=True)
class Squeezed:
    """A past as it got into a prompt, what was done to it, and what could be told better."""

    packed: PackedPast
    frame: Frame
    squeeze: Squeeze = Squeeze.WHOLE
    steps: tuple[LevelStep, ...] = ()
    pending: PendingSummary | None = None
    is_within: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A past packed at some level."""

    packed: PackedPast
    squeeze: Squeeze = Squeeze.WHOLE
    pending: PendingSummary | None = None


def squeeze_past(frame: Frame) -> Squeezed:
    """Return the past within the frame's room, by the lightest level that does.

    Where none does, `is_within` says so. Cost: a few packings and renderings; no model call.
    """
    veto = veto_of(frame)
    levels = (
        _Pack(frame=frame, name="dedupe", squeeze=Squeeze.DEDUPED),
        _Pack(frame=frame, name="tool_results", squeeze=Squeeze.REFERENCED),
        _Summarise(frame=frame, veto=veto, name="summary"),
        _Summarise(frame=frame, veto=veto, name="references", is_bare=True),
    )
    around = prompt_tokens(frame.render(frame.usual)) - frame.usual.tokens
    result = run_chain(
        draft=_Draft(packed=frame.usual),
        levels=levels,
        render=lambda draft: frame.render(draft.packed),
        count=prompt_tokens,
        target=around + frame.room,
        veto=veto,
        tools=(),
        new_summary_id=partial(new_id, "sum"),
    )
    draft = result.draft
    return Squeezed(
        packed=draft.packed,
        squeeze=draft.squeeze,
        steps=result.steps,
        pending=draft.pending,
        frame=frame,
        is_within=result.is_within,
    )


def veto_of(frame: Frame) -> VetoList:
    """Return what no level may lose, from the prompt as it was before: what it held, it keeps."""
    messages = frame.render(frame.usual)
    held = "\n".join(message.content.removesuffix(frame.question) for message in messages[-1:])
    older = "\n".join(message.content for message in frame.usual.messages)
    wanted = VetoList(
        system_prompt=frame.system_prompt,
        request=frame.question,
        fixed=frame.fixed,
        recent=tuple(
            RecentTurn(id=turn.run_id, needles=turn.needles) for turn in frame.past.recent()
        ),
        anchors=held_by(anchors_of(frame.question), f"{older}\n{held}"),
        open_items=_newest_within(frame.usual.open_items, frame.room // 2),
    )
    lacking = {str(gone) for gone in missing(wanted, messages=messages, tools=())}
    return replace(
        wanted,
        recent=tuple(turn for turn in wanted.recent if f"turn:{turn.id}" not in lacking),
        open_items=tuple(
            item
            for number, item in enumerate(wanted.open_items, 1)
            if f"open_item:{number}" not in lacking
        ),
    )


def _newest_within(items: Sequence[str], most: int) -> tuple[str, ...]:
    """Return the newest items that fit: a thread of nothing but open items must still go on."""
    kept: list[str] = []
    for item in reversed(items):
        most -= estimate(item) + 1
        if most < 0:
            break
        kept.append(item)
    return tuple(reversed(kept))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pack:
    """A level that loses nothing: repeats are named once, tools' answers by their references."""

    frame: Frame
    name: str
    squeeze: Squeeze
    model: str = ""

    def apply(self, draft: _Draft) -> _Draft | None:
        packed = self.frame.past.pack(cap=self.frame.room, squeeze=self.squeeze)
        if packed.tokens >= draft.packed.tokens:
            return None
        return _Draft(packed=packed, squeeze=self.squeeze)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Summarise:
    """The level that lets turns leave: a summary stands in for them, or bare references alone."""

    frame: Frame
    veto: VetoList
    name: str
    is_bare: bool = False
    model: str = ""

    def apply(self, draft: _Draft) -> _Draft | None:
        room = self.frame.room
        reserve = min(max(_LEAST_STAND_IN_TOKENS, room // 3), _MOST_STAND_IN_TOKENS)
        first = self._packed(room - reserve, "")
        lost = missing(self.veto, messages=self.frame.render(first), tools=())
        pins = self._pins(lost, first.leaving, reserve)
        told = "" if self.is_bare else self._told(first.leaving, reserve - estimate(pins) - 4)
        stand_in = "\n".join(text for text in (pins, told) if text)
        packed = self._packed(room, stand_in)
        if self.is_bare:
            return _Draft(packed=packed, squeeze=Squeeze.SUMMARISED)
        pending = PendingSummary(
            turns=first.leaving, pins=pins, max_tokens=reserve, language=self.frame.language
        )
        return _Draft(
            packed=packed,
            squeeze=Squeeze.SUMMARISED,
            pending=pending if _is_worth_a_call(first.leaving, reserve) else None,
        )

    def _packed(self, cap: int, stand_in: str) -> PackedPast:
        return self.frame.past.pack(cap=max(cap, 0), squeeze=Squeeze.SUMMARISED, stand_in=stand_in)

    def _pins(self, lost: Sequence[Missing], leaving: Sequence[SummaryTurn], reserve: int) -> str:
        """Return lines that hold what the veto list lacks: open items whole, anchors in excerpts."""
        names = {str(gone) for gone in lost}
        lines = [
            item
            for number, item in enumerate(self.veto.open_items, 1)
            if f"open_item:{number}" in names
        ]
        anchors = [
            anchor
            for number, anchor in enumerate(self.veto.anchors, 1)
            if f"anchor:{anchor.kind}.{number}" in names
        ]
        if anchors:
            room = reserve - sum(estimate(line) + 1 for line in lines)
            sources = [(turn.date, f"{turn.user_text}\n{turn.assistant_text}") for turn in leaving]
            label = _EARLIER[self.frame.language]
            sources += [(label, text) for text in self.frame.past.texts() if text]
            lines.append(
                anchor_lines(
                    anchors=anchors,
                    texts=sources,
                    max_tokens=max(room, 0),
                    language=self.frame.language,
                )
            )
        return "\n".join(line for line in lines if line)

    def _told(self, leaving: Sequence[SummaryTurn], most: int) -> str:
        if not leaving or most < _LEAST_STAND_IN_TOKENS // 2:
            return ""
        return extractive_summary(
            previous="", turns=leaving, language=self.frame.language, max_tokens=most
        )


def _is_worth_a_call(leaving: Sequence[SummaryTurn], reserve: int) -> bool:
    """Say whether so much leaves that picked sentences can not tell all of it."""
    told = sum(estimate(turn.user_text) + estimate(turn.assistant_text) for turn in leaving)
    return told > reserve


def with_stand_in(squeezed: Squeezed, text: str) -> Squeezed | None:
    """Return the past with another summary in place of what left; None if the veto list objects.

    The pins stay above it; it is cut at the end to the room that was set aside.
    """
    frame, pending = squeezed.frame, squeezed.pending
    if pending is None:
        return None
    room = pending.max_tokens - estimate(pending.pins) - 4
    told = truncate_end(text, max_tokens=max(room, 0))
    stand_in = "\n".join(part for part in (pending.pins, told) if part)
    packed = frame.past.pack(cap=frame.room, squeeze=Squeeze.SUMMARISED, stand_in=stand_in)
    if packed.tokens > frame.room:
        return None
    if missing(veto_of(frame), messages=frame.render(packed), tools=()):
        return None
    return replace(squeezed, packed=packed, pending=None)


def shrink(squeezed: Squeezed, *, tokens_less: int) -> Squeezed | None:
    """Return the past that much smaller, a summary in place of what leaves; None if nothing can go.

    Whether the veto list is satisfied is the caller's to check. Pure, but for the ids of turns
    that must be cut, if they were not asked for before.
    """
    room = squeezed.packed.tokens - tokens_less
    if room <= 0 or not squeezed.packed.tokens:
        return None
    frame = replace(squeezed.frame, room=room)
    level = _Summarise(frame=frame, veto=veto_of(frame), name="summary")
    draft = level.apply(_Draft(packed=squeezed.packed))
    if draft is None or draft.packed.tokens >= squeezed.packed.tokens:
        return None
    return replace(squeezed, packed=draft.packed, squeeze=Squeeze.SUMMARISED, pending=None)
