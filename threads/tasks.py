"""What the worker does when a bell rings: serve one lane, or tick the control queue.

A bell carries no work. It says "look", and whoever looks takes what the book has due; so the same
bell twice, late or in reverse order does nothing the second time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, Protocol

from django.db import connection
from django.utils import timezone

from governance.attempts import forget_attempts
from governance.erasure.restored import is_restored
from governance.erasure.tagging import tagged_eraser
from governance.erasure.work import work_erasures
from memory import lanes
from memory.conf import job_timeout_seconds
from memory.errors import CredenceError
from memory.jobs.bell import ring, ring_control
from memory.jobs.book import WORKER, claim, complete, due_jobs, fail, worker_scope
from memory.jobs.deadline import job_deadline
from memory.jobs.records import Claim, LeaseLostError
from memory.models import JobKind
from memory.processes import this_process
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.figures import close_days
from threads.forest.jobs import build_nodes, consolidate_nodes, find_nodes
from threads.forgetting.retention import expire
from threads.learning.artifacts import archive_artifacts
from threads.learning.bulk_job import bulk_decide
from threads.learning.entity_jobs import (
    create_entity_jobs,
    decay_weights,
    propose_entities,
)
from threads.learning.expiry import create_expire_jobs
from threads.learning.extraction import extract_core
from threads.recall.embedding_jobs import embed_entries, reembed
from threads.recall.indexing import index_recall
from threads.recall.knowledge_jobs import index_knowledge
from threads.recall.sweeping import create_lost_jobs
from threads.summaries import find_roll, roll_summary
from threads.sweep import sweep

logger = logging.getLogger("credence.worker")
_BATCH = 20
# A lane is leased for one job and this much more, and shows life between jobs.
_LEASE_MARGIN_SECONDS = 15
# One tick's share; what is left of an erasure then waits for the next bell.
_ERASING_SECONDS: Final = 20.0


class Handler(Protocol):
    """The work of one kind of job.

    It checks `hold` in every transaction it writes in, and may be run again after any crash.
    """

    def __call__(self, *, scope: Scope, claim: Claim) -> None:
        """Do the work of `claim`; an exception gives the job back for another attempt."""


class UnknownJobKindError(CredenceError):
    """This version of the worker has no handler for the job's kind."""

    code = "unknown_job_kind"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainReport:
    """How many claimed jobs ended how.

    Attributes:
        lost: Jobs that somebody else claimed before they ended here.
    """

    done: int = 0
    failed: int = 0
    lost: int = 0


HANDLERS: dict[str, Handler] = {
    JobKind.ROLL_SUMMARY: roll_summary,
    JobKind.BUILD_NODES: build_nodes,
    JobKind.CONSOLIDATE_NODES: consolidate_nodes,
    JobKind.INDEX_RECALL: index_recall,
    JobKind.INDEX_KNOWLEDGE: index_knowledge,
    JobKind.EMBED: embed_entries,
    JobKind.REEMBED: reembed,
    JobKind.EXTRACT_CORE: extract_core,
    JobKind.PROPOSE_ENTITIES: propose_entities,
    JobKind.DECAY_WEIGHTS: decay_weights,
    JobKind.BULK_DECIDE: bulk_decide,
    JobKind.EXPIRE: expire,
    JobKind.ARCHIVE_ARTIFACTS: archive_artifacts,
}


def drain(lane: int) -> None:
    """Serve a memory lane; the queue's entry point, so no exception leaves it.

    The queue would store an exception's text, which may quote what a person wrote.
    """
    try:
        work_lane(lane=lane, handlers=HANDLERS)
    except Exception as error:  # noqa: BLE001 - see above
        logger.error("drain_failed", extra={"lane": lane, "code": _code_of(error)})  # noqa: TRY400
        _replace_broken_connection()


def control_tick() -> None:
    """Show the control queue's life and sweep; the queue's entry point, so no exception leaves."""
    try:
        lanes.beat(name=lanes.CONTROL)
        if is_restored():
            logger.warning("erasures_not_reapplied", extra={"lane": lanes.CONTROL})
            return
        sweep(
            now=timezone.now(),
            find_roll=find_roll,
            find_nodes=find_nodes,
            find_lost=create_missing_jobs,
        )
        _erase()
        close_days(now=timezone.now())
        forget_attempts(now=timezone.now())
    except Exception as error:  # noqa: BLE001 - as in drain
        logger.error("control_tick_failed", extra={"code": _code_of(error)})  # noqa: TRY400
        _replace_broken_connection()


