"""Asking for the vectors of a shelf."""

from __future__ import annotations

from memory.jobs.records import NewJob
from memory.models import JobKind


def embed_job(*, shelf_id: str, end_user_id: str | None) -> NewJob:
    """Return the job that gives a shelf's entries their vectors; one unfinished one a shelf."""
    return NewJob(
        kind=JobKind.EMBED,
        thread_id=None,
        run_id=None,
        end_user_id=end_user_id,
        dedupe_key=f"{JobKind.EMBED}:{shelf_id}",
    )
