"""Writing records anew after the way texts become words has changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.db import connection

from memory.scope import Scope
from memory.store.shelves import next_version

_REPACK: Final = """
    UPDATE memory_indexentry entry SET packed = given.packed, version = %(version)s
    FROM unnest(%(ids)s::text[], %(packed)s::bytea[]) AS given (id, packed)
    WHERE entry.tenant_id = %(tenant)s AND entry.shelf_id = %(shelf)s AND entry.id = given.id
"""


def repack(*, scope: Scope, shelf_id: str, packed: Mapping[str, bytes]) -> int:
    """Replace the records of entries of one shelf, by entry id; return how many there were.

    Copies of the shelf are worthless from the commit on. Cost: two statements.

    Raises:
        NotFoundError: The scope has no such shelf.
    """
    version = next_version(scope=scope, shelf_id=shelf_id, has_changed_old=True)
    values: dict[str, Any] = {
        "tenant": scope.tenant_id,
        "shelf": shelf_id,
        "version": version,
        "ids": list(packed),
        "packed": list(packed.values()),
    }
    with connection.cursor() as cursor:
        cursor.execute(_REPACK, values)
        return int(cursor.rowcount)
