"""Counting what prompts showed: each entry once for each run that showed it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from django.db import connection

from memory import store
from memory.scope import Scope

_SHOWN: Final = """
    SELECT item ->> 'id', count(DISTINCT trace.run_id) FROM threads_runtrace trace
    CROSS JOIN LATERAL jsonb_array_elements(trace.items) item
    WHERE trace.tenant_id = %(tenant)s AND trace.run_id = ANY (%(runs)s::text[])
        AND item ->> 'kind' IN ('recall', 'knowledge')
    GROUP BY 1
"""


def count_uses(*, scope: Scope, run_ids: Sequence[str], now: datetime) -> None:
    """Count what the prompts of some runs showed of recall and knowledge.

    The caller sees to it that each run is counted once. Cost: one query; two more statements where
    something was shown.
    """
    if not run_ids:
        return
    with connection.cursor() as cursor:
        cursor.execute(_SHOWN, {"tenant": scope.tenant_id, "runs": list(run_ids)})
        shown: dict[str, int] = dict(cursor.fetchall())
    if not shown:
        return
    entries = store.entry_ids_of(scope=scope, led_to=shown)
    uses = {entry_id: shown[led_to] for led_to, entry_id in entries.items()}
    store.note_uses(scope=scope, uses=uses, now=now)
