"""The job of a decision about many rows: a piece of it, then another round."""

from __future__ import annotations

from typing import Final

from django.utils import timezone

from governance import bulk
from governance.models import BulkStatus
from memory import jobs
from memory.errors import NotFoundError
from memory.scope import Scope

WITHIN_SECONDS: Final = 20.0


def bulk_decide(*, scope: Scope, claim: jobs.Claim) -> None:
    """Handle a `bulk_decide` job: decide rows for 20 seconds, then ask for another round.

    A decision that is gone or has ended is left alone.

    Raises:
        LeaseLostError: The job was claimed again; that claim goes on instead.
    """
    bulk_id = claim.dedupe_key.removeprefix(bulk.JOB_KEY)
    try:
        found = bulk.work(
            scope=scope, bulk_id=bulk_id, now=timezone.now(), within_seconds=WITHIN_SECONDS
        )
    except NotFoundError:
        return
    if found.status == BulkStatus.READY:
        jobs.ask_again(scope=scope, claim=claim, now=timezone.now())
