"""The book of background work, and the bell that calls the worker to it.

Own rows are the truth: written in the transaction that made the work necessary, claimed by
conditional update, counted before the work. The queue (django-q2) only says "look at this lane": a
bell that is lost, doubled, late or out of order changes nothing.
"""

from __future__ import annotations

from memory.jobs.bell import ring, ring_control
from memory.jobs.book import (
    ask_again,
    claim,
    complete,
    due_jobs,
    enqueue,
    enqueue_all,
    fail,
    hold,
    retry,
)
from memory.jobs.embedding import embed_job
from memory.jobs.records import (
    MAX_ATTEMPTS,
    Claim,
    LeaseLostError,
    NewJob,
    OutsideTransactionError,
)
from memory.lanes import lane_of

__all__ = [
    "MAX_ATTEMPTS",
    "Claim",
    "LeaseLostError",
    "NewJob",
    "OutsideTransactionError",
    "ask_again",
    "claim",
    "complete",
    "due_jobs",
    "embed_job",
    "enqueue",
    "enqueue_all",
    "fail",
    "hold",
    "lane_of",
    "retry",
    "ring",
    "ring_control",
]
