"""The texts behind index entries, as they are embedded: what the gate let through, and cleaned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memory.models import IndexEntry
from memory.sanitize import sanitize
from memory.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryText:
    """What an entry says, and the agent whose conversation it comes from, if it is one's."""

    text: str
    agent_id: str | None


def entry_texts(*, scope: Scope, entry_ids: Sequence[str]) -> dict[str, EntryText]:
    """Return the texts of entries by id; those that are gone are left out.

    Inside the caller's scoped transaction. Cost: one query, and cleaning.
    """
    rows = (
        IndexEntry.objects.in_scope(scope)
        .filter(pk__in=entry_ids)
        .select_related("recall", "chunk", "chunk__document__run")
        .only(
            "recall__said",
            "recall__answered",
            "recall__agent_id",
            "chunk__heading",
            "chunk__content",
            "chunk__document__run__agent_id",
        )
    )
    return {row.pk: _text_of(row) for row in rows}


def _text_of(entry: IndexEntry) -> EntryText:
    if entry.recall is not None:
        recall = entry.recall
        return EntryText(text=_joined(recall.said, recall.answered), agent_id=recall.agent_id)
    chunk = entry.chunk
    assert chunk is not None  # noqa: S101 - the database holds it
    run = chunk.document.run
    return EntryText(
        text=_joined(chunk.heading, chunk.content), agent_id=run.agent_id if run else None
    )


def _joined(first: str, second: str) -> str:
    return sanitize("\n".join(part for part in (first, second) if part)).text
