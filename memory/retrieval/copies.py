"""Copies of shelves that a process keeps, bounded in bytes; numbers alone, of no principal's.

A copy is used only after the request's own scoped transaction has read the shelf's row through
row-level security, so who may not see a shelf never gets to its copy. A copy that is behind reads
what came since; one of another generation is read anew. What a transaction has written itself is
never kept: it may yet be undone. What nobody asks for any more is forgotten within minutes, so that
nothing of an erased person stays in a process.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from memory.conf import recall_cache_bytes
from memory.retrieval.limits import TimeLimit
from memory.retrieval.shelf_copy import (
    ShelfCopy,
    empty_copy,
    extended,
    with_codes,
    without_codes,
)
from memory.retrieval.shelf_reading import (
    ShelfState,
    read_codes,
    read_rows,
    read_states,
)
from memory.scope import Scope

# Of all shelves, as many may be read at once; a lock is shared by those whose keys fall together.
_LOCKS: Final = 64
# Who waits longer for another thread's reading reads by itself.
_WAIT_SECONDS: Final = 0.1
# Nobody finds an erased person, so nobody asks for their copies any more.
UNUSED_SECONDS: Final = 300.0


class CopyCache:
    """The copies used last, within a number of bytes. Safe for threads."""

    def __init__(self, *, most_bytes: int) -> None:
        """Start empty."""
        self.most_bytes = most_bytes
        self._copies: OrderedDict[str, ShelfCopy] = OrderedDict()
        self._used_at: dict[str, float] = {}
        self._bytes = 0
        self._guard = threading.Lock()
        self._loading = [threading.Lock() for _ in range(_LOCKS)]

    @property
    def nbytes(self) -> int:
        """What all copies take."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._copies)

    def get(self, key: str) -> ShelfCopy | None:
        """Return a copy and count it as used."""
        with self._guard:
            copy = self._copies.get(key)
            if copy is not None:
                self._copies.move_to_end(key)
                self._used_at[key] = time.monotonic()
            return copy

    def put(self, key: str, copy: ShelfCopy) -> None:
        """Keep a copy, letting go of those not used for longest; one too large is not kept."""
        with self._guard:
            self._drop(key)
            if copy.nbytes > self.most_bytes:
                return
            self._copies[key] = copy
            self._used_at[key] = time.monotonic()
            self._bytes += copy.nbytes
            while self._bytes > self.most_bytes:
                self._drop(next(iter(self._copies)))

    def drop_unused(self, *, seconds: float = UNUSED_SECONDS) -> int:
        """Forget the copies that were not used for so long; return how many. Cost: looks at those."""
        gone = 0
        with self._guard:
            before = time.monotonic() - seconds
            while self._copies:
                key = next(iter(self._copies))
                if self._used_at[key] > before:
                    break
                self._drop(key)
                gone += 1
        return gone

    def drop(self, key: str) -> None:
        """Forget a copy."""
        with self._guard:
            self._drop(key)

    def clear(self) -> None:
        """Forget all copies."""
        with self._guard:
            self._copies.clear()
            self._used_at.clear()
            self._bytes = 0

    def loading(self, key: str) -> threading.Lock:
        """Return the lock of who reads this shelf."""
        return self._loading[hash(key) % _LOCKS]

    def _drop(self, key: str) -> None:
        gone = self._copies.pop(key, None)
        self._used_at.pop(key, None)
        if gone is not None:  # an empty copy is false
            self._bytes -= gone.nbytes


_process: list[CopyCache] = []
_making = threading.Lock()


def process_cache() -> CopyCache:
    """Return the copies of this process."""
    if not _process:
        with _making:
            if not _process:
                _process.append(CopyCache(most_bytes=recall_cache_bytes()))
                name = "unused-copies"
                threading.Thread(target=_drop_unused, name=name, daemon=True).start()
    return _process[0]


def _drop_unused() -> None:
    """Forget unused copies now and then, for as long as the process lives; needs no database."""
    while True:
        time.sleep(UNUSED_SECONDS / 5)
        _process[0].drop_unused()


