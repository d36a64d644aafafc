"""How long the body of a request may be, by its route: known before a byte of it is read."""

from __future__ import annotations

from typing import Final

from memory.conf import body_limit_bytes, document_body_limit_bytes

DOCUMENTS_PATH: Final = "/v1/knowledge/documents"


def body_limit(*, method: str, path: str) -> int:
    """Return the most bytes that a request's body may have."""
    carries_document = method == "POST" and path == DOCUMENTS_PATH
    return document_body_limit_bytes() if carries_document else body_limit_bytes()
