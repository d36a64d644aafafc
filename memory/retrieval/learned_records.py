"""What of an item and of a core fact is searched and embedded. Pure."""

from __future__ import annotations

from datetime import datetime

from memory.retrieval.records import Described, pack


def item_text(*, key: str, title: str, content: str) -> str:
    """Return what an item is found by: its key as words, its title, what it says."""
    return "\n".join(part for part in (key.replace("_", " "), title, content) if part)


def fact_text(*, fact: str, subject: str) -> str:
    """Return what a fact is found by: what it says, and what it is about."""
    return "\n".join(part for part in (subject, fact) if part)


def item_record(
    *, item_id: str, role: str, key: str, title: str, content: str, said_at: datetime
) -> bytes:
    """Return the record of an item, which has no neighbours."""
    text = item_text(key=key, title=title, content=content)
    return pack(
        Described(kind="item", text=text, session=item_id, place=0, said_at=said_at, role=role)
    )


def fact_record(*, fact_id: str, fact: str, subject: str, said_at: datetime) -> bytes:
    """Return the record of a fact, found in every role; it has no neighbours."""
    text = fact_text(fact=fact, subject=subject)
    return pack(Described(kind="core", text=text, session=fact_id, place=0, said_at=said_at))
