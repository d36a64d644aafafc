"""One POST to {base_url}/embeddings, and its failures told apart."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import httpx2
from openai import AsyncOpenAI

from memory.providers.base import ChatMessage, ChatRequest, ProviderConfig
from memory.providers.embeddings.base import (
    EmbeddingError,
    EmbeddingRefusedError,
    EmbeddingTimeoutError,
    EmbeddingUnavailableError,
)
from memory.providers.errors import (
    ProviderError,
    ProviderMisconfiguredError,
    ProviderTimeoutError,
)
from memory.providers.exchange import BROKEN_ERRORS, Failure, failure_of
from memory.providers.network import HostRule, Resolve, check_base_url
from memory.providers.redaction import said_by_provider
from memory.providers.transport import http_client

# These loggers write what is sent at DEBUG, whatever the root logger is set to.
for _name in ("openai", "httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.WARNING)

_NO_KEY: Final = "set-by-the-transport"
_ABOUT_THE_TEXT: Final = frozenset({400, 413, 422})


class Endpoint:
    """A server's embeddings; its connections belong to the loop of the first call."""

    def __init__(self, config: ProviderConfig, *, resolve: Resolve | None = None) -> None:
        """Check the configuration. No network.

        Raises:
            ProviderMisconfiguredError: The kind, the base URL or the key can not be used.
            ProviderRefusedHostError: The host is not on the operator's list.
        """
        if config.kind != "openai_compatible":
            raise ProviderMisconfiguredError("This provider has no embeddings.")
        rule = HostRule(locality=config.locality, allowed_hosts=config.allowed_hosts)
        self._base_url = check_base_url(config.base_url, rule=rule)
        if config.api_key and not (config.api_key.isascii() and config.api_key.isprintable()):
            raise ProviderMisconfiguredError("The API key holds characters no header can carry.")
        self._config = config
        self._resolve = resolve
        self._client: AsyncOpenAI | None = None

    async def post(self, body: dict[str, Any], *, texts: Sequence[str], seconds: float) -> bytes:
        """Send one request and return the body of its answer, bounded in size and time.

        A connection that the server had closed before is replaced once; nothing else is repeated.

        Args:
            body: The request as JSON.
            texts: What it says, so that no error repeats it.
            seconds: What all of it may take.

        Raises:
            EmbeddingError: A subclass that says who is at fault.
        """
        try:
            async with asyncio.timeout(seconds):
                answer = await self._attempt(body, texts)
                if isinstance(answer, Failure) and answer.may_retry and answer.status is None:
                    answer = await self._attempt(body, texts)
        except TimeoutError:
            raise EmbeddingTimeoutError from None
        if isinstance(answer, Failure):
            raise _told_apart(answer)
        return answer

    async def aclose(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _attempt(self, body: dict[str, Any], texts: Sequence[str]) -> bytes | Failure:
        # As a prompt, for that is what the redaction of errors knows.
        said = tuple(ChatMessage(role="user", content=text) for text in texts)
        request = ChatRequest(model="", messages=said, max_output_tokens=0)
        describe = partial(said_by_provider, request=request, api_key=self._config.api_key)
        call = self._live_client().post("/embeddings", body=body, cast_to=httpx2.Response)
        try:
            return (await call).content
        except (ProviderError, *BROKEN_ERRORS) as error:
            return failure_of(error, describe=describe)

    def _live_client(self) -> AsyncOpenAI:
        if self._client is None:
            connect = self._config.timeouts.connect_seconds
            self._client = AsyncOpenAI(
                api_key=_NO_KEY,
                base_url=self._base_url,
                max_retries=0,
                timeout=httpx2.Timeout(None, connect=connect),
                http_client=http_client(self._config, resolve=self._resolve),
            )
        return self._client


def _told_apart(failure: Failure) -> EmbeddingError:
    detail = failure.error.detail
    if isinstance(failure.error, ProviderTimeoutError):
        return EmbeddingTimeoutError(detail)
    if failure.status in _ABOUT_THE_TEXT:
        return EmbeddingRefusedError(detail)
    return EmbeddingUnavailableError(detail)
