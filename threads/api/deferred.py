"""An answer that is decided later, on the event loop, without a thread or a connection meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from django.http import HttpResponse, HttpResponseBase


class DeferredResponse(HttpResponse):
    """Returned by a view that has done its database part and now only waits for a model.

    The server (`config.handler`) awaits `finish` with no thread held, gives its result the headers
    that middleware put on this one, and sends that. `finish` goes on when the client has left.
    """

    def __init__(self, finish: Callable[[], Awaitable[HttpResponseBase]]) -> None:
        """Take the coroutine function that makes the real response."""
        super().__init__()
        self.finish = finish
