"""The bell: the one module that knows django-q2.

A bell says which lane to look at and nothing else. It is one row of the queue's table, written on
our connection, so it commits or rolls back with the job it rings for.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from django.core.management import call_command
from django.db import connection, transaction
from django.utils import timezone
from django_q.brokers.orm import ORM
from django_q.conf import Conf
from django_q.models import OrmQ
from django_q.tasks import async_task  # noqa: TID251 - the one place that defers

from memory.lanes import CONTROL, lane_name

DRAIN: Final = "threads.tasks.drain"
CONTROL_TICK: Final = "threads.tasks.control_tick"
# The queue compares this mark with the clock of whoever takes the row: a time long past can be
# taken at once, also by a host whose clock is minutes behind ours.
_WAITING: Final = datetime(2000, 1, 1, tzinfo=UTC)
_SHARE_WAITING = """
    SELECT id FROM django_q_ormq WHERE key = %s AND lock = %s LIMIT 1 FOR SHARE SKIP LOCKED
"""


class _Queue(ORM):  # type: ignore[misc]
    """The queue's own table, with a mark that no clock can delay."""

    def enqueue(self, task: str) -> int:
        """Write one row."""
        row: int = OrmQ.objects.create(key=self.list_key, payload=task, lock=_WAITING).pk
        return row


def ring(lane: int) -> None:
    """Ring for a memory lane: its worker looks for due jobs once this transaction has committed.

    A bell that already waits is shared: its row stays locked against the worker until we commit,
    so the worker cannot take it before our job is visible. Until then the lane's queue stands
    still: ring at the end of a transaction, and keep it short. Cost: one statement, or two.
    """
    _ring(lane_name(lane), DRAIN, lane)


def ring_control() -> None:
    """Ring for the control queue: heartbeat and sweep."""
    _ring(CONTROL, CONTROL_TICK)


def _ring(queue: str, task: str, *arguments: int) -> None:
    with transaction.atomic(savepoint=False):
        with connection.cursor() as cursor:
            cursor.execute(_SHARE_WAITING, (queue, _WAITING))
            waits = cursor.fetchone() is not None
        if not waits:
            async_task(task, *arguments, broker=_Queue(list_key=queue))


def silence(*, queue: str) -> int:
    """Throw away every bell of a queue and return how many there were; rows of the book stay."""
    deleted: int = OrmQ.objects.filter(key=queue).delete()[0]
    return deleted


def has_unanswered(*, queue: str, seconds: float) -> bool:
    """Say whether a bell was taken more than `seconds` ago and neither answered nor given up.

    The queue keeps no time of taking, but a mark of that time plus its fixed retry delay.
    """
    now = timezone.now()
    latest = now + timedelta(seconds=Conf.RETRY - seconds)
    rows = OrmQ.objects.filter(key=queue, lock__gt=now, lock__lt=latest)
    return bool(rows.exists())


def serve() -> None:
    """Run the queue's cluster named by Q_CLUSTER_NAME in this process until it is told to stop."""
    call_command("qcluster")
