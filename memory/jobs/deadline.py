"""The outermost deadline of a job: an alarm that ends work which forgot its own deadlines.

Work bounds its own calls (provider timeouts); this is for the loop that never ends. The queue's
library runs the same timer for the whole bell, so what is left of it is wound up again afterwards.
Source: setitimer(2); signal(7). An extension module that never returns to the interpreter is out
of its reach: there the queue's guard process ends the worker, and the attempt is already counted.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from memory.errors import CredenceError

_AGAIN_SECONDS = 5.0


class JobTimeoutError(CredenceError):
    """The job worked longer than a job may."""

    code = "job_timeout"


class _AlarmError(BaseException):
    """Passes the handlers of ordinary errors, which would take it for a failed call."""


@contextmanager
def job_deadline(*, seconds: float) -> Iterator[None]:
    """Interrupt what runs inside after `seconds`, and again every 5 s should that be swallowed.

    Only a process's main thread can be interrupted; elsewhere this does nothing.

    Raises:
        JobTimeoutError: The time was up.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    started = time.monotonic()
    old_handler = signal.signal(signal.SIGALRM, _ring)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_SECONDS)
    try:
        yield
    except _AlarmError as alarm:
        raise JobTimeoutError from alarm
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old_handler)
        if left:
            rest = max(left - (time.monotonic() - started), 0.001)
            signal.setitimer(signal.ITIMER_REAL, rest, interval)


def _ring(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _AlarmError
