"""The prompt of a run on its way: what it began with, and the tool rounds since. Pure.

Before every model call it is held against the in-run window (L0), whatever the tools returned:
repeated results become references, then long ones, then the thread's past shrinks, and what still
does not fit is not sent (DESIGN 4 and 8).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from time import perf_counter
from typing import Any, Final, Protocol

from memory.compression.chain import PRECHECK, ChainResult, Level, LevelStep, run_chain
from memory.compression.tool_results import shorten_result
from memory.compression.veto import VetoList
from memory.ids import new_id
from memory.language import Language
from memory.providers.base import ChatMessage, ToolSpec
from memory.tokens import estimate
from threads.call_cutting import cut_arguments
from threads.round_frame import RoundFrame
from threads.tool_rounds import ToolRound, without_calls
from threads.tools.records import ToolOutcome

MOST_TOKENS: Final = 80_000
MOST_CHARS: Final = 200_000
# What is left of a long result, in tokens: from a good summary down to little more than its id.
_BUDGETS: Final = (600, 200, 60)
# How much of the past goes, against what is over; its parts have the sizes they have.
_SHARES: Final = (1.0, 1.5, 3.0)
_MARGIN_TOKENS: Final = 16
_SAME: Final[dict[Language, str]] = {
    "zh": "（与上文调用 {call} 的结果相同，引用 {id}）",
    "en": "(the same as the result of call {call} above, reference {id})",
}


class BasePrompt(Protocol):
    """What a run's prompt begins with, as `threads.prompt.assembly.Assembled` is: within the window."""

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """The messages as first sent."""
        ...

    @property
    def target(self) -> int:
        """What the prompt may cost, in tokens."""
        ...

    @property
    def frame(self) -> RoundFrame:
        """The boundary that what tools return stands in."""
        ...

    @property
    def veto(self) -> VetoList:
        """What no compression may lose of it."""
        ...

    def count(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> int:
        """Return the tokens that are held against the target: never below the real tokenizer's."""
        ...

    def shrink(self, tokens_less: int) -> tuple[ChatMessage, ...] | None:
        """Return `messages` with the thread's past that much smaller; None if nothing can go."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What may be sent now, what it costs, and how that came to be.

    Attributes:
        tokens: As counted; None where nothing has been added to what was counted at assembly.
        steps: The trace's steps, without any text of the prompt.
        is_within: Whether it may be sent at all.
    """

    messages: tuple[ChatMessage, ...]
    tokens: int | None
    steps: tuple[dict[str, Any], ...]
    is_within: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """The prompt as it stands: the base, how much of the past went, results shown otherwise.

    `named` has, for each result that names an equal one instead, that one's reference id.
    """

    base: tuple[ChatMessage, ...]
    tokens_less: int = 0
    shown: dict[str, str] = field(default_factory=dict)
    called_with: dict[str, str] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)


