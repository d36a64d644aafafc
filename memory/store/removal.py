"""Taking away what turns left behind, with the index entries and vectors that lead to it."""

from __future__ import annotations

from collections.abc import Sequence

from memory.models import RecallEntry
from memory.scope import Scope
from memory.store.entries import remove_entries
from memory.store.shelves import Owner, find_shelf


def remove_recall(*, scope: Scope, owner: Owner, recall_ids: Sequence[str]) -> int:
    """Delete recall entries of one owner and whatever leads to them; return how many there were.

    Cost: up to four statements.
    """
    shelf_id = find_shelf(scope=scope, owner=owner)
    if shelf_id is not None:
        remove_entries(scope=scope, shelf_id=shelf_id, recall_ids=recall_ids)
    rows = RecallEntry.objects.in_scope(scope).filter(
        pk__in=recall_ids, end_user_id=owner.end_user_id
    )
    _, by_table = rows.delete()
    return by_table.get(RecallEntry._meta.label, 0)
