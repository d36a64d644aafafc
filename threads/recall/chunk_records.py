"""What of a stretch of a document is searched: its title, its headings, its text. Pure."""

from __future__ import annotations

from datetime import datetime

from memory.retrieval.records import Described, pack


def chunk_record(
    *, title: str, heading: str, content: str, document_id: str, position: int, said_at: datetime
) -> bytes:
    """Return the record of a stretch; neighbours are those of the same document."""
    text = "\n".join(part for part in (title, heading, content) if part)
    described = Described(
        kind="knowledge", text=text, session=document_id, place=position, said_at=said_at
    )
    return pack(described)
