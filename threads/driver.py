"""Driving an accepted run: the model call on the event loop, its events to whoever listens.

The call runs in a task of its own. A JSON client waits for its end and may leave; a stream's client
that leaves cancels it. No thread and no connection is held while the model talks.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import Any, Final, TypeAlias, TypeVar

from django.db import InterfaceError, OperationalError
from django.utils import timezone

from governance.secrets import strip_secrets
from memory.assembly import prompt_tokens
from memory.db_threads import in_database_thread
from memory.errors import CredenceError, NotFoundError
from memory.providers.base import Finished, TextDelta, Usage
from memory.providers.errors import ProviderError, ProviderMisconfiguredError
from memory.providers.registry import chat_provider
from memory.tokens import estimate
from threads import cancellation, pipeline
from threads.chat import price
from threads.events import (
    Cancelled,
    Completed,
    ContextReady,
    Delta,
    Failed,
    LastEvent,
    RunEvent,
    Started,
)
from threads.models import RunStatus
from threads.pipeline import PreparedRun
from threads.runs import Answered

T = TypeVar("T")
_Ending: TypeAlias = Callable[[], Coroutine[Any, Any, LastEvent]]
_NOT_COMPLETED: Final = "The run could not be completed."
_WAITS_SECONDS: Final = (0.1, 0.3, 1.0, 3.0, 6.0)
_log = logging.getLogger("credence.runs")


class RunDriver:
    """One run on its way; start it, then read `events` or await `outcome`."""

    def __init__(self, prepared: PreparedRun) -> None:
        """Take an accepted run."""
        self._prepared = prepared
        self._waiting: deque[RunEvent] = deque()
        self._news = asyncio.Event()
        self._pieces: list[str] = []
        self._started_at = 0.0
        self._is_cancelled_early = False
        self._has_begun = False
        self._task: asyncio.Task[LastEvent] | None = None

    def start(self) -> RunDriver:
        """Start the model call in a task; returns at once."""
        prepared = self._prepared
        self._put(
            Started(run_id=prepared.run_id, thread_id=prepared.thread_id, title=prepared.title)
        )
        self._put(ContextReady(context=prepared.context))
        self._task = asyncio.create_task(self._drive())
        return self

    def cancel(self) -> None:
        """Cancel the run; its provider call is closed and it ends as cancelled, soon.

        Once the answer is being stored it is too late: then the run succeeds.
        """
        if not self._has_begun:
            # A task cancelled before its first step would never end the run.
            self._is_cancelled_early = True
        elif self._task is not None:
            self._task.cancel()

    async def outcome(self) -> LastEvent:
        """Return the run's last event once its end is committed."""
        if self._task is None:
            self.start()
        assert self._task is not None  # noqa: S101 - set by start
        return await asyncio.shield(self._task)

    async def events(self) -> AsyncIterator[RunEvent]:
        """Yield the events so far and to come, ending with the last one.

        Text that came while nobody read is joined, so a slow reader costs no more than the answer.
        """
        while True:
            while self._waiting:
                event = self._waiting.popleft()
                yield event
                if isinstance(event, Completed | Failed | Cancelled):
                    return
            self._news.clear()
            await self._news.wait()

    def _put(self, event: RunEvent) -> None:
        last = self._waiting[-1] if self._waiting else None
        if isinstance(event, Delta) and isinstance(last, Delta):
            self._waiting[-1] = Delta(text=last.text + event.text)
        else:
            self._waiting.append(event)
        self._news.set()

    async def _drive(self) -> LastEvent:
        """Call the model and store how it ended; returns only when that is committed."""
        self._has_begun = True
        run_id = self._prepared.run_id
        last: LastEvent = Failed(run_id=run_id, code=CredenceError.code, detail=_NOT_COMPLETED)
        try:
            ending = await self._ending()
            # Listed no longer: what follows is no business of whoever ends runs from outside.
            cancellation.forget(run_id=run_id)
            last = await _to_its_end(ending())
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - listeners must hear
            _log.exception("run end not stored", extra={"run_id": run_id})
        finally:
            cancellation.forget(run_id=run_id)
            self._put(last)
        return last

    async def _ending(self) -> _Ending:
        """Call the model and return what will store how that went; stores nothing itself."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - always inside a task
        try:
            cancellation.watch(prepared=self._prepared, task=task)
            text, finished = await self._call()
        except asyncio.CancelledError:
            task.uncancel()
            return self._end_cancelled
        except ProviderError as error:
            return partial(self._end_failed, error.code, error.detail)
        except Exception as error:  # noqa: BLE001 - a run must always end
            _log.exception("run failed", extra={"run_id": self._prepared.run_id})
            return partial(self._end_failed, _code_of(error), _NOT_COMPLETED)
        return partial(self._end_succeeded, text, finished)

    async def _call(self) -> tuple[str, Finished]:
        if self._is_cancelled_early:
            raise asyncio.CancelledError
        if not self._prepared.agent.provider.is_active:
            raise ProviderMisconfiguredError("The agent's provider is switched off.")
        self._started_at = perf_counter()
        provider = chat_provider(self._prepared.config)
        finished: Finished | None = None
        async with aclosing(provider.stream(request=self._prepared.request)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    self._pieces.append(event.text)
                    self._put(Delta(text=event.text))
                elif isinstance(event, Finished):
                    finished = event
        text = "".join(self._pieces)
        if finished is None or not text.strip():
            raise ProviderError("The provider ended without an answer.")
        return text, finished

    async def _end_succeeded(self, text: str, finished: Finished) -> LastEvent:
        prepared = self._prepared
        answered = self._answered(text, finished)
        now = timezone.now()
        stored = await _committed(
            lambda: pipeline.finish_success(prepared=prepared, answered=answered, now=now)
        )
        if stored is None:
            return await self._ended_elsewhere()
        return Completed(run_id=prepared.run_id, run=stored)

    def _answered(self, text: str, finished: Finished) -> Answered:
        prepared = self._prepared
        usage = finished.usage or Usage(
            input_tokens=prompt_tokens(prepared.request.messages), output_tokens=estimate(text)
        )
        now = timezone.now()
        model = finished.model or prepared.request.model
        cost = price(provider=prepared.agent.provider, model=model, usage=usage, now=now)
        elapsed_ms = round((perf_counter() - self._started_at) * 1000, 2)
        data = {
            "model": model,
            "provider_id": prepared.config.id,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "is_usage_reported": finished.usage is not None,
            "finish_reason": finished.reason,
        }
        started_at = datetime.fromtimestamp(now.timestamp() - elapsed_ms / 1000, UTC).isoformat()
        step = {"kind": "model", "started_at": started_at, "ms": elapsed_ms, "data": data}
        return Answered(
            text=text,
            model=model,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cost_usd=cost.usd,
            is_cost_known=cost.is_known,
            steps=(step,),
        )

    async def _end_failed(self, code: str, detail: str) -> LastEvent:
        prepared, now = self._prepared, timezone.now()
        said = strip_secrets(detail).text
        is_ended_here = await _committed(
            lambda: pipeline.finish_failure(prepared=prepared, code=code, detail=said, now=now)
        )
        if not is_ended_here:
            return await self._ended_elsewhere()
        return Failed(run_id=prepared.run_id, code=code, detail=said)

    async def _end_cancelled(self) -> LastEvent:
        prepared, now = self._prepared, timezone.now()
        is_ended_here = await _committed(
            lambda: pipeline.finish_cancelled(prepared=prepared, now=now)
        )
        return Cancelled(run_id=prepared.run_id) if is_ended_here else await self._ended_elsewhere()

    async def _ended_elsewhere(self) -> LastEvent:
        """Say how a run ended that somebody else ended before this driver could."""
        prepared = self._prepared
        try:
            run = await _committed(lambda: pipeline.read_ended(prepared=prepared))
        except NotFoundError as error:  # erased meanwhile, or its thread was
            return Failed(run_id=prepared.run_id, code=error.code, detail=error.detail)
        if run.status == RunStatus.CANCELLED:
            return Cancelled(run_id=run.pk)
        if run.status == RunStatus.SUCCEEDED:
            return Completed(run_id=run.pk, run=run)
        return Failed(run_id=run.pk, code=run.error_code or "interrupted", detail=run.error_detail)


async def _committed(work: Callable[[], T]) -> T:
    """Run a transaction, again on a fresh connection if the database was lost under it.

    Every end of a run is a conditional update: a repeat of one whose commit came through although
    its acknowledgement did not changes nothing. Gives up after about ten seconds.
    """
    for wait_seconds in _WAITS_SECONDS:
        try:
            return await in_database_thread(work)
        except (OperationalError, InterfaceError):
            _log.warning("run end is tried again: the database was not there")
            await asyncio.sleep(wait_seconds)
    return await in_database_thread(work)


async def _to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` to its end, whoever cancels the waiting; only its own cancelling ends it."""
    inner = asyncio.ensure_future(work)
    while True:
        try:
            return await asyncio.shield(inner)
        except asyncio.CancelledError:
            if inner.cancelled():
                raise
            if inner.done():
                return inner.result()


def _code_of(error: BaseException) -> str:
    return error.code if isinstance(error, CredenceError) else CredenceError.code
