"""What passes in and out of the book of jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memory.errors import CredenceError
from memory.models import JobKind

MAX_ATTEMPTS: Final = 5
BACKOFF_SECONDS: Final = 10


class LeaseLostError(CredenceError):
    """This job was claimed again meanwhile, so this claim may write nothing."""

    code = "lease_lost"


class OutsideTransactionError(CredenceError):
    """A job was touched outside a scoped transaction of its tenant."""

    code = "job_outside_transaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """Work that became necessary.

    Attributes:
        kind: What to do.
        thread_id: Thread it is about; jobs of one thread run one after the other.
        run_id: Run that made it necessary.
        end_user_id: Person it is about (`usr_` id).
        dedupe_key: At most one unfinished job of a tenant has it; one person's keys only, since a
            scope that names a person can not see another's job.
        cursor_from: Sequence number it starts after.
        cursor_to: Sequence number it goes up to.
    """

    kind: JobKind
    thread_id: str | None
    run_id: str | None
    end_user_id: str | None
    dedupe_key: str
    cursor_from: int | None = None
    cursor_to: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to work on one job until somebody else claims it (the row's epoch moves).

    Attributes:
        claimed_at: When, by the database's clock; whoever asks for the same work after this is
            served by another round.
    """

    job_id: str
    tenant_id: str
    kind: str
    thread_id: str | None
    end_user_id: str | None
    run_id: str | None
    dedupe_key: str
    epoch: int
    attempts: int
    cursor_from: int | None
    cursor_to: int | None
    claimed_at: datetime