def open_shelves(
    *,
    scope: Scope,
    model_id: str | None,
    most_codes: int,
    limit: TimeLimit,
    states: Sequence[ShelfState] | None = None,
) -> list[ShelfCopy]:
    """Return current copies of the shelves of a scope, inside its transaction.

    `states` are its shelves where this transaction has just read them.

    Cost: one statement where all copies are current; for each that is not three to five more, and
    two for every further 20,000 entries.

    Raises:
        OverTimeError: Reading took too long; what was read of a large shelf is kept for next time.
    """
    found = []
    for state in read_states(scope=scope) if states is None else states:
        key = copy_key(scope=scope, shelf_id=state.id, model_id=model_id, most_codes=most_codes)
        copy = process_cache().get(key)
        if copy is None or not _is_current(copy, state):
            copy = _fresh(scope, key, state, model_id, most_codes, limit)
        if copy is not None:
            found.append(copy)
    return found


def forget(
    *, scope: Scope, copies: Sequence[ShelfCopy], model_id: str | None, most_codes: int
) -> None:
    """Forget copies that showed what is gone."""
    for copy in copies:
        shelf_id = copy.shelf_id
        key = copy_key(scope=scope, shelf_id=shelf_id, model_id=model_id, most_codes=most_codes)
        process_cache().drop(key)


def copy_key(*, scope: Scope, shelf_id: str, model_id: str | None, most_codes: int) -> str:
    """Return the key of a shelf's copy: the same for all who may see the shelf."""
    shared = Scope(tenant_ids=(scope.tenant_id,), principal_id="copies")
    return shared.cache_key(shelf_id, model_id or "", str(most_codes))


def _is_current(copy: ShelfCopy, state: ShelfState) -> bool:
    return (copy.version, copy.generation) == (state.version, state.generation)


def _fresh(
    scope: Scope,
    key: str,
    state: ShelfState,
    model_id: str | None,
    most_codes: int,
    limit: TimeLimit,
) -> ShelfCopy | None:
    """Bring a copy up to date; one thread a shelf, others wait a moment for what it reads."""
    lock = process_cache().loading(key)
    is_mine = lock.acquire(timeout=min(_WAIT_SECONDS, limit.check() / 1000))
    try:
        limit.hold()
        copy = process_cache().get(key)
        if copy is not None and _is_current(copy, state):
            return copy
        empty = empty_copy(shelf_id=state.id, model_id=model_id)
        is_useless = copy is None or copy.generation != state.generation
        # A copy ahead of what this transaction sees: rare, and settled by reading anew.
        start = empty if copy is None or is_useless or copy.version > state.version else copy
        return _read_on(scope, key, state, start, most_codes, limit)
    finally:
        if is_mine:
            lock.release()


def _read_on(
    scope: Scope, key: str, state: ShelfState, copy: ShelfCopy, most_codes: int, limit: TimeLimit
) -> ShelfCopy | None:
    """Read a shelf to its end, keeping what is read as it goes."""
    while True:
        reading = read_rows(scope=scope, copy=copy)
        if reading is None:
            process_cache().drop(key)
            return None
        if copy.generation not in (-1, reading.rows.generation):
            # Something was taken away while it was read: from the start.
            copy = empty_copy(shelf_id=copy.shelf_id, model_id=copy.model_id)
        else:
            copy = extended(copy, reading.rows)
            if not reading.has_more:
                copy = _with_vectors(scope, state, copy, most_codes, limit)
            if not reading.is_open:
                process_cache().put(key, copy)
            if not reading.has_more:
                return copy
        limit.hold()


def _with_vectors(
    scope: Scope, state: ShelfState, copy: ShelfCopy, most_codes: int, limit: TimeLimit
) -> ShelfCopy:
    """Return a copy with the vectors it lacks; without any where they are not all compared."""
    if copy.model_id is None:
        return copy
    if len(copy) > most_codes:
        return without_codes(copy)
    limit.hold()
    ids, codes = read_codes(scope=scope, copy=copy, state=state)
    return with_codes(copy, ids, codes)
