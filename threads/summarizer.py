"""Getting a summary written: the agent's own provider, a shorter try, the fallback, then no model.

Always converges: the last link picks sentences and needs nobody. Holds no transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

from django.utils import timezone

from governance.redlines import mask_redlines
from governance.secrets import strip_secrets
from memory.compression.extractive import extractive_summary
from memory.compression.summary import check_summary, summary_messages
from memory.compression.turns import SummaryTurn
from memory.language import Language
from memory.providers import registry
from memory.providers.base import (
    ChatAnswer,
    ChatMessage,
    ChatRequest,
    ProviderConfig,
    Usage,
    complete,
)
from memory.providers.breaker import CircuitBreaker
from memory.providers.errors import ProviderError, ProviderTimeoutError
from memory.sanitize import sanitize
from memory.tokens import estimate, truncate_end, truncate_middle

CALL_SECONDS: Final = 45.0
ALL_CALLS_SECONDS: Final = 100.0
_LEAST_CALL_SECONDS: Final = 5.0
_LEAST_TEXT_TOKENS: Final = 16
_SHORTER: Final = 4
_breaker = CircuitBreaker()


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryTask:
    """What is to be summarised, and within what. Texts are already sanitised."""

    previous: str
    turns: Sequence[SummaryTurn]
    language: Language
    max_tokens: int

    @property
    def source_tokens(self) -> int:
        """What the summary replaces."""
        turns = sum(estimate(t.user_text) + estimate(t.assistant_text) for t in self.turns)
        return turns + estimate(self.previous)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryCall:
    """One model call made on the way, for the books; `outcome` is ok or what was wrong."""

    provider_id: str
    model: str
    outcome: str
    usage: Usage


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
    calls: list[SummaryCall] = []
    until = monotonic() + within_seconds
    for config, attempt in _attempts(task, configs):
        seconds = min(CALL_SECONDS, until - monotonic())
        is_resting = _breaker.is_open(provider_id=config.id, now=timezone.now())
        if is_resting or seconds < _LEAST_CALL_SECONDS:
            continue
        text, call = _ask(config, model, attempt, task, seconds)
        calls.append(call)
        if call.outcome == "ok":
            return WrittenSummary(text=text, method="model", model=call.model, calls=tuple(calls))
    picked = extractive_summary(
        previous=task.previous,
        turns=task.turns,
        language=task.language,
        max_tokens=task.max_tokens,
    )
    text = truncate_end(_clean(picked, task.language), max_tokens=task.max_tokens)
    return WrittenSummary(text=text, method="extractive", model="", calls=tuple(calls))


def _attempts(
    task: SummaryTask, configs: Sequence[ProviderConfig]
) -> Iterator[tuple[ProviderConfig, SummaryTask]]:
    """Yield whom to ask for what: the first provider, it again for less, then each other one."""
    for place, config in enumerate(configs):
        yield config, task
        if place == 0:
            yield config, _shorter(task)


def _ask(
    config: ProviderConfig, model: str, attempt: SummaryTask, task: SummaryTask, seconds: float
) -> tuple[str, SummaryCall]:
    """Ask one provider once; returns the cleaned text and how it went."""
    request = _request(model, attempt)
    try:
        answer = registry.run(_complete(config, request, seconds))
    except ProviderError as error:
        _breaker.failed(provider_id=config.id, now=timezone.now())
        sent = sum(estimate(message.content) for message in request.messages)
        usage = Usage(input_tokens=sent, output_tokens=0)
        return "", SummaryCall(provider_id=config.id, model=model, outcome=error.code, usage=usage)
    _breaker.succeeded(provider_id=config.id)
    text = _clean(answer.text, task.language)
    verdict = check_summary(
        text=text,
        source_tokens=task.source_tokens,
        language=task.language,
        max_tokens=task.max_tokens,
    )
    is_fine = verdict.is_ok or verdict.reason == "too_long"
    call = SummaryCall(
        provider_id=config.id,
        model=answer.model or model,
        outcome="ok" if is_fine else verdict.reason,
        usage=_usage(answer, request),
    )
    return truncate_end(text, max_tokens=task.max_tokens), call


async def _complete(config: ProviderConfig, request: ChatRequest, seconds: float) -> ChatAnswer:
    try:
        async with asyncio.timeout(seconds):
            return await complete(registry.chat_provider(config), request=request)
    except TimeoutError as error:
        raise ProviderTimeoutError from error


def _request(model: str, task: SummaryTask) -> ChatRequest:
    """Return the prompt; it never carries the agent's own system prompt."""
    system, user = summary_messages(
        previous=task.previous,
        turns=task.turns,
        language=task.language,
        max_tokens=task.max_tokens,
    )
    return ChatRequest(
        model=model,
        messages=(
            ChatMessage(role="system", content=system),
            ChatMessage(role="user", content=user),
        ),
        max_output_tokens=task.max_tokens * 2,
    )


def _usage(answer: ChatAnswer, request: ChatRequest) -> Usage:
    if answer.usage is not None:
        return answer.usage
    sent = sum(estimate(message.content) for message in request.messages)
    return Usage(input_tokens=sent, output_tokens=estimate(answer.text))


def _shorter(task: SummaryTask) -> SummaryTask:
    """Return the task with its long texts cut in the middle, for a model that choked on them.

    A quarter of the summary's size for each text, and a quarter of the source for all of them.
    """
    texts = 2 * max(len(task.turns), 1)
    share = task.source_tokens // _SHORTER // texts
    most = max(min(task.max_tokens // _SHORTER, share), _LEAST_TEXT_TOKENS)
    return replace(task, turns=tuple(shortened(turn, most) for turn in task.turns))


def shortened(turn: SummaryTurn, most: int) -> SummaryTurn:
    """Return a turn whose texts cost at most `most` tokens each, cut in the middle."""
    return SummaryTurn(
        seq=turn.seq,
        user_text=truncate_middle(turn.user_text, max_tokens=most, mark=" … "),
        assistant_text=truncate_middle(turn.assistant_text, max_tokens=most, mark=" … "),
        at=turn.at,
        is_failed=turn.is_failed,
    )


def _clean(text: str, language: Language) -> str:
    """Return what a summary may keep: no secret, nothing beyond the red lines, no marker."""
    masked = mask_redlines(strip_secrets(text).text, language=language).text
    return sanitize(masked).text.strip()
