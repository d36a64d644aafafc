"""Retention of turns: what is older than the tenant keeps goes, as completely as by an erasure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from time import monotonic
from typing import Final

from django.db.models import Exists, OuterRef
from django.utils import timezone

from governance.models import LegalHold
from governance.policy import policy_for
from governance.retention import expiry
from governance.retention.limits import messages_before
from memory import jobs
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.forgetting.turns import drop_thread, forget_turns
from threads.learning.expiry import apply_retention
from threads.models import FINAL, Run, Thread

BATCH: Final = 200
_WORK_SECONDS: Final = 30.0
_MOST_THREADS: Final = 100


def expire(*, scope: Scope, claim: jobs.Claim) -> None:
    """Handle an `expire` job: turns first, then the rest; once more if something is left.

    Raises:
        LeaseLostError: The job was claimed again; that claim goes on instead.
    """

    def hold() -> None:
        jobs.hold(scope=scope, claim=claim)

    until = monotonic() + _WORK_SECONDS
    _, is_more = forget_old_turns(scope=scope, now=timezone.now(), until=until, hold=hold)
    report = apply_retention(
        scope=scope,
        now=timezone.now(),
        within_seconds=max(until - monotonic(), 1.0),
        hold=hold,
    )
    if is_more or report.is_more:
        jobs.ask_again(scope=scope, claim=claim, now=timezone.now())


def forget_old_turns(
    *,
    scope: Scope,
    now: datetime,
    until: float | None = None,
    hold: Callable[[], None] | None = None,
) -> tuple[dict[str, int], bool]:
    """Delete turns past the tenant's days; return how many rows of what, and whether time ran out.

    Persons under legal hold keep theirs. A transaction a thread and batch, each with its audit row.

    Args:
        scope: The whole tenant's.
        now: What ages are reckoned from.
        until: By the monotonic clock, when to stop between two batches; None for never.
        hold: Called first in each transaction, to refuse it where the work is no longer ours.
    """
    before = _before(scope, now)
    counts: Counter[str] = Counter()
    if before is None:
        return {}, False
    for thread_id, person_id in _due_threads(scope, before):
        own = scope.narrowed(user_id=person_id)
        is_left = True
        while is_left:
            if until is not None and monotonic() > until:
                return dict(counts), True
            with scoped_transaction(scope):
                if hold is not None:
                    hold()
                with scoped_transaction(own):
                    gone = _batch(own, thread_id, before, now)
                if gone:
                    expiry.record(scope=scope, counts=gone, now=now)
            counts += gone
            is_left = gone["runs"] == BATCH
    return dict(counts), False


def count_old_turns(*, scope: Scope, now: datetime) -> int:
    """Return how many runs would go now. Cost: two queries."""
    before = _before(scope, now)
    if before is None:
        return 0
    with scoped_transaction(scope):
        return _due(scope, before).count()


def _before(scope: Scope, now: datetime) -> datetime | None:
    with scoped_transaction(scope):
        return messages_before(policy=policy_for(scope=scope, agent_overrides={}), now=now)


def _due(scope: Scope, before: datetime) -> ScopedQuerySet[Run]:
    """Return the ended runs from before a moment, but for those of persons under hold."""
    held = LegalHold.objects.in_scope(scope).filter(
        subject_id=OuterRef("end_user_id"), released_at__isnull=True
    )
    runs = Run.objects.in_scope(scope).filter(created_at__lt=before, status__in=FINAL)
    return runs.filter(~Exists(held), end_user__erasing_at__isnull=True)


def _due_threads(scope: Scope, before: datetime) -> Iterator[tuple[str, str]]:
    """Yield threads with such runs, a hundred at a time; each is without them by the next look."""
    last = ""
    while True:
        with scoped_transaction(scope):
            rows = _due(scope, before).filter(thread_id__gt=last).order_by("thread_id")
            found = list(rows.values_list("thread_id", "end_user_id").distinct()[:_MOST_THREADS])
        yield from found
        if len(found) < _MOST_THREADS:
            return
        last = found[-1][0]


def _batch(own: Scope, thread_id: str, before: datetime, now: datetime) -> Counter[str]:
    # Locked, so that no run of the thread begins or ends meanwhile.
    threads = Thread.objects.in_scope(own).filter(pk=thread_id)
    if threads.select_for_update(of=("self",)).first() is None:
        return Counter()
    rows = _due(own, before).filter(thread_id=thread_id).order_by("seq")
    run_ids = list(rows.values_list("pk", flat=True)[:BATCH])
    if not run_ids:
        return Counter()
    is_empty = (
        not Run.objects.in_scope(own).filter(thread_id=thread_id).exclude(pk__in=run_ids).exists()
    )
    counts = forget_turns(
        scope=own, thread_id=thread_id, run_ids=run_ids, now=now, is_rebuilt=not is_empty
    )
    if is_empty:
        counts += drop_thread(scope=own, thread_id=thread_id)
    return counts
