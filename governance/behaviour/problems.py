"""What stands in the way of a behaviour sample."""

from __future__ import annotations

from memory.errors import ConflictError, CredenceError, InvalidInputError


class SampleRefusedError(CredenceError):
    """The gate lets nothing of this through: it names what no agent may be taught."""

    code = "not_admitted"


class SampleTooLongError(InvalidInputError):
    """A part of the sample is too long."""

    code = "too_long"


class SampleShapeError(InvalidInputError):
    """A rule has content; an example input and output; an intent a name and content."""

    code = "bad_sample"


class InstructionLikeError(ConflictError):
    """This text carries role marks or orders to forget; read it, then approve it with `anyway`."""

    code = "instruction_like"


class NotApprovedError(ConflictError):
    """Only an approved sample can be retired."""

    code = "not_approved"
