"""What the worker made of a run later, told in the run's own trace: one more step `writeback`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.db import connection

from memory.scope import Scope

# A trace that is gone, or of a turn that never had one, is passed over.
_NOTE: Final = """
    UPDATE threads_runtrace trace SET steps = trace.steps || jsonb_build_array(
        jsonb_build_object('seq', jsonb_array_length(trace.steps) + 1, 'kind', 'writeback',
            'started_at', %(at)s::text, 'ms', 0.0, 'data', given.data::jsonb))
    FROM unnest(%(runs)s::text[], %(left)s::text[]) AS given (run_id, data)
    WHERE trace.tenant_id = %(tenant)s AND trace.run_id = given.run_id
"""


def note_left(
    *, scope: Scope, left: Mapping[str, Mapping[str, Sequence[str]]], now: datetime
) -> None:
    """Add to the traces of runs what was made of them: ids by kind, never text.

    Inside the caller's transaction, the one that wrote what is told. Cost: one UPDATE, whatever the
    number; none for none.

    Args:
        scope: Names the person the runs are of.
        left: By the run's id, such as {"recall": ["rec_…"]}.
        now: When it was written.
    """
    if not left:
        return
    values: dict[str, Any] = {
        "tenant": scope.tenant_id,
        "at": now.isoformat(),
        "runs": list(left),
        "left": [
            json.dumps({kind: list(ids) for kind, ids in made.items()}) for made in left.values()
        ],
    }
    with connection.cursor() as cursor:
        cursor.execute(_NOTE, values)