def _erase() -> None:
    """Go on with erasures for a while, showing life; ring for what is left, and for the search."""
    report = work_erasures(
        now=timezone.now(),
        within_seconds=_ERASING_SECONDS,
        tagged=tagged_eraser(),
        between=partial(lanes.beat, name=lanes.CONTROL),
    )
    if report.is_more:
        ring_control()


def create_missing_jobs(*, alias: str, now: datetime) -> int:
    """Ask for whatever job is missing or due in any part; return how many are new. As LostFinder."""
    finders = (create_lost_jobs, create_entity_jobs, create_expire_jobs)
    return sum(find(alias=alias, now=now) for find in finders)


def work_lane(*, lane: int, handlers: Mapping[str, Handler]) -> DrainReport:
    """Take the lane, work on what is due, give it back; do nothing if another process serves it.

    Ends after half a job's timeout (plus the job then running) and rings again for the rest, so
    that one bell never comes near the queue's own timeout.
    """
    name = lanes.lane_name(lane)
    if is_restored():
        # Alive, so that the supervisor lets it be, but erased persons' jobs stay undone.
        lanes.beat(name=name)
        logger.warning("erasures_not_reapplied", extra={"lane": lane})
        return DrainReport()
    seconds = job_timeout_seconds() + _LEASE_MARGIN_SECONDS
    lease = lanes.take(name=name, holder=this_process(), seconds=seconds)
    if lease is None:
        return DrainReport()
    try:
        report = _work(lane=lane, lease=lease, seconds=seconds, handlers=handlers)
    finally:
        lanes.release(lease=lease)
    # Also for a bell that another process answered in vain while this one still held the lane.
    if due_jobs(lane=lane, most=1):
        ring(lane)
    return report


def _work(
    *, lane: int, lease: lanes.LaneLease, seconds: float, handlers: Mapping[str, Handler]
) -> DrainReport:
    until = time.monotonic() + job_timeout_seconds() / 2
    counts = {"done": 0, "failed": 0, "lost": 0}
    claimed = True
    while claimed and time.monotonic() < until:
        claimed = False
        for job_id, tenant_id in due_jobs(lane=lane, most=_BATCH):
            lanes.renew(lease=lease, seconds=seconds)
            mine = claim(job_id=job_id, tenant_id=tenant_id)
            if mine is None:
                continue
            claimed = True
            counts[_run(mine, handlers=handlers)] += 1
            if time.monotonic() >= until:
                break
    return DrainReport(**counts)


def _run(mine: Claim, *, handlers: Mapping[str, Handler]) -> str:
    """Work on one claimed job and write down how it ended: done, failed or lost."""
    started = time.monotonic()
    error_code = _attempt(mine, handlers=handlers)
    scope = worker_scope(mine.tenant_id)
    outcome = "done" if error_code is None else "failed"
    try:
        with scoped_transaction(scope):
            if error_code is None:
                complete(scope=scope, claim=mine, now=timezone.now())
            else:
                fail(scope=scope, claim=mine, error_code=error_code, now=timezone.now())
    except LeaseLostError as error:
        outcome, error_code = "lost", error.code
    level = logging.INFO if outcome == "done" else logging.WARNING
    facts = {
        "job_id": mine.job_id,
        "tenant_id": mine.tenant_id,
        "status": outcome,
        "code": error_code or "",
        "ms": round((time.monotonic() - started) * 1000),
    }
    logger.log(level, "job_ended", extra=facts)
    return outcome


def _attempt(mine: Claim, *, handlers: Mapping[str, Handler]) -> str | None:
    """Run the handler and return the code of what went wrong, if anything did."""
    scope = Scope(
        tenant_ids=(mine.tenant_id,),
        principal_id=WORKER,
        user_id=mine.end_user_id,
        thread_id=mine.thread_id,
    )
    try:
        with job_deadline(seconds=job_timeout_seconds()):
            handlers.get(mine.kind, _refuse)(scope=scope, claim=mine)
    except Exception as error:  # noqa: BLE001 - one bad job must not stop the lane
        # A connection that broke under the handler is replaced before the failure is written.
        _replace_broken_connection()
        return _code_of(error)
    return None


def _refuse(*, scope: Scope, claim: Claim) -> None:  # noqa: ARG001 - a Handler
    raise UnknownJobKindError


def _replace_broken_connection() -> None:
    """Drop the connection if it broke; the next statement opens another."""
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()


def _code_of(error: Exception) -> str:
    return error.code if isinstance(error, CredenceError) else CredenceError.code
