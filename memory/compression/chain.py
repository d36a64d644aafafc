"""The chain of compression: level after level until the prompt fits, nothing lost, or refused.

Pure: what a level does, how a draft becomes a prompt and what that costs is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Literal, Protocol, TypeVar

from memory.compression.veto import Missing, VetoList, missing
from memory.errors import CredenceError
from memory.providers.base import ChatMessage, ToolSpec

D = TypeVar("D")

Outcome = Literal["kept", "undone", "nothing", "refused"]

# The name of the step that says why a prompt was refused.
PRECHECK: Final = "precheck"
_OK: Final = "ok"
_MAX_NAMED: Final = 20


class Level(Protocol[D]):
    """One way to make a draft shorter.

    A level may also have an attribute `model`, read after `apply`: the model that did the work.
    """

    @property
    def name(self) -> str:
        """The name of the level in traces."""
        ...

    def apply(self, draft: D, /) -> D | None:
        """Return a shorter draft, or None if there is nothing to do. `draft` stays as it is.

        Raises:
            CredenceError: or a subclass, if the level failed; the chain goes on without it.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelStep:
    """What one level did, for the trace; no text of the prompt.

    `tokens_after` of an undone level is what it came to, not what is sent. `summary_id` is ""
    where nothing was compressed. `veto` is "ok", or what was missing as "kind:id", or
    "error:code" of a level that failed. `outcome` is kept, undone (the draft before goes on),
    nothing (the level found nothing to do) or refused (the end of a chain that did not fit).
    """

    level: str
    summary_id: str
    tokens_before: int
    tokens_after: int
    model: str
    veto: str
    outcome: Outcome

    def as_json(self) -> dict[str, str | int]:
        """Return the step as a trace stores it."""
        return {
            "level": self.level,
            "summary_id": self.summary_id,
            "tokens_before": self.tokens_before,
            "tokens_after": self.tokens_after,
            "model": self.model,
            "veto": self.veto,
            "outcome": self.outcome,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainResult(Generic[D]):
    """The last good draft, what each level did, and whether the draft may be sent."""

    draft: D
    steps: tuple[LevelStep, ...]
    is_within: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gauge(Generic[D]):
    """How a draft is judged: what it costs and what it lacks."""

    render: Callable[[D], tuple[ChatMessage, ...]]
    count: Callable[[Sequence[ChatMessage]], int]
    veto: VetoList
    tools: Sequence[ToolSpec]

    def read(self, draft: D) -> tuple[int, tuple[Missing, ...]]:
        """Return the tokens of the draft's prompt and what of the veto list it lacks."""
        messages = self.render(draft)
        return self.count(messages), missing(self.veto, messages=messages, tools=self.tools)


def run_chain(
    *,
    draft: D,
    levels: Sequence[Level[D]],
    render: Callable[[D], tuple[ChatMessage, ...]],
    count: Callable[[Sequence[ChatMessage]], int],
    target: int,
    veto: VetoList,
    tools: Sequence[ToolSpec],
    new_summary_id: Callable[[], str],
) -> ChainResult[D]:
    """Return `draft` shortened by as few of `levels`, light to heavy, as make it fit `target`.

    The precheck runs first and after each level. A level that loses something of `veto`, fails,
    or does not make the prompt shorter is undone, and the next starts from the last good draft.
    A draft that lacks something before any level is refused at once: no shortening brings it back.

    Args:
        draft: What the prompt is made of; of any type, never changed.
        levels: Light to heavy.
        render: Makes the prompt of a draft.
        count: The tokens of a prompt, with whatever its tools cost.
        target: The most tokens that may be sent.
        veto: What the prompt must hold.
        tools: The tools that will be offered with it.
        new_summary_id: Called once for each level that changed something.
    """
    gauge = _Gauge(render=render, count=count, veto=veto, tools=tools)
    tokens, lacking = gauge.read(draft)
    steps: list[LevelStep] = []
    for level in () if lacking else levels:
        if tokens <= target:
            break
        draft, step = _try(level, draft, gauge, tokens, new_summary_id)
        steps.append(step)
        tokens = step.tokens_after if step.outcome == "kept" else tokens
    is_within = tokens <= target and not lacking
    if not is_within:
        steps.append(_refusal(tokens, lacking))
    return ChainResult(draft=draft, steps=tuple(steps), is_within=is_within)


def _try(
    level: Level[D], draft: D, gauge: _Gauge[D], before: int, new_summary_id: Callable[[], str]
) -> tuple[D, LevelStep]:
    """Return what a level made of `draft`, or `draft` if that is not to be kept, and its step."""
    tried: D | None = None
    outcome: Outcome = "nothing"
    after, verdict, summary_id = before, _OK, ""
    try:
        tried = level.apply(draft)
    except CredenceError as error:
        outcome, verdict = "undone", f"error:{error.code}"
    if tried is not None:
        summary_id = new_summary_id()
        after, lacking = gauge.read(tried)
        verdict = _named(lacking)
        outcome = "undone" if lacking or after >= before else "kept"
    step = LevelStep(
        level=level.name,
        summary_id=summary_id,
        tokens_before=before,
        tokens_after=after,
        model=str(getattr(level, "model", "")),
        veto=verdict,
        outcome=outcome,
    )
    return draft if tried is None or outcome != "kept" else tried, step


def _refusal(tokens: int, lacking: tuple[Missing, ...]) -> LevelStep:
    """Return the step that ends a chain whose prompt must not be sent."""
    return LevelStep(
        level=PRECHECK,
        summary_id="",
        tokens_before=tokens,
        tokens_after=tokens,
        model="",
        veto=_named(lacking),
        outcome="refused",
    )


def _named(lacking: Sequence[Missing]) -> str:
    """Return what is missing as one short text, "ok" if nothing is."""
    names = [str(item) for item in lacking[:_MAX_NAMED]]
    if len(lacking) > _MAX_NAMED:
        names.append(f"+{len(lacking) - _MAX_NAMED}")
    return ", ".join(names) or _OK
