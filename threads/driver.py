"""Driving an accepted run: its calls on the event loop, its events to whoever listens.

The calls run in a task of their own. A JSON client waits for its end and may leave; a stream's client
that leaves cancels it. No thread and no connection is held while the model talks.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from django.utils import timezone

from governance.secrets import strip_secrets
from memory.errors import CredenceError, NotFoundError
from memory.providers.errors import ProviderError, ProviderMisconfiguredError
from threads import cancellation, finish
from threads.committing import committed, to_its_end
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
from threads.pipeline import ContextOverBudgetError, PreparedRun
from threads.rounds import EndedElsewhereError, Rounds
from threads.runs import Answered, Spent
from threads.stand_in import is_summary_pending, write_stand_in

_Ending: TypeAlias = Callable[[], Coroutine[Any, Any, LastEvent]]
_NOT_COMPLETED: Final = "The run could not be completed."
_log = logging.getLogger("credence.runs")


class RunDriver:
    """One run on its way; start it, then read `events` or await `outcome`."""

    def __init__(self, prepared: PreparedRun) -> None:
        """Take an accepted run."""
        self._prepared = prepared
        self._waiting: deque[RunEvent] = deque()
        self._news = asyncio.Event()
        self._rounds: Rounds | None = None
        self._is_cancelled_early = False
        self._has_begun = False
        self._task: asyncio.Task[LastEvent] | None = None

    def start(self) -> RunDriver:
        """Start the calls in a task; returns at once."""
        prepared = self._prepared
        self._put(
            Started(run_id=prepared.run_id, thread_id=prepared.thread_id, title=prepared.title)
        )
        if not is_summary_pending(prepared):
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
            last = await to_its_end(ending())
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - listeners must hear
            _log.exception("run end not stored", extra={"run_id": run_id})
        finally:
            cancellation.forget(run_id=run_id)
            self._put(last)
        return last

    async def _ending(self) -> _Ending:
        """Call the model and its tools, and return what will store how that went."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - always inside a task
        try:
            cancellation.watch(prepared=self._prepared, task=task)
            answered = await self._answer()
        except asyncio.CancelledError:
            task.uncancel()
            return self._end_cancelled
        except EndedElsewhereError:
            return self._ended_elsewhere
        except ContextOverBudgetError as error:
            return partial(self._end_rejected, error.detail, error.context)
        except ProviderError as error:
            return partial(self._end_failed, error.code, error.detail)
        except Exception as error:  # noqa: BLE001 - a run must always end
            _log.exception("run failed", extra={"run_id": self._prepared.run_id})
            return partial(self._end_failed, _code_of(error), _NOT_COMPLETED)
        return partial(self._end_succeeded, answered)

    async def _answer(self) -> Answered:
        if self._is_cancelled_early:
            raise asyncio.CancelledError
        prepared = self._prepared
        if not prepared.agent.provider.is_active:
            raise ProviderMisconfiguredError("The agent's provider is switched off.")
        stored = prepared.request.messages
        if is_summary_pending(prepared):
            prepared = self._prepared = await write_stand_in(prepared)
            self._put(ContextReady(context=prepared.context))
        self._rounds = Rounds(prepared, stored=stored, tell=self._put)
        return await self._rounds.answer()

    @property
    def _steps(self) -> tuple[Mapping[str, Any], ...]:
        """What happened so far, for the trace."""
        return tuple(self._rounds.steps) if self._rounds else ()

    @property
    def _spent(self) -> Spent:
        """What that cost so far."""
        return self._rounds.spent if self._rounds else Spent()

    async def _end_succeeded(self, answered: Answered) -> LastEvent:
        prepared, now = self._prepared, timezone.now()
        stored = await committed(
            lambda: finish.succeed(prepared=prepared, answered=answered, now=now)
        )
        if stored is None:
            return await self._ended_elsewhere()
        return Completed(run_id=prepared.run_id, run=stored)

    async def _end_failed(self, code: str, detail: str) -> LastEvent:
        said = strip_secrets(detail).text
        is_ended_here = await self._is_ended(partial(finish.fail, code=code, detail=said))
        if not is_ended_here:
            return await self._ended_elsewhere()
        return Failed(run_id=self._prepared.run_id, code=code, detail=said)

    async def _end_rejected(self, detail: str, context: Mapping[str, Any]) -> LastEvent:
        is_ended_here = await self._is_ended(partial(finish.reject, context=context, detail=detail))
        if not is_ended_here:
            return await self._ended_elsewhere()
        code, run_id = ContextOverBudgetError.code, self._prepared.run_id
        return Failed(run_id=run_id, code=code, detail=detail, context=context)

    async def _end_cancelled(self) -> LastEvent:
        if not await self._is_ended(finish.cancel):
            return await self._ended_elsewhere()
        return Cancelled(run_id=self._prepared.run_id)

    async def _is_ended(self, end: Callable[..., bool]) -> bool:
        """End the run with its steps and what they cost; False if somebody else had ended it."""
        end = partial(end, prepared=self._prepared, steps=self._steps, spent=self._spent)
        return await committed(partial(end, now=timezone.now()))

    async def _ended_elsewhere(self) -> LastEvent:
        """Say how a run ended that somebody else ended before this driver could.

        What it did until then is kept all the same: its steps, and what they cost.
        """
        prepared = self._prepared
        add = partial(finish.add_to_ended, prepared=prepared, steps=self._steps, spent=self._spent)
        try:
            run = await committed(add)
        except NotFoundError as error:  # erased meanwhile, or its thread was
            return Failed(run_id=prepared.run_id, code=error.code, detail=error.detail)
        if run.status == RunStatus.CANCELLED:
            return Cancelled(run_id=run.pk)
        if run.status == RunStatus.SUCCEEDED:
            return Completed(run_id=run.pk, run=run)
        return Failed(run_id=run.pk, code=run.error_code or "interrupted", detail=run.error_detail)


def _code_of(error: BaseException) -> str:
    return error.code if isinstance(error, CredenceError) else CredenceError.code
