"""The edge of a run: its idempotency key, its preparation, and its two renderings, JSON and stream.

The database part happens on a database thread; while the model talks nothing is held.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone

from governance import access
from governance.access import Principal
from memory.conf import run_lease_seconds, stream_heartbeat_seconds
from memory.db_threads import in_database_thread
from memory.errors import CredenceError
from memory.rls import scoped_transaction
from threads import catalogue, finish, idempotency, pipeline
from threads.api import sse
from threads.api.deferred import DeferredResponse
from threads.api.errors import answer_to
from threads.api.once import REPLAYED, WAIT_SECONDS, replay, request_hash
from threads.api.problems import Problem, problem_response
from threads.api.renderers import to_json
from threads.api.run_events import rendered
from threads.api.serializers.runs import RunAnswer
from threads.driver import RunDriver
from threads.events import Cancelled, Completed, Failed, Started
from threads.idempotency import Claimed, InFlight, Stored
from threads.models import Run
from threads.pipeline import ContextOverBudgetError, PreparedRun
from threads.request import RunRequest

_T = TypeVar("_T")
# Reused: a serializer copies all its fields when it is made, which costs more than its work.
_RUN_ANSWER: Final = RunAnswer()
_LEASE_MARGIN_SECONDS: Final = 30
# Anything else that ends a run lies with the provider or the way to it.
_FAILURE_STATUS: Final = {"provider_timeout": 504, "internal_error": 500, "secret_unreadable": 500}


class RunCancelledError(CredenceError):
    """The run was cancelled before its answer came."""

    code = "run_cancelled"

    def __init__(self, *, run_id: str) -> None:
        """Keep the run's id."""
        self.run_id = run_id
        super().__init__()


@dataclass(kw_only=True)
class RunCall:
    """One request for a run; `record_id` is the claimed idempotency record, if there is one."""

    request: HttpRequest
    principal: Principal
    agent_id: str
    asked: RunRequest
    key: str | None
    record_id: str | None = None

    def begin(self) -> PreparedRun | HttpResponse | Stored | InFlight:
        """Claim and prepare; a refusal is an answer, kept for replays. Blocks on the database.

        With a key both are one transaction: a process that is killed before the run is accepted
        leaves no claim behind, and no run is ever accepted that its key does not know.
        """
        if self.key is None:
            return self._prepare()
        scope = access.tenant_scope(self.principal)
        with scoped_transaction(scope):
            found = idempotency.claim(
                scope=scope,
                key=self.key,
                request_sha256=request_hash(self.request),
                now=timezone.now(),
                lease_seconds=run_lease_seconds() + _LEASE_MARGIN_SECONDS,
            )
            if not isinstance(found, Claimed):
                return found
            self.record_id = found.record_id
            return self._prepare()

    def _prepare(self) -> PreparedRun | HttpResponse:
        try:
            prepared = pipeline.prepare(
                principal=self.principal,
                agent_id=self.agent_id,
                request=self.asked,
                now=timezone.now(),
            )
        except Exception as error:  # noqa: BLE001 - answered as the views' handler would
            return self._refused(error)
        if self.record_id is not None:
            idempotency.attach_run(
                scope=prepared.scope, record_id=self.record_id, run_id=prepared.run_id
            )
        return prepared

    def _refused(self, error: Exception) -> HttpResponse:
        response = answer_to(error, request=self.request)
        if response.status_code >= 500:
            self.give_back()
        else:
            self.keep_refusal(response)
        return response

    def keep_refusal(self, response: HttpResponse) -> None:
        """Keep a refusal as the answer of its key: the same question would be refused again."""
        self._keep(
            Stored(
                status_code=response.status_code,
                content_type=response.headers["Content-Type"],
                body=response.content.decode(),
            )
        )

    def keep_run(self, run: Run) -> None:
        """Keep a succeeded run as the answer of its key."""
        self._keep(Stored(status_code=200, run_id=run.pk), end_user_id=run.end_user_id)

    def _keep(self, answer: Stored, *, end_user_id: str | None = None) -> None:
        if self.record_id is not None:
            scope = access.tenant_scope(self.principal)
            idempotency.keep(
                scope=scope, record_id=self.record_id, answer=answer, end_user_id=end_user_id
            )

    def give_back(self) -> None:
        """Free the key: what ended badly is not kept, so a retry may succeed."""
        if self.record_id is not None:
            scope = access.tenant_scope(self.principal)
            idempotency.release(scope=scope, record_id=self.record_id)


def respond(
    call: RunCall,
    *,
    drive: Callable[[RunCall, PreparedRun], HttpResponseBase],
    show: Callable[[Run], HttpResponseBase],
) -> HttpResponseBase:
    """Answer a call: refused, replayed, waiting for the first one with its key, or driven."""
    return _resolve(call, drive=drive, show=show) or DeferredResponse(
        lambda: _wait(call, drive=drive, show=show)
    )


