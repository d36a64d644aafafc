"""The prompt of one run and its account: what was wanted, what got in, what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from memory.assembly import build_messages, prompt_tokens
from memory.compression.chain import LevelStep
from memory.compression.veto import FixedText, VetoList
from memory.ledger import Ledger
from memory.precheck import Decision, Demand, decide
from memory.providers.base import ChatMessage, ToolSpec
from memory.sections import PackedSection
from memory.tokens import estimate
from threads.past import PackedPast
from threads.prompt.account import Fixed, Outcome, account, past_row, scale
from threads.prompt.given import IN_RUN_CHARS, PromptInput
from threads.prompt.parts import (
    AFTER_PAST,
    BEFORE_PAST,
    PREFERENCES,
    PROMPT_ORDER,
    PROMPT_ORDER_AFTER,
    Candidates,
)
from threads.prompt.squeezing import (
    Frame,
    PendingSummary,
    Squeezed,
    shrink,
    squeeze_past,
    veto_of,
    with_stand_in,
)
from threads.round_frame import RoundFrame

_ANNOUNCEMENT_TOKENS: Final = 12
_MOST_TRIES: Final = 10
_ALL: Final = 10**9  # no bound but the sections' own caps
# How much of the room facts and core may take before the past, at most; less if it needs more.
_SHARES_BEFORE_PAST: Final = (1.0, 0.5, 0.25, 0.0)
_PAST_DOES_NOT_FIT: Final = (
    "What must stay of the thread (its last turns, its open items, what the request refers to) and"
    " of the preferences does not fit beside the request. Shorten the request, or give the agent a"
    " larger window."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """The packed sections of one prompt: an account that balances.

    Attributes:
        budget: What the parts were allowed together, in estimated tokens.
        sections: The packed sections by name, without past and request.
        squeezed: The past as it got in, and what was done to it.
        decision: The precheck's decision.
    """

    budget: int
    sections: Mapping[str, PackedSection]
    squeezed: Squeezed
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """A prompt, its ledger, and all that is needed to make it smaller while its run goes on.

    `messages` is empty and `filled` None where the prompt was rejected. `share` puts estimated
    tokens into those of the model; `refusal` says why a prompt was rejected and what to do.
    """

    given: PromptInput
    ledger: Ledger
    messages: tuple[ChatMessage, ...] = ()
    filled: Filled | None = None
    compressions: tuple[LevelStep, ...] = ()
    share: float = 1.0
    refusal: str = ""

    @property
    def target(self) -> int:
        """What the prompt may cost."""
        return self.given.target

    @property
    def items(self) -> list[dict[str, Any]]:
        """The items the prompt shows, as API.md shows them, in prompt order."""
        if self.filled is None:
            return []
        filled = self.filled
        before = [item for name in PROMPT_ORDER for item in _shown(filled, name)]
        after = [item for name in PROMPT_ORDER_AFTER for item in _shown(filled, name)]
        shown = (*self.given.behaviour.items, *before, *filled.squeezed.packed.items, *after)
        return [replace(item, tokens=scale(item.tokens, self.share)).as_json() for item in shown]

    @property
    def parts(self) -> dict[str, int]:
        """What the prompt costs beside its sections, in tokens: the system prompt, the tools."""
        given = self.given
        own = ChatMessage(role="system", content=given.system_prompt)
        with_tools = given.counter.sent((own,), tools=given.tools)
        alone = given.counter.sent((own,))
        return {
            "system_tokens": alone if given.system_prompt else 0,
            "tool_tokens": with_tools - alone,
        }

    @property
    def pending_summary(self) -> PendingSummary | None:
        """What a model should summarise before the first call; None if nothing left."""
        return self.filled.squeezed.pending if self.filled else None

    @property
    def frame(self) -> RoundFrame:
        """The boundary that what tools return stands in: the prompt's own words and tag."""
        return RoundFrame(wording=self.given.wording, tag=self.given.tag)

    @property
    def veto(self) -> VetoList:
        """What no compression may lose of the prompt."""
        return veto_of(self._filled.squeezed.frame)

    @property
    def _filled(self) -> Filled:
        """The packed sections of a prompt that was not rejected."""
        assert self.filled is not None  # noqa: S101 - a rejected prompt has no run that goes on
        return self.filled

    def count(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> int:
        """Return the tokens held against the target: never below the real tokenizer's."""
        return self.given.counter.bound(messages, tools=tools)

    def shrink(self, tokens_less: int) -> tuple[ChatMessage, ...] | None:
        """Return the messages with the thread's past that much smaller; None if nothing can go."""
        smaller = shrink(self._filled.squeezed, tokens_less=tokens_less)
        if smaller is None:
            return None
        return render(self.given, self._filled.sections, smaller.packed)

    def settled(self) -> Assembled:
        """Return the prompt with what stands in it: nobody will tell it better."""
        squeezed = replace(self._filled.squeezed, pending=None)
        return replace(self, filled=replace(self._filled, squeezed=squeezed))

    def told_by(self, summary: str) -> Assembled | None:
        """Return the prompt with `summary` for what left it; None where it does not fit or hold."""
        told = with_stand_in(self._filled.squeezed, summary)
        if told is None:
            return None
        filled = replace(self._filled, squeezed=told)
        messages = render(self.given, filled.sections, told.packed)
        if self.count(messages, self.given.tools) > self.given.limit:
            return None
        return _accepted(self.given, filled, messages, _fixed(self.given))

    def messages_as_json(self) -> list[dict[str, str]]:
        """Return the messages as they are stored and shown."""
        return [{"role": message.role, "content": message.content} for message in self.messages]


def _shown(filled: Filled, name: str) -> Sequence[Any]:
    packed = filled.sections.get(name)
    return packed.shown if packed else ()


def assemble(given: PromptInput) -> Assembled:
    """Spend the budget by priority and account for it; see DESIGN 4 for the decisions.

    The sections are packed within their own caps; the prompt is then counted as its model counts,
    and packed again within less where it is over the target. When the irreducible part alone is
    over the target, or compressing did not help, nothing is assembled and the decision is `reject`.
    Cost: no query, but for the ids of turns that must be cut.
    """
    wanted = _wanted(given)
    fixed = _fixed(given)
    if fixed.counted > given.limit or fixed.characters > IN_RUN_CHARS:
        return _rejected(given, wanted, fixed, _too_much(given, fixed))
    budget = _ALL
    steps: tuple[LevelStep, ...] = ()
    for _ in range(_MOST_TRIES):
        filled = _fill(given, wanted, fixed, budget)
        steps = filled.squeezed.steps
        if not filled.squeezed.is_within:
            break
        messages = render(given, filled.sections, filled.squeezed.packed)
        counted = given.counter.bound(messages, tools=given.tools)
        shares = (
            _room_share(counted, fixed.counted, given.limit),
            _room_share(_characters(messages), fixed.characters, IN_RUN_CHARS),
        )
        if max(shares) <= 1:
            return _accepted(given, filled, messages, fixed)
        fits = fixed.estimated + int(_granted(filled) / max(shares))
        budget = min(budget, fits) - 8
    return _rejected(given, wanted, fixed, _PAST_DOES_NOT_FIT, steps)


def _too_much(given: PromptInput, fixed: Fixed) -> str:
    """Say what of the irreducible part is too much, and what to do about it."""
    if fixed.characters > IN_RUN_CHARS:
        return (
            f"A prompt holds at most {IN_RUN_CHARS:,} characters; the request and the agent's own"
            f" prompt have {fixed.characters:,}. Shorten one of them."
        )
    return (
        "The request, the agent's own prompt, its approved samples and its tools cost"
        f" {fixed.counted:,} tokens, and a prompt of this agent may cost {given.limit:,}. Shorten"
        " one of them, offer fewer tools, or give the agent a larger window."
    )


def _room_share(used: int, fixed: int, limit: int) -> float:
    """Return what is used of the room beside the irreducible part; over 1 is too much."""
    return (used - fixed) / max(limit - fixed, 1) if used > limit else 0.0


def _granted(filled: Filled) -> int:
    sections = sum(packed.row.granted for packed in filled.sections.values())
    return sections + filled.squeezed.packed.tokens


def _characters(messages: Sequence[ChatMessage]) -> int:
    return sum(len(message.content) for message in messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What wants in, and the two sections that no budget changes: packed once for all tries."""

    candidates: Candidates
    preferences: PackedSection
    usual: PackedPast


def _wanted(given: PromptInput) -> _Wanted:
    candidates = given.candidates()
    return _Wanted(
        candidates=candidates,
        preferences=candidates.pack(PREFERENCES, room=given.limit),
        usual=given.past.pack(cap=min(given.past.usual_cap(), given.limit)),
    )


def _fixed(given: PromptInput) -> Fixed:
    bare = render(given, {}, PackedPast())
    wording = given.wording
    announcement = estimate(wording.request_follows) + estimate(given.tag) + _ANNOUNCEMENT_TOKENS
    return Fixed(
        estimated=prompt_tokens(bare) + given.counter.tool_tokens(given.tools),
        counted=given.counter.bound(bare, tools=given.tools),
        announcement=announcement,
        characters=_characters(bare),
    )


def render(
    given: PromptInput, sections: Mapping[str, PackedSection], past: PackedPast
) -> tuple[ChatMessage, ...]:
    """Return the messages of packed sections in prompt order."""
    before = [sections[name].text for name in PROMPT_ORDER if name in sections]
    after = [sections[name].text for name in PROMPT_ORDER_AFTER if name in sections]
    return build_messages(
        system_prompt=given.system_prompt,
        wording=given.wording,
        tag=given.tag,
        sections=(*before, past.text, *after),
        request=given.question,
        past=past.messages,
    )


def _fill(given: PromptInput, wanted: _Wanted, fixed: Fixed, budget: int) -> Filled:
    """Pack everything within `budget`, by priority; whether the past fits, it says itself.

    Preferences are as irreducible as the request: nothing makes room by taking from them. Facts and
    core come before the past, but not so much of them that the past can not be told at all.
    """
    preferences, usual = wanted.preferences, wanted.usual
    room = budget - fixed.estimated - fixed.announcement - preferences.row.granted
    for share in _SHARES_BEFORE_PAST:
        sections = {PREFERENCES: preferences}
        before = int(max(room, 0) * share)
        taken = before - _pack_into(sections, BEFORE_PAST, wanted.candidates, before)
        needed = Demand(
            target=budget,
            irreducible=fixed.estimated + preferences.row.granted,
            needed=taken + usual.tokens,
            is_anything_cut=_is_cut(sections) or bool(usual.dropped),
        )
        squeezed = _past_within(_frame(given, sections, usual, room - taken), needed)
        if squeezed.is_within or not taken:
            break
    _pack_into(sections, AFTER_PAST, wanted.candidates, room - taken - squeezed.packed.tokens)
    demand = replace(
        needed,
        optional=[sections[name].row.wanted for name in AFTER_PAST],
        is_anything_cut=_is_cut(sections) or bool(usual.dropped),
    )
    decision: Decision = "compress" if squeezed.steps else decide(demand)
    return Filled(budget=budget, sections=sections, squeezed=squeezed, decision=decision)


def _pack_into(
    sections: dict[str, PackedSection], names: Sequence[str], wanted: Candidates, room: int
) -> int:
    """Pack sections in the order of their priority; return the room that is left."""
    for name in names:
        sections[name] = wanted.pack(name, room=room)
        room -= sections[name].row.granted
    return room


def _frame(
    given: PromptInput, sections: Mapping[str, PackedSection], usual: PackedPast, room: int
) -> Frame:
    return Frame(
        past=given.past,
        room=room,
        render=lambda packed: render(given, sections, packed),
        usual=usual,
        question=given.question,
        system_prompt=given.system_prompt,
        language=given.wording.language,
        fixed=_fixed_texts(sections),
    )


def _past_within(frame: Frame, needed: Demand) -> Squeezed:
    """Return the past as it is where it fits, compressed where it does not."""
    if decide(needed) in {"pass", "trim"} and frame.usual.tokens <= frame.room:
        return Squeezed(packed=frame.usual, frame=frame)
    return squeeze_past(frame)


def _is_cut(sections: Mapping[str, PackedSection]) -> bool:
    return any(packed.row.dropped for packed in sections.values())


def _fixed_texts(sections: Mapping[str, PackedSection]) -> tuple[FixedText, ...]:
    """Return the sections that no compression of the past may lose."""
    return tuple(
        FixedText(kind="section", id=name, text=sections[name].text)
        for name in ("preferences", "core")
        if sections[name].text
    )


def _accepted(
    given: PromptInput, filled: Filled, messages: tuple[ChatMessage, ...], fixed: Fixed
) -> Assembled:
    rows = [packed.row for packed in filled.sections.values()]
    sent = given.counter.sent(messages, tools=given.tools)
    estimated = _estimated(messages, filled) + given.counter.tool_tokens(given.tools)
    share = min(sent / max(estimated, 1), 1.0)
    outcome = Outcome(
        decision=filled.decision,
        wanted=sum(row.wanted for row in rows) + filled.squeezed.frame.usual.wanted,
        sent=sent,
        share=share,
    )
    rows.append(past_row(given, filled.squeezed.packed))
    return Assembled(
        given=given,
        ledger=account(given, rows, fixed, outcome=outcome),
        messages=messages,
        filled=filled,
        compressions=filled.squeezed.steps,
        share=share,
    )


def _estimated(messages: Sequence[ChatMessage], filled: Filled) -> int:
    """Estimate a prompt; what packing has counted of its messages is not counted again."""
    past = filled.squeezed.packed
    if not past.messages:
        return prompt_tokens(messages)
    counted = {id(message) for message in past.messages}
    rest = [message for message in messages if id(message) not in counted]
    return prompt_tokens(rest) + past.tokens


def _rejected(
    given: PromptInput,
    wanted: _Wanted,
    fixed: Fixed,
    refusal: str,
    steps: Sequence[LevelStep] = (),
) -> Assembled:
    """Account for a prompt that can not be: what everything would have cost, nothing granted."""
    names = (*BEFORE_PAST, *AFTER_PAST)
    others = [wanted.candidates.pack(name, room=given.limit) for name in names]
    rows = [one.row for one in (wanted.preferences, *others)]
    rows.append(past_row(given, wanted.usual))
    outcome = Outcome(decision="reject", wanted=sum(row.wanted for row in rows))
    ledger = account(given, rows, fixed, outcome=outcome)
    return Assembled(given=given, ledger=ledger, refusal=refusal, compressions=tuple(steps))
