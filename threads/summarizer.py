"""Getting a summary written: by a model if one does it well, else from the turns' own sentences.

Always converges: the last link picks sentences and needs nobody. Holds no transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from memory.compression.extractive import extractive_summary
from memory.compression.open_items import cut_before_open_lines, still_open
from memory.compression.summary import check_summary, summary_messages
from memory.compression.turns import SummaryTurn
from memory.language import Language
from memory.providers.base import ProviderConfig
from memory.tokens import estimate, truncate_end, truncate_middle
from threads.asking import (
    ALL_CALLS_SECONDS,
    OK,
    Prompt,
    Reading,
    SummaryCall,
    ask_in_turn,
    clean,
)

__all__ = [
    "SummaryCall",
    "SummaryTask",
    "WrittenSummary",
    "shortened",
    "shortened_turns",
    "write_summary",
]

_LEAST_TEXT_TOKENS: Final = 16
_SHORTER: Final = 4


@dataclass(frozen=True, kw_only=True)
class SummaryTask:
    """What is to be summarised, and within what. Texts are already sanitised."""

    previous: str
    turns: Sequence[SummaryTurn]
    language: Language
    max_tokens: int

    @property
    def source_tokens(self) -> int:
        """What the summary replaces."""
        return _tokens(self.turns) + estimate(self.previous)

    @cached_property
    def open_before(self) -> tuple[str, ...]:
        """The open lines of the summary so far that no turn says are done."""
        return still_open(previous=self.previous, turns=self.turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSummary:
    """A summary fit to be stored; `method` is model or extractive."""

    text: str
    method: str
    model: str
    calls: tuple[SummaryCall, ...]


def write_summary(
    *,
    task: SummaryTask,
    configs: Sequence[ProviderConfig],
    model: str,
    within_seconds: float = ALL_CALLS_SECONDS,
) -> WrittenSummary:
    """Return a summary within `task.max_tokens`. Cost: at most one model call per link and retry.

    Args:
        task: What to summarise.
        configs: The providers that may see it, in order (threads.chat.memory_providers).
        model: The model to ask each of them for.
        within_seconds: What all calls together may take; after it the model-free way is left.
    """
    heard = ask_in_turn(
        configs=configs,
        model=model,
        prompt=lambda is_shorter: _prompt(_shorter(task) if is_shorter else task),
        read=lambda answer: _read(answer, task),
        within_seconds=within_seconds,
    )
    if heard.made is not None:
        return WrittenSummary(text=heard.made, method="model", model=heard.model, calls=heard.calls)
    picked = extractive_summary(
        previous=task.previous,
        turns=task.turns,
        language=task.language,
        max_tokens=task.max_tokens,
    )
    text = truncate_end(clean(picked, language=task.language), max_tokens=task.max_tokens)
    return WrittenSummary(text=text, method="extractive", model="", calls=heard.calls)


def _prompt(task: SummaryTask) -> Prompt:
    system, user = summary_messages(
        previous=task.previous,
        turns=task.turns,
        language=task.language,
        max_tokens=task.max_tokens,
    )
    return Prompt(system=system, user=user, max_output_tokens=task.max_tokens * 2)


def _read(answer: str, task: SummaryTask) -> Reading[str]:
    """Return an answer cleaned and within its cap, and whether it can be the summary."""
    text = clean(answer, language=task.language)
    reason = _fault(text, task)
    if reason == "too_long":
        text = cut_before_open_lines(text, max_tokens=task.max_tokens)
        reason = _fault(text, task)
    return Reading(made=text, outcome=reason or OK)


def _fault(text: str, task: SummaryTask) -> str:
    """Return what keeps a text from being the summary, "" if nothing does."""
    return check_summary(
        text=text,
        source_tokens=task.source_tokens,
        language=task.language,
        max_tokens=task.max_tokens,
        open_before=task.open_before,
    ).reason


def _shorter(task: SummaryTask) -> SummaryTask:
    """Return the task with its long texts cut in the middle, for a model that choked on them."""
    turns = shortened_turns(
        turns=task.turns, source_tokens=task.source_tokens, max_tokens=task.max_tokens
    )
    return replace(task, turns=turns)


def shortened_turns(
    *, turns: Sequence[SummaryTurn], source_tokens: int, max_tokens: int
) -> tuple[SummaryTurn, ...]:
    """Return the turns with a quarter of the source for all, of the summary's size for each text.

    Args:
        turns: The turns of a source.
        source_tokens: What the whole source costs.
        max_tokens: The cap of its summary.
    """
    share = source_tokens // _SHORTER // (2 * max(len(turns), 1))
    most = max(min(max_tokens // _SHORTER, share), _LEAST_TEXT_TOKENS)
    return tuple(shortened(turn, most) for turn in turns)


def shortened(turn: SummaryTurn, most: int) -> SummaryTurn:
    """Return a turn whose texts cost at most `most` tokens each, cut in the middle."""
    return SummaryTurn(
        seq=turn.seq,
        user_text=truncate_middle(turn.user_text, max_tokens=most, mark=" … "),
        assistant_text=truncate_middle(turn.assistant_text, max_tokens=most, mark=" … "),
        at=turn.at,
        is_failed=turn.is_failed,
    )


def _tokens(turns: Sequence[SummaryTurn]) -> int:
    return sum(estimate(turn.user_text) + estimate(turn.assistant_text) for turn in turns)