def _resolve(
    call: RunCall,
    *,
    drive: Callable[[RunCall, PreparedRun], HttpResponseBase],
    show: Callable[[Run], HttpResponseBase],
) -> HttpResponseBase | None:
    begun = call.begin()
    if isinstance(begun, PreparedRun):
        return drive(call, begun)
    if isinstance(begun, Stored):
        if not begun.run_id or begun.body:
            return replay(begun)
        response = show(catalogue.read_run(principal=call.principal, run_id=begun.run_id))
        response[REPLAYED] = "true"
        return response
    return None if isinstance(begun, InFlight) else begun


async def _wait(
    call: RunCall,
    *,
    drive: Callable[[RunCall, PreparedRun], HttpResponseBase],
    show: Callable[[Run], HttpResponseBase],
) -> HttpResponseBase:
    try:
        while True:
            await asyncio.sleep(WAIT_SECONDS)
            response = await in_database_thread(lambda: _resolve(call, drive=drive, show=show))
            if isinstance(response, DeferredResponse):
                return await response.finish()
            if response is not None:
                return response
    except Exception as error:  # noqa: BLE001 - outside the views, so nobody else answers
        return answer_to(error, request=call.request)


def run_json(run: Run) -> dict[str, Any]:
    """Return a run as the API shows it."""
    return dict(_RUN_ANSWER.to_representation(run))


def show_json(run: Run) -> HttpResponse:
    """Answer with a stored run."""
    return HttpResponse(to_json(run_json(run)).encode(), content_type="application/json")


def drive_json(call: RunCall, prepared: PreparedRun) -> DeferredResponse:
    """Answer with the run once it has ended; it goes on when the client has left."""
    return DeferredResponse(lambda: _drained(call, prepared))


async def _drained(call: RunCall, prepared: PreparedRun) -> HttpResponse:
    try:
        last = await RunDriver(prepared).start().outcome()
        return await _told(call, partial(_ended, call, prepared, last), last)
    except Exception as error:  # noqa: BLE001 - outside the views, so nobody else answers
        return answer_to(error, request=call.request)


async def _told(call: RunCall, tell: Callable[[], _T], last: Completed | Failed | Cancelled) -> _T:
    """Render a run's end; on a database thread only if there is something to read or to keep."""
    is_at_hand = not isinstance(last, Completed) or last.run is not None
    if call.record_id is None and is_at_hand:
        return tell()
    return await in_database_thread(tell)


def _ended(
    call: RunCall, prepared: PreparedRun, last: Completed | Failed | Cancelled
) -> HttpResponse:
    if isinstance(last, Completed):
        run = last.run or finish.read_ended(prepared=prepared)
        call.keep_run(run)
        return show_json(run)
    if isinstance(last, Failed) and last.context is not None:
        over = ContextOverBudgetError(run_id=last.run_id, context=last.context)
        response = answer_to(over, request=call.request)
        call.keep_refusal(response)
        return response
    call.give_back()
    if isinstance(last, Cancelled):
        return answer_to(RunCancelledError(run_id=last.run_id), request=call.request)
    problem = Problem(
        status=_FAILURE_STATUS.get(last.code, 502),
        code=last.code,
        detail=last.detail or "The run failed.",
        extra={"run_id": last.run_id},
    )
    return problem_response(problem, request=call.request)


def show_stream(run: Run) -> StreamingHttpResponse:
    """Answer with the two events that replay a stored run."""
    started = Started(run_id=run.pk, thread_id=run.thread_id, title=run.thread.title)
    return _stream_response(_all_at_once(rendered(started), sse.event("completed", run_json(run))))


async def _all_at_once(*events: bytes) -> AsyncIterator[bytes]:
    for one in events:
        yield one


def drive_stream(call: RunCall, prepared: PreparedRun) -> StreamingHttpResponse:
    """Answer with the run's events as they happen; a client that leaves cancels it."""
    return _stream_response(EventStream(call, prepared))


def _stream_response(events: Any) -> StreamingHttpResponse:
    return StreamingHttpResponse(events, content_type=sse.CONTENT_TYPE, headers=sse.HEADERS)


class EventStream:
    """The body of a stream: iterate it on the event loop, `close` it on a database thread."""

    def __init__(self, call: RunCall, prepared: PreparedRun) -> None:
        """Take an accepted run; nothing starts before the first event is asked for."""
        self._call = call
        self._prepared = prepared
        self._is_begun = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Drive the run and yield its events as bytes; leaving early cancels it."""
        self._is_begun = True
        driver = RunDriver(self._prepared).start()
        try:
            silence = stream_heartbeat_seconds()
            async for happened in sse.or_silence(driver.events(), seconds=silence):
                if happened is None:
                    yield sse.KEEP_ALIVE
                elif isinstance(happened, Completed | Failed | Cancelled):
                    yield await _told(self._call, partial(self._last, happened), happened)
                else:
                    yield rendered(happened)
        finally:
            driver.cancel()

    def _last(self, last: Completed | Failed | Cancelled) -> bytes:
        if isinstance(last, Completed):
            run = last.run or finish.read_ended(prepared=self._prepared)
            self._call.keep_run(run)
            return sse.event("completed", run_json(run))
        self._call.give_back()
        return rendered(last)

    def close(self) -> None:
        """End a run whose client left before the stream began."""
        if not self._is_begun:
            self._is_begun = True
            finish.cancel(prepared=self._prepared, now=timezone.now())
            self._call.give_back()