class RunPrompt:
    """One run's prompt; what was compressed once stays so for the calls after."""

    def __init__(self, *, base: BasePrompt, language: Language) -> None:
        """Take the prompt as assembled."""
        self._base = base
        self._frame = base.frame
        self._language = language
        self._rounds: list[ToolRound] = []
        self._draft = _Draft(base=base.messages)

    def add(self, done: ToolRound) -> None:
        """Take in a round: its calls and their results follow in every later call."""
        self._rounds.append(done)

    def fit(self, *, tools: Sequence[ToolSpec], now: datetime) -> Window:
        """Return the messages of the next call, compressed as far as the window asks.

        Cost: a count of the prompt where a round was added, for each level tried another one.
        """
        messages = self._render(self._draft)
        if not self._rounds:  # assembling has held it against this very window
            return Window(messages=messages, tokens=None, steps=(), is_within=True)
        began = perf_counter()
        gauge = _Gauge(base=self._base, tools=tuple(tools), render=self._render)
        tokens = gauge.count(messages)
        if tokens <= gauge.target:
            step = self._precheck(tokens, gauge.target, "pass", now, began)
            return Window(messages=messages, tokens=tokens, steps=(step,), is_within=True)
        first = self._precheck(tokens, gauge.target, "compress", now, began)
        began = perf_counter()
        result = self._squeezed(gauge)
        ms = _ms_since(began)
        self._draft = result.draft
        messages = self._render(result.draft)
        tokens = gauge.count(messages)
        last = self._precheck(
            tokens, gauge.target, "pass" if result.is_within else "reject", now, perf_counter()
        )
        levels = (_level_step(level, now, ms) for level in result.steps if level.level != PRECHECK)
        return Window(
            messages=messages,
            tokens=tokens,
            steps=(first, *levels, last),
            is_within=result.is_within,
        )

    def _render(self, draft: _Draft) -> tuple[ChatMessage, ...]:
        rounds = (
            done.messages(frame=self._frame, shown=draft.shown, called_with=draft.called_with)
            for done in self._rounds
        )
        return (*draft.base, *(message for messages in rounds for message in messages))

    def _squeezed(self, gauge: _Gauge) -> ChainResult[_Draft]:
        outcomes = [outcome for done in self._rounds for outcome in done.outcomes]
        newest = len(self._rounds[-1].outcomes) if self._rounds else 0
        shorten = partial(_Shorten, gauge=gauge, language=self._language, outcomes=outcomes)
        levels: list[Level[_Draft]] = [_Dedupe(outcomes=outcomes, language=self._language)]
        levels.append(shorten(older=len(outcomes) - newest, budget=_BUDGETS[0]))
        levels.append(shorten(older=len(outcomes), budget=_BUDGETS[0]))
        levels.append(_CutArguments(outcomes=outcomes, gauge=gauge, language=self._language))
        levels += (shorten(older=len(outcomes), budget=budget) for budget in _BUDGETS[1:])
        levels += (_Shrink(base=self._base, gauge=gauge, share=share) for share in _SHARES)
        calls = tuple(outcome.call.id for outcome in outcomes)
        return run_chain(
            draft=self._draft,
            levels=levels,
            render=self._render,
            count=gauge.count,
            target=gauge.target,
            veto=replace(self._base.veto, tools=gauge.tools, tool_calls=calls),
            tools=gauge.tools,
            new_summary_id=partial(new_id, "sum"),
        )

    def _precheck(
        self, tokens: int, target: int, decision: str, now: datetime, began: float
    ) -> dict[str, Any]:
        data = {
            "current_tokens": tokens,
            "target_budget": target,
            "decision": decision,
            "candidate_count": sum(len(done.outcomes) for done in self._rounds),
        }
        return _step("precheck", now, _ms_since(began), data)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gauge:
    """What a draft costs, and what it may cost."""

    base: BasePrompt
    tools: tuple[ToolSpec, ...]
    render: Callable[[_Draft], tuple[ChatMessage, ...]]

    @property
    def target(self) -> int:
        return min(self.base.target, MOST_TOKENS)

    def count(self, messages: Sequence[ChatMessage]) -> int:
        """Return the tokens; over the limit of characters, more than the target by as large a share."""
        said = [without_calls(message) for message in messages]
        tokens = self.base.count(said, self.tools)
        characters = sum(len(message.content) for message in said)
        if characters <= MOST_CHARS:
            return tokens
        return max(tokens, self.target * characters // MOST_CHARS + 1)

    def over(self, draft: _Draft) -> int:
        """Return how many tokens a draft is over the target."""
        return self.count(self.render(draft)) - self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dedupe:
    """Level 1: a result that equals an earlier one names that one, if it is shown as it came.

    One that was shortened meanwhile is not named: the model has asked again to see it.
    """

    outcomes: Sequence[ToolOutcome]
    language: Language
    name: str = "dedupe"

    def apply(self, draft: _Draft) -> _Draft | None:
        firsts: dict[str, ToolOutcome] = {}
        shown, named = dict(draft.shown), dict(draft.named)
        for outcome in self.outcomes:
            first = firsts.get(outcome.content)
            if first is None:
                if outcome.reference_id not in shown:
                    firsts[outcome.content] = outcome
                continue
            same = _SAME[self.language]
            said = same.replace("{call}", first.call.id).replace("{id}", first.reference_id)
            if len(said) < len(shown.get(outcome.reference_id, outcome.shown)):
                shown[outcome.reference_id] = said
                named[outcome.reference_id] = first.reference_id
        return replace(draft, shown=shown, named=named) if shown != draft.shown else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shorten:
    """Level 2: long results, oldest first, become a summary with their reference id.

    Only the first `older` of the outcomes. One that others name becomes so together with these,
    since what they say would be wrong of a summary: all of them, or none.
    """

    outcomes: Sequence[ToolOutcome]
    older: int
    budget: int
    gauge: _Gauge
    language: Language
    name: str = "tool_results"

    def apply(self, draft: _Draft) -> _Draft | None:
        over = self.gauge.over(draft) + _MARGIN_TOKENS
        shown, named = dict(draft.shown), dict(draft.named)
        newer = {named.get(outcome.reference_id) for outcome in self.outcomes[self.older :]}
        naming: dict[str, list[ToolOutcome]] = defaultdict(list)
        for outcome in self.outcomes:
            naming[named.get(outcome.reference_id, "")].append(outcome)
        for outcome in self.outcomes[: self.older]:
            if over <= 0:
                break
            own = outcome.reference_id
            before = estimate(shown.get(own, outcome.shown))
            if before <= self.budget or own in newer or own in named:
                continue
            short = self._short(outcome, self.budget)
            # Of those that named it little more than an id is left: no longer than what they said.
            texts = {
                one.reference_id: self._short(one, estimate(shown[one.reference_id]))
                for one in naming[own]
            }
            saved = before - estimate(short)
            if saved > 0:
                shown |= {own: short, **texts}
                named = {at: first for at, first in named.items() if at not in texts}
                over -= saved
        return replace(draft, shown=shown, named=named) if shown != draft.shown else None

    def _short(self, outcome: ToolOutcome, most_tokens: int) -> str:
        return shorten_result(
            text=outcome.shown,
            reference_id=outcome.reference_id,
            max_tokens=most_tokens,
            language=self.language,
        ).text


@dataclass(frozen=True, slots=True, kw_only=True)
class _CutArguments:
    """Level 2 too: long texts that tools were called with, oldest first, keep their beginning."""

    outcomes: Sequence[ToolOutcome]
    gauge: _Gauge
    language: Language
    name: str = "tool_arguments"

    def apply(self, draft: _Draft) -> _Draft | None:
        over = self.gauge.over(draft) + _MARGIN_TOKENS
        called_with = dict(draft.called_with)
        for outcome in self.outcomes:
            if over <= 0:
                break
            call = outcome.call
            now = called_with.get(call.id, call.arguments)
            short = cut_arguments(now, language=self.language)
            if short != now:
                called_with[call.id] = short
                over -= estimate(now) - estimate(short)
        if called_with == draft.called_with:
            return None
        return replace(draft, called_with=called_with)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shrink:
    """Level 3: the thread's past makes room."""

    base: BasePrompt
    gauge: _Gauge
    share: float
    name: str = "summary"

    def apply(self, draft: _Draft) -> _Draft | None:
        over = self.gauge.over(draft)
        less = draft.tokens_less + int(over * self.share) + _MARGIN_TOKENS
        messages = self.base.shrink(less)
        if messages is None:
            return None
        return replace(draft, base=messages, tokens_less=less)


def _level_step(level: LevelStep, now: datetime, ms: float) -> dict[str, Any]:
    return _step("compress", now, ms, level.as_json())


def _step(kind: str, now: datetime, ms: float, data: dict[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "started_at": now.isoformat(), "ms": ms, "data": data}


def _ms_since(began: float) -> float:
    return round((perf_counter() - began) * 1000, 2)
