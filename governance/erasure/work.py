"""Doing erasures: claiming them, going from step to step, and booking the end.

The Erasure row says how far it is, so that whoever claims it after a crash goes on from there. Each
batch is a transaction of its own that first holds the row.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import IntegrityError, OperationalError
from django.utils import timezone

from governance.erasure import booking, hiding
from governance.erasure.deleting import do_batch, is_narrow
from governance.erasure.ending import end_person, finish, is_passing
from governance.erasure.physical import vacuum
from governance.erasure.plan import LAST, STEPS
from governance.erasure.problems import BusyPersonError, ErasureLostError
from governance.erasure.subjects import subject_of
from governance.erasure.tagging import TaggedEraser
from governance.erasure.verifying import search_round
from governance.models.erasure import Erasure, ErasureMode
from memory.errors import CredenceError
from memory.rls import scoped_transaction

__all__ = ["TaggedEraser", "WorkReport", "do_erasure", "work_erasures"]
_TAGGED: Final = "tagged"
_WAITS_SECONDS: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 1.0, 2.0, 2.0)
_DONE, _PAUSED, _LOST, _FAILED = "done", "paused", "lost", "failed"
_log = logging.getLogger("credence.erasure")


class _OutOfTimeError(CredenceError):
    """The time of this round is up; the next one goes on."""

    code = "erasure_paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkReport:
    """What one round did.

    Attributes:
        is_more: Something is left to do now; ring again.
    """

    done: int = 0
    failed: int = 0
    verified: int = 0
    is_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """What bounds a round: when it has to end, and what is called between two batches."""

    until: float
    between: Callable[[], None]

    def check(self) -> None:
        """Show life, and stop when the time is up."""
        self.between()
        if time.monotonic() > self.until:
            raise _OutOfTimeError


def work_erasures(
    *,
    now: datetime,
    within_seconds: float,
    tagged: TaggedEraser,
    between: Callable[[], None] = lambda: None,
) -> WorkReport:
    """Claim and do the erasures that are due, then verify the ended ones, until the time is up.

    Args:
        now: When the round began.
        within_seconds: How long it may take; the batch then running is done to its end.
        tagged: Does erasures of what is tagged.
        between: Called between batches, to show life.
    """
    round_ = _Round(until=time.monotonic() + within_seconds, between=between)
    ended: Counter[str] = Counter()
    verified, is_idle, is_searching = 0, False, False
    while not is_idle and time.monotonic() < round_.until:
        erasure = booking.claim(now=now)
        if erasure is None:
            left = max(0.0, round_.until - time.monotonic())
            verified, is_searching = search_round(
                now=timezone.now(), within_seconds=left, between=between
            )
            is_idle = True
            continue
        outcome = _attempt(erasure, round_, tagged)
        ended[outcome] += 1
        if outcome == _DONE and erasure.is_physical:
            vacuum(between=between)
    return WorkReport(
        done=ended[_DONE],
        failed=ended[_FAILED],
        verified=verified,
        is_more=is_searching or not is_idle,
    )


def do_erasure(*, erasure_id: str, tagged: TaggedEraser, now: datetime) -> bool:
    """Claim one erasure and do it to its end here and now; False if another process has it.

    Raises:
        CredenceError: What it failed of; it can be tried again.
    """
    erasure = booking.claim(now=now, erasure_id=erasure_id)
    if erasure is None:
        return False
    try:
        _do(erasure, _Round(until=float("inf"), between=lambda: None), tagged)
    except ErasureLostError:
        return False
    except Exception as error:
        booking.give_back(erasure, error_code=_code_of(error), now=timezone.now())
        raise
    return True


def _attempt(erasure: Erasure, round_: _Round, tagged: TaggedEraser) -> str:
    """Go on with one erasure and say how that ended: done, paused, lost or failed."""
    try:
        _do(erasure, round_, tagged)
    except _OutOfTimeError:
        booking.pause(erasure)
        return _PAUSED
    except ErasureLostError:
        _log.info("erasure_lost", extra={"erasure_id": erasure.pk})
        return _LOST
    except Exception as error:  # noqa: BLE001 - one that fails must not stop the others
        code = _code_of(error)
        _log.error("erasure_failed", extra={"erasure_id": erasure.pk, "code": code})
        booking.give_back(erasure, error_code=code, now=timezone.now())
        return _FAILED
    return _DONE


def _do(erasure: Erasure, round_: _Round, tagged: TaggedEraser) -> None:
    hiding.collect_needles(erasure)
    if erasure.erased_at is None and erasure.mode == ErasureMode.TAGGED:
        _erase_tagged(erasure, tagged)
    elif erasure.erased_at is None:
        _erase_all(erasure, round_)
    finish(erasure, now=timezone.now())


def _erase_tagged(erasure: Erasure, tagged: TaggedEraser) -> None:
    subject = subject_of(erasure)

    def held() -> None:
        booking.hold(erasure)

    counts = tagged(scope=subject.own, erasure=erasure, hold=held, is_dry_run=False)
    with scoped_transaction(subject.wide):
        booking.hold(erasure)
        booking.note(erasure, step=_TAGGED, counts=counts)
        Erasure.objects.in_scope(subject.wide).filter(pk=erasure.pk).update(
            erased_at=timezone.now()
        )


def _erase_all(erasure: Erasure, round_: _Round) -> None:
    """Hide the person and go through the steps; again where a late writer was in the way.

    Nobody finds the person any more once hidden, so there are only so many of those.
    """
    steps = _steps_left(erasure.step)
    for wait_seconds in _WAITS_SECONDS:
        try:
            if hiding.hide(erasure, now=timezone.now()):
                hiding.cancel_runs(erasure, now=timezone.now())
                _delete_steps(erasure, steps, round_)
        except (IntegrityError, OperationalError) as error:
            if not is_passing(error):
                raise
            steps = STEPS
            time.sleep(wait_seconds)
        else:
            end_person(erasure, now=timezone.now())
            return
    raise BusyPersonError


def _delete_steps(erasure: Erasure, steps: Sequence[str], round_: _Round) -> None:
    for step in steps:
        while _is_batch_done(erasure, step):
            round_.check()
        round_.check()


def _steps_left(step: str) -> tuple[str, ...]:
    """Return the steps from the one that was being done when this began."""
    if step == LAST:
        return ()
    return STEPS[STEPS.index(step) :] if step in STEPS else STEPS


def _is_batch_done(erasure: Erasure, step: str) -> bool:
    """Do one batch of a step, in a transaction of its own; whether anything went."""
    subject = subject_of(erasure)
    with scoped_transaction(subject.wide):
        booking.hold(erasure)
        with scoped_transaction(subject.own if is_narrow(step) else subject.wide):
            gone = do_batch(step=step, subject=subject)
        booking.note(erasure, step=step, counts=gone)
    return any(gone.values())


def _code_of(error: Exception) -> str:
    return error.code if isinstance(error, CredenceError) else CredenceError.code
