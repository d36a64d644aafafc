"""Noticing a database that was restored from a backup older than the last erasure.

The ledger outside the database knows every erasure and hold; one that the database does not know
means that erased persons are back. Then nothing is served until `manage.py reapply_erasures`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from django.db import connections, transaction

from governance import ledger
from governance.ledger import LedgerEntry
from memory.conf import erasure_ledger_path
from memory.errors import CredenceError
from memory.rls import MAINT_ALIAS

_LOOK_SECONDS: Final = 5.0
# Entries are in the order of time and a backup holds a beginning of them, so the end tells.
_LAST: Final = 20
# Of a tenant that the database does not know, nobody can have come back.
_MISSING: Final = """
SELECT asked.number
FROM unnest(%s::text[], %s::text[], %s::text[]) WITH ORDINALITY
     AS asked (kind, id, tenant_id, number)
JOIN memory_tenant AS tenant ON tenant.id = asked.tenant_id
LEFT JOIN governance_erasure AS erasure
       ON erasure.id = asked.id AND erasure.erased_at IS NOT NULL
LEFT JOIN governance_legalhold AS hold ON hold.id = asked.id
WHERE CASE asked.kind
          WHEN 'erased' THEN erasure.id IS NULL
          WHEN 'held' THEN hold.id IS NULL
          ELSE hold.id IS NULL OR hold.released_at IS NULL
      END
ORDER BY asked.number
"""


class RestoredDatabaseError(CredenceError):
    """The database was restored from an older backup: run manage.py reapply_erasures first."""

    code = "erasures_not_reapplied"


@dataclass(slots=True)
class _Looked:
    """What this process last saw. `at` is of the monotonic clock; -inf for never."""

    path: Path | None = None
    at: float = float("-inf")
    is_restored: bool = False
    was_whole: bool = False


_looked = _Looked()
_lock = threading.Lock()


def missing_erasures(*, is_whole: bool) -> tuple[LedgerEntry, ...]:
    """Return the ledger's entries that the database does not know, in order.

    With `is_whole` of all entries, else of the last 20. Cost: one query as role maint; none where
    the ledger is empty.

    Raises:
        LedgerDamagedError: The ledger can not be read.
    """
    entries: Sequence[LedgerEntry] = ledger.read() if is_whole else ledger.read_last(count=_LAST)
    if not entries:
        return ()
    kinds = [str(entry.kind) for entry in entries]
    ids, tenants = [entry.id for entry in entries], [entry.tenant_id for entry in entries]
    with transaction.atomic(using=MAINT_ALIAS), connections[MAINT_ALIAS].cursor() as cursor:
        cursor.execute(_MISSING, (kinds, ids, tenants))
        return tuple(entries[row[0] - 1] for row in cursor.fetchall())


def is_restored() -> bool:
    """Say whether erasures wait to be done again. Looks every 5 seconds, at first at everything.

    A restored database is looked at whole until it no longer is one.
    """
    path = erasure_ledger_path()
    with _lock:
        if _looked.path != path:
            _looked.path, _looked.at = path, float("-inf")
            _looked.is_restored, _looked.was_whole = False, False
        if time.monotonic() - _looked.at < _LOOK_SECONDS:
            return _looked.is_restored
        is_whole = _looked.is_restored or not _looked.was_whole
        _looked.is_restored = bool(missing_erasures(is_whole=is_whole))
        _looked.at, _looked.was_whole = time.monotonic(), True
        return _looked.is_restored


def refuse_if_restored() -> None:
    """Let pass where nothing waits to be erased again. Cost: mostly a look at the clock.

    Raises:
        RestoredDatabaseError: Something does.
        LedgerDamagedError: The ledger can not be read.
    """
    if is_restored():
        raise RestoredDatabaseError


def look_again() -> None:
    """Forget what this process saw: the next question looks at everything."""
    with _lock:
        _looked.path = None
