"""What can be wrong with a document. Imports no framework: readers in a process of their own use it."""

from __future__ import annotations

from memory.errors import CredenceError, InvalidInputError


class UnreadableDocumentError(InvalidInputError):
    """This file can not be read as a document."""

    code = "unreadable_document"


class DocumentTextError(InvalidInputError):
    """A text holds a NUL character, which no text may."""

    code = "invalid_text"


class DocumentTooLongError(InvalidInputError):
    """A document is at most 2,000,000 characters of text."""

    code = "too_long"


class ReadersBusyError(CredenceError):
    """Too many documents are being read; try again in a moment."""

    code = "readers_busy"
    retry_after_seconds = 5


class UnknownTeamError(InvalidInputError):
    """There is no such team."""

    code = "unknown_team"


class NotAdmittedError(CredenceError):
    """The knowledge base does not take this document."""

    code = "not_admitted"
