"""Items that contain a text, by title or content, as messages are found by grep."""

from __future__ import annotations

from datetime import datetime

from governance.items.items import active_items
from memory.models import MemoryItem
from memory.querysets import ScopedQuerySet
from memory.scope import Scope
from threads.recall.patterns import column_like


def items_having(
    *, scope: Scope, query: str, role: str | None, now: datetime
) -> ScopedQuerySet[MemoryItem]:
    """Return the query of items in effect with a text, in which * is a wildcard, in no order.

    Args:
        scope: Names the person, and the teams whose items may be seen.
        query: The text.
        role: Only items of this role; None for every role.
        now: When they have to be in effect.

    Raises:
        BadPatternError: As threads.recall.patterns.like_pattern.
    """
    rows = active_items(scope=scope, now=now)
    rows = rows if role is None else rows.filter(role=role)
    in_title = rows.filter(column_like("title", query))
    return rows.filter(column_like("content", query)) | in_title
