"""Asking models for memory work: the agent's own provider, a shorter try, then the fallback.

One road for everything that is summarised. Holds no transaction; never raises for a provider that
fails, says nonsense or takes its time: then there is no answer, and the caller does without.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, Final, Generic, TypeVar

from django.utils import timezone

from governance.redlines import mask_redlines
from governance.secrets import strip_secrets
from memory.language import Language
from memory.providers import registry
from memory.providers.base import (
    ChatAnswer,
    ChatMessage,
    ChatProvider,
    ChatRequest,
    Finished,
    ProviderConfig,
    TextDelta,
    Usage,
    complete,
)
from memory.providers.breaker import CircuitBreaker
from memory.providers.errors import ProviderError, ProviderTimeoutError
from memory.sanitize import sanitize
from memory.tokens import estimate

CALL_SECONDS: Final = 45.0
ALL_CALLS_SECONDS: Final = 100.0
OK: Final = "ok"
_LEAST_CALL_SECONDS: Final = 5.0
# Answers about what was asked, by a provider that is well: another question may fare better.
_OF_THE_REQUEST: Final = frozenset({400, 413, 422, 451})
_breaker = CircuitBreaker()

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryCall:
    """One model call made on the way, for the books; `outcome` is ok or what was wrong."""

    provider_id: str
    model: str
    outcome: str
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What to ask; it never carries an agent's own system prompt.

    `most_characters` is how much of an answer is read: a longer one is cut there, None refuses it.
    """

    system: str
    user: str
    max_output_tokens: int
    most_characters: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading(Generic[Made]):
    """What was read from an answer, and "ok" or what is wrong with it."""

    made: Made
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard(Generic[Made]):
    """What came of asking: the first good answer and its model, or None; and all calls made."""

    made: Made | None
    model: str
    calls: tuple[SummaryCall, ...]


def ask_in_turn(
    *,
    configs: Sequence[ProviderConfig],
    model: str,
    prompt: Callable[[bool], Prompt],
    read: Callable[[str], Reading[Made]],
    within_seconds: float,
) -> Heard[Made]:
    """Return the first good answer. Cost: at most one call a provider, two to the first.

    Args:
        configs: The providers that may see the prompt, in order (threads.chat.memory_providers).
        model: The model to ask each of them for.
        prompt: Gives the prompt; with True a shorter one, for a model that choked on it.
        read: Reads and judges an answer.
        within_seconds: What all calls together may take; providers at rest are passed over.
    """
    calls: list[SummaryCall] = []
    until = monotonic() + within_seconds
    for config, is_shorter in _attempts(configs):
        seconds = min(CALL_SECONDS, until - monotonic())
        is_resting = _breaker.is_open(provider_id=config.id, now=timezone.now())
        if is_resting or seconds < _LEAST_CALL_SECONDS:
            continue
        asked = prompt(is_shorter)
        answer = partial(_complete, config, _request(model, asked), seconds, asked.most_characters)
        reading, call = _ask(config, _request(model, asked), read, answer)
        calls.append(call)
        if reading is not None and reading.outcome == OK:
            return Heard(made=reading.made, model=call.model, calls=tuple(calls))
    return Heard(made=None, model="", calls=tuple(calls))


def clean(text: str, *, language: Language) -> str:
    """Return what may be kept: no secret, nothing beyond the red lines, no marker."""
    masked = mask_redlines(strip_secrets(text).text, language=language).text
    return sanitize(masked).text.strip()


def _attempts(configs: Sequence[ProviderConfig]) -> Iterator[tuple[ProviderConfig, bool]]:
    """Yield whom to ask, and if for less: the first provider, it again, then each other one."""
    for place, config in enumerate(configs):
        yield config, False
        if place == 0:
            yield config, True


def _ask(
    config: ProviderConfig,
    request: ChatRequest,
    read: Callable[[str], Reading[Made]],
    ask: Callable[[], Coroutine[Any, Any, ChatAnswer]],
) -> tuple[Reading[Made] | None, SummaryCall]:
    """Ask one provider once; returns what was read, None without an answer, and how it went."""
    try:
        answer = registry.run(ask())
    except ProviderError as error:
        if error.status not in _OF_THE_REQUEST:
            _breaker.failed(provider_id=config.id, now=timezone.now())
        return None, SummaryCall(
            provider_id=config.id,
            model=request.model,
            outcome=error.code,
            usage=Usage(input_tokens=_sent(request), output_tokens=0),
        )
    _breaker.succeeded(provider_id=config.id)
    reading = read(answer.text)
    call = SummaryCall(
        provider_id=config.id,
        model=answer.model or request.model,
        outcome=reading.outcome,
        usage=_usage(answer, request),
    )
    return reading, call


async def _complete(
    config: ProviderConfig, request: ChatRequest, seconds: float, most_characters: int | None
) -> ChatAnswer:
    provider = registry.chat_provider(config)
    try:
        async with asyncio.timeout(seconds):
            if most_characters is None:
                return await complete(provider, request=request)
            return await _complete_within(provider, request, most_characters)
    except TimeoutError as error:
        raise ProviderTimeoutError from error


async def _complete_within(
    provider: ChatProvider, request: ChatRequest, most_characters: int
) -> ChatAnswer:
    """Return an answer, or its beginning: then the call ends there."""
    pieces: list[str] = []
    length = 0
    async with aclosing(provider.stream(request=request)) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                pieces.append(event.text)
                length += len(event.text)
            elif isinstance(event, Finished):
                text = "".join(pieces)[:most_characters]
                return ChatAnswer(
                    text=text,
                    tool_calls=(),
                    reason=event.reason,
                    model=event.model,
                    usage=event.usage,
                )
            if length >= most_characters:
                text = "".join(pieces)[:most_characters]
                return ChatAnswer(
                    text=text, tool_calls=(), reason="length", model=request.model, usage=None
                )
    raise ProviderError("The provider's stream ended before it was finished.")


def _request(model: str, prompt: Prompt) -> ChatRequest:
    return ChatRequest(
        model=model,
        messages=(
            ChatMessage(role="system", content=prompt.system),
            ChatMessage(role="user", content=prompt.user),
        ),
        max_output_tokens=prompt.max_output_tokens,
    )


def _usage(answer: ChatAnswer, request: ChatRequest) -> Usage:
    if answer.usage is not None:
        return answer.usage
    return Usage(input_tokens=_sent(request), output_tokens=estimate(answer.text))


def _sent(request: ChatRequest) -> int:
    return sum(estimate(message.content) for message in request.messages)
