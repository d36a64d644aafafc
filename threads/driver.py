"""Driving an accepted run: the model call on the event loop, its events to whoever listens.

The call runs in a task of its own. A JSON client waits for its end and may leave; a stream's client
that leaves cancels it. No thread and no connection is held while the model talks.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from time import perf_counter

from django.utils import timezone

from memory.assembly import prompt_tokens
from memory.db_threads import in_database_thread
from memory.errors import CredenceError
from memory.providers.base import Finished, TextDelta, Usage
from memory.providers.errors import ProviderError
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
        """Cancel the run; its provider call is closed and it ends as cancelled, soon."""
        if self._task is not None:
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
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - always inside a task
        prepared = self._prepared
        cancellation.watch(prepared=prepared, task=task)
        try:
            last = await self._call()
        except asyncio.CancelledError:
            task.uncancel()
            last = await self._end_cancelled()
        except ProviderError as error:
            last = await self._end_failed(error.code, error.detail)
        except Exception as error:  # noqa: BLE001 - a run must always end
            _log.exception("run failed", extra={"run_id": prepared.run_id})
            code = error.code if isinstance(error, CredenceError) else "internal_error"
            last = await self._end_failed(code, "The run could not be completed.")
        finally:
            cancellation.forget(run_id=prepared.run_id)
        self._put(last)
        return last

    async def _call(self) -> LastEvent:
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
        return await asyncio.shield(asyncio.ensure_future(self._end_succeeded(text, finished)))

    async def _end_succeeded(self, text: str, finished: Finished) -> LastEvent:
        prepared = self._prepared
        answered = self._answered(text, finished)
        now = timezone.now()
        is_stored = await in_database_thread(
            lambda: pipeline.finish_success(prepared=prepared, answered=answered, now=now)
        )
        if not is_stored:
            return await self._ended_elsewhere()
        return Completed(run_id=prepared.run_id)

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
        is_ended_here = await in_database_thread(
            lambda: pipeline.finish_failure(prepared=prepared, code=code, detail=detail, now=now)
        )
        if not is_ended_here:
            return await self._ended_elsewhere()
        return Failed(run_id=prepared.run_id, code=code, detail=detail)

    async def _end_cancelled(self) -> LastEvent:
        prepared, now = self._prepared, timezone.now()
        is_ended_here = await in_database_thread(
            lambda: pipeline.finish_cancelled(prepared=prepared, now=now)
        )
        return Cancelled(run_id=prepared.run_id) if is_ended_here else await self._ended_elsewhere()

    async def _ended_elsewhere(self) -> LastEvent:
        """Say how a run ended that somebody else ended before this driver could."""
        prepared = self._prepared
        run = await in_database_thread(lambda: pipeline.read_ended(prepared=prepared))
        if run.status == RunStatus.CANCELLED:
            return Cancelled(run_id=run.pk)
        if run.status == RunStatus.SUCCEEDED:
            return Completed(run_id=run.pk)
        return Failed(
            run_id=run.pk, code=run.error_code or "interrupted", detail=run.error_detail
        )
