"""What can keep an erasure from being asked for, or from going on."""

from __future__ import annotations

from memory.errors import ConflictError, CredenceError, InvalidInputError


class LegalHoldError(ConflictError):
    """A legal hold is on this person: nothing of theirs is erased until it is released."""

    code = "legal_hold"


class ErasureRunningError(ConflictError):
    """Another erasure of this person is not finished."""

    code = "erasure_running"


class ErasureNotFailedError(ConflictError):
    """Only a failed erasure can be tried again."""

    code = "erasure_not_failed"


class ErasureLostError(CredenceError):
    """Another process has taken this erasure over, so this one stops."""

    code = "erasure_lost"


class BusyPersonError(CredenceError):
    """Others are writing for this person right now; it is tried again."""

    code = "person_busy"


class UnknownKindsError(InvalidInputError):
    """Kinds and a time belong to an erasure of what is tagged, not to one of everything."""

    code = "erasure_narrowed"
