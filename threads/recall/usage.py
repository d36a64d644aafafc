"""Counting what prompts showed: each entry once for each run that showed it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from django.db import connection

from memory import store
from memory.scope import Scope

_SHOWN: Final = """
    SELECT DISTINCT trace.run_id, item ->> 'id' FROM threads_runtrace trace
    CROSS JOIN LATERAL jsonb_array_elements(trace.items) item
    WHERE trace.tenant_id = %(tenant)s AND trace.run_id = ANY (%(runs)s::text[])
        AND item ->> 'kind' IN ('recall', 'knowledge', 'item', 'core')
"""


def shown_by(*, scope: Scope, run_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return the ids of what the prompts of some runs showed of what an index leads to, by run.

    Cost: one query.
    """
    found: dict[str, list[str]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_SHOWN, {"tenant": scope.tenant_id, "runs": list(run_ids)})
        for run_id, shown in cursor.fetchall():
            found.setdefault(run_id, []).append(shown)
    return found


def count_uses(*, scope: Scope, shown: Iterable[str], now: datetime) -> None:
    """Count what was shown, each id as often as it is given, once a run.

    The caller sees to it that each run is counted once. Cost: two statements.

    Args:
        scope: May write what the tenant and its teams share.
        shown: Ids of what index entries lead to.
        now: When they were used last.
    """
    counts = Counter(shown)
    entries = store.entry_ids_of(scope=scope, led_to=counts)
    uses = {entry_id: counts[led_to] for led_to, entry_id in entries.items()}
    store.note_uses(scope=scope, uses=uses, now=now)
