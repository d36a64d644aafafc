"""Any server that speaks the OpenAI chat completions API, through the `openai` client.

The streamed call is always made. A server that answers in one piece, that refuses
`stream_options` or names the output limit otherwise, is understood all the same. All timeouts
are our own: a read timeout would let a byte every few seconds go on for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Any, Final, cast

import httpx2
from openai import AsyncOpenAI, AsyncStream

from memory.providers.base import ChatEvent, ChatRequest, ProviderConfig
from memory.providers.chunks import AnswerReader
from memory.providers.deadlines import Deadlines
from memory.providers.dialect import Dialect, LearnedDialect
from memory.providers.errors import ProviderError, ProviderMisconfiguredError
from memory.providers.exchange import (
    BROKEN_ERRORS,
    Chunk,
    Describe,
    Exchange,
    Failure,
    failure_of,
)
from memory.providers.network import HostRule, Resolve, check_base_url
from memory.providers.redaction import said_by_provider
from memory.providers.retry import RetryPolicy, wait_seconds
from memory.providers.transport import http_client

# These loggers write prompts and headers at DEBUG, whatever the root logger is set to.
for _name in ("openai", "httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.WARNING)

_NO_KEY: Final = "set-by-the-transport"
_MAX_ADAPTIONS = 2


class OpenAICompatibleProvider:
    """One configured server; its connections belong to the event loop of the first call."""

    def __init__(
        self,
        config: ProviderConfig,
        *,
        retry_policy: RetryPolicy | None = None,
        resolve: Resolve | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Check the configuration; `retry_policy`, `resolve` and `sleep` are for tests. No network.

        Raises:
            ProviderMisconfiguredError: when the base URL or the key cannot be used.
            ProviderRefusedHostError: when the host is not on the operator's list.
        """
        rule = HostRule(locality=config.locality, allowed_hosts=config.allowed_hosts)
        base_url = check_base_url(config.base_url, rule=rule)
        if config.api_key and not (config.api_key.isascii() and config.api_key.isprintable()):
            raise ProviderMisconfiguredError("The API key holds characters no header can carry.")
        self._config = config
        self._policy = retry_policy or RetryPolicy()
        self._sleep = sleep
        limit_name = "max_completion_tokens" if config.vendor.lower() == "openai" else "max_tokens"
        self._dialect = LearnedDialect(Dialect(limit_name=limit_name))
        self._base_url = base_url
        self._resolve = resolve
        self._client: AsyncOpenAI | None = None
        self._streams = 0
        self._is_retired = False

    async def stream(self, *, request: ChatRequest) -> AsyncGenerator[ChatEvent, None]:
        """Yield the answer as it comes; see `ChatProvider.stream`.

        Cost: one connection, kept for the next call; retries only before the first event.

        Raises:
            ProviderTimeoutError: when one of the configured timeouts passes.
            ProviderRefusedHostError: when the host's addresses are not allowed.
            ProviderError: when the call fails or the answer is unusable.
        """
        deadlines = Deadlines(self._config.timeouts)
        describe = partial(said_by_provider, request=request, api_key=self._config.api_key)
        reader = AnswerReader(model=request.model, describe_error=describe)
        self._streams += 1
        try:
            exchange = await self._open(request, deadlines, describe)
            try:
                while (chunk := await _next(exchange, reader, deadlines)) is not None:
                    for event in reader.feed(chunk.data):
                        yield event
                    _move_on(deadlines, reader)
            finally:
                await exchange.close()
            for event in reader.finish(saw_done=exchange.is_complete):
                yield event
        except ProviderError as error:
            if reader.usage is not None:
                error.spent_tokens = (reader.usage.input_tokens, reader.usage.output_tokens)
            raise
        finally:
            self._streams -= 1
            await self._close_if_retired()

    async def retire(self) -> None:
        """Close all connections, once the streams that are still running have ended.

        Whoever still holds the provider may go on using it, without kept connections.
        """
        self._is_retired = True
        await self._close_if_retired()

    async def aclose(self) -> None:
        """Close all connections now; running streams fail, later ones connect anew."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _close_if_retired(self) -> None:
        if self._is_retired and self._streams == 0:
            await self.aclose()

    def _live_client(self) -> AsyncOpenAI:
        if self._client is None:
            self._client = AsyncOpenAI(
                api_key=_NO_KEY,
                base_url=self._base_url,
                max_retries=0,
                timeout=httpx2.Timeout(None, connect=self._config.timeouts.connect_seconds),
                http_client=http_client(self._config, resolve=self._resolve),
            )
        return self._client

    async def _open(
        self, request: ChatRequest, deadlines: Deadlines, describe: Describe
    ) -> Exchange:
        first = dialect = self._dialect.current()
        adaptions, retries = 0, 0
        while True:
            deadlines.begin_attempt()
            answer = await self._attempt(dialect.body(request), deadlines, describe)
            if isinstance(answer, Exchange):
                self._dialect.worked(dialect, first=first)
                return answer
            adapted = dialect.adapted(answer.body) if answer.status in (400, 422) else None
            if adapted is not None and adaptions < _MAX_ADAPTIONS:
                dialect, adaptions = adapted, adaptions + 1
                continue
            wait = self._wait_seconds(answer, retries, deadlines)
            if wait is None:
                raise answer.error
            retries += 1
            await self._sleep(wait)

    def _wait_seconds(self, failure: Failure, retries: int, deadlines: Deadlines) -> float | None:
        if not failure.may_retry:
            return None
        wait = wait_seconds(
            policy=self._policy,
            status=failure.status,
            retries_done=retries,
            elapsed_seconds=deadlines.elapsed_seconds(),
            retry_after_seconds=failure.retry_after_seconds,
        )
        return wait if wait is not None and wait < deadlines.remaining_seconds() else None

    async def _attempt(
        self, body: dict[str, Any], deadlines: Deadlines, describe: Describe
    ) -> Exchange | Failure:
        try:
            client = self._live_client()
        except (httpx2.InvalidURL, ValueError):  # passed our checks, and not the client's
            return Failure(error=ProviderMisconfiguredError("The base URL cannot be read."))
        # The typed method would copy the whole prompt through its schema, 2 ms a call.
        call = client.post(
            "/chat/completions",
            body={**body, "stream": True},
            cast_to=httpx2.Response,
            stream=True,
            stream_cls=AsyncStream[object],
        )
        try:
            response = cast(httpx2.Response, await deadlines.bound(call))
        except (ProviderError, *BROKEN_ERRORS) as error:
            return failure_of(error, describe=describe)
        return Exchange(response, client=client, describe=describe)


def _move_on(deadlines: Deadlines, reader: AnswerReader) -> None:
    if reader.is_finished:
        deadlines.wind_down(has_all=reader.has_usage)
    elif reader.has_progressed:
        deadlines.progressed()


async def _next(exchange: Exchange, reader: AnswerReader, deadlines: Deadlines) -> Chunk | None:
    try:
        return await deadlines.bound(exchange.next_chunk())
    except ProviderError:
        if reader.is_finished:  # all there is to say has been said; only the count is missing
            return None
        raise
