"""The texts behind index entries, as they are embedded: what the gate let through, and cleaned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memory.models import IndexEntry
from memory.retrieval.learned_records import fact_text, item_text
from memory.sanitize import sanitize
from memory.scope import Scope
from threads.models import Run


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
        .select_related("recall", "chunk__document__run", "item__run", "fact__run")
        .only(
            "recall__said",
            "recall__answered",
            "recall__agent_id",
            "chunk__heading",
            "chunk__content",
            "chunk__document__run__agent_id",
            "item__key",
            "item__title",
            "item__content",
            "item__run__agent_id",
            "fact__fact",
            "fact__subject",
            "fact__run__agent_id",
        )
    )
    return {row.pk: _text_of(row) for row in rows}


def _text_of(entry: IndexEntry) -> EntryText:
    if entry.recall is not None:
        recall = entry.recall
        return EntryText(text=_joined(recall.said, recall.answered), agent_id=recall.agent_id)
    if entry.item is not None:
        item = entry.item
        text = item_text(key=item.key, title=item.title, content=item.content)
        return EntryText(text=sanitize(text).text, agent_id=_agent_of(item.run))
    if entry.fact is not None:
        text = fact_text(fact=entry.fact.fact, subject=entry.fact.subject)
        return EntryText(text=sanitize(text).text, agent_id=_agent_of(entry.fact.run))
    chunk = entry.chunk
    assert chunk is not None  # noqa: S101 - the database holds it
    return EntryText(
        text=_joined(chunk.heading, chunk.content), agent_id=_agent_of(chunk.document.run)
    )


def _agent_of(run: Run | None) -> str | None:
    return run.agent_id if run else None


def _joined(first: str, second: str) -> str:
    return sanitize("\n".join(part for part in (first, second) if part)).text
