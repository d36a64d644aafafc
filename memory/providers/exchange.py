"""One HTTP exchange with a server: its answer read value by value, its failures explained."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import httpx2
import openai
import re2
from openai import AsyncOpenAI, AsyncStream

from memory.providers.chunks import GARBLED
from memory.providers.errors import ProviderError, ProviderTimeoutError
from memory.providers.retry import allowed_retries, epoch_seconds, parse_retry_after
from memory.providers.sockets import SilentCloseError
from memory.providers.transport import BODY, BoundedBody

Describe: TypeAlias = Callable[[object], str]
E = TypeVar("E", bound=BaseException)

_MEDIA_TYPE = re2.compile(r"^[a-z0-9.+-]{1,40}/[a-z0-9.+-]{1,60}$")
_HINTS = {
    401: "The provider did not accept the API key",
    403: "The provider forbids this call",
    404: "The provider knows no such model or path",
    429: "The provider is out of capacity or quota",
}
BROKEN_ERRORS = (openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A call that brought no answer, as a value: a traceback would drag the request along."""

    error: ProviderError
    may_retry: bool = False
    status: int | None = None
    retry_after_seconds: float | None = None
    body: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One JSON value of the answer."""

    data: object


class Exchange:
    """An answer that has begun: an event stream, or one JSON value from servers that know no SSE.

    `is_complete` tells, at the end, that the server said so itself.
    """

    def __init__(
        self, response: httpx2.Response, *, client: AsyncOpenAI, describe: Describe
    ) -> None:
        """Take over `response`, whose body has not been read."""
        self._response = response
        self._client = client
        self._describe = describe
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        self._media_type = media_type
        self._values = self._events() if media_type == "text/event-stream" else self._whole()
        self._is_whole = False

    @property
    def is_complete(self) -> bool:
        """Whether the body ended as it should: [DONE] was seen, or it was one JSON value."""
        body = self._response.extensions[BODY]
        return self._is_whole or (isinstance(body, BoundedBody) and body.saw_done)

    async def next_chunk(self) -> Chunk | None:
        """Return the next JSON value, None at the end.

        Raises:
            ProviderError: when the connection breaks or the body cannot be read as JSON.
        """
        try:
            return Chunk(data=await anext(self._values))
        except StopAsyncIteration:
            return None
        except openai.APIError as error:
            detail = _broken_detail(error, self._describe)
        except BROKEN_ERRORS:
            detail = "The connection to the provider broke off."
        except (ValueError, RecursionError):  # JSON, UTF-8, or brackets without end
            detail = GARBLED
        raise ProviderError(detail)

    async def close(self) -> None:
        """Close the connection, or give it back if the answer was read to its end."""
        await self._response.aclose()

    async def _events(self) -> AsyncIterator[object]:
        stream: AsyncStream[object] = AsyncStream(
            cast_to=object, response=self._response, client=self._client
        )
        async for value in stream:
            yield value

    async def _whole(self) -> AsyncIterator[object]:
        if self._media_type not in ("", "text/plain") and "json" not in self._media_type:
            kind = self._media_type if _MEDIA_TYPE.match(self._media_type) else "something else"
            raise ProviderError(f"The provider answered with {kind} instead of JSON.")
        value = json.loads(await self._response.aread())
        self._is_whole = True
        yield value


def failure_of(error: Exception, *, describe: Describe) -> Failure:
    """Explain why a call brought no answer, and whether it may be made again."""
    own = _cause(error, ProviderError)
    if own is not None:
        return Failure(error=own)
    if isinstance(error, openai.APIStatusError):
        return _refused(error, describe)
    if _cause(error, httpx2.TimeoutException) is not None:
        return Failure(error=ProviderTimeoutError("The provider could not be reached in time."))
    is_untouched = (
        _cause(error, SilentCloseError) is not None
        or _cause(error, httpx2.ConnectError) is not None
    )
    detail = "The provider cannot be reached." if is_untouched else "The connection broke off."
    return Failure(error=ProviderError(detail), may_retry=is_untouched)


def _refused(error: openai.APIStatusError, describe: Describe) -> Failure:
    status = error.status_code
    hint = _HINTS.get(status, "The provider refused the call")
    if 300 <= status < 400:
        hint = "The provider redirected the call, which is not followed"
    elif status >= 500:
        hint = "The provider failed"
    said = "" if status < 400 else describe(error.body)
    headers = error.response.headers
    # A date is read against the server's own clock, which may differ from ours.
    now = epoch_seconds(headers.get("date"))
    retry_after = parse_retry_after(
        headers.get("retry-after"), now_epoch_seconds=time.time() if now is None else now
    )
    return Failure(
        error=ProviderError(f"{hint} (HTTP {status}){said}", status=status),
        may_retry=allowed_retries(status=status) > 0,
        status=status,
        retry_after_seconds=retry_after,
        body=error.body,
    )


def _broken_detail(error: openai.APIError, describe: Describe) -> str:
    if isinstance(error.body, Mapping):
        return f"The provider reported an error{describe(error.body)}"
    return "The connection to the provider broke off."


def _cause(error: BaseException | None, kind: type[E]) -> E | None:
    while error is not None:
        if isinstance(error, kind):
            return error
        error = error.__cause__
    return None
