"""The names of a tenant's active entities, kept between questions, and those that a text names.

A copy is one tenant's: its key is made from the scope's tenant alone. Names are read anew when the
tenant's vocabulary has changed; weights, which move all the time, are read for the entities found.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Final

from django.db import connection

from memory.models import Entity, EntityStatus
from memory.retrieval.expansion import MOST_ENTITIES, MOST_NAMES, Expansion, NamedEntity
from memory.retrieval.names import NameIndex, name_key
from memory.scope import Scope

_MOST_COPIES: Final = 64
_MOST_ENTITIES: Final = 50_000
_VERSION: Final = "SELECT count(*), max(updated_at) FROM memory_entity WHERE tenant_id = %s"
_Version = tuple[int, datetime | None]


@dataclass(frozen=True, slots=True)
class _Names:
    """All names of one tenant, as of one version of its vocabulary."""

    version: _Version
    index: NameIndex
    by_entity: dict[str, tuple[str, ...]]


_copies: OrderedDict[str, _Names] = OrderedDict()
_lock = Lock()


def entities_named(*, scope: Scope, text: str) -> dict[str, list[str]]:
    """Return the names of active entities that stand in a text, by entity.

    Inside the caller's scoped transaction. Cost: one statement where the copy is current and two
    where it is not, with about 30 µs a name to read it; then linear in the text.
    """
    names = _names_of(scope)
    return names.index.found_in(text) if names.by_entity else {}


def read_expansion(*, scope: Scope, text: str) -> Expansion:
    """Return the entities that a question names, the weightiest first, with their other names.

    Inside the caller's scoped transaction. Cost: one statement, one more where it names any.
    """
    names = _names_of(scope)
    found = names.index.found_in(text) if names.by_entity else {}
    if not found:
        return Expansion()
    rows = Entity.objects.in_scope(scope).filter(pk__in=found, status=EntityStatus.ACTIVE)
    weights = rows.order_by("-weight", "id").values_list("pk", "weight")[:MOST_ENTITIES]
    named = (_named(pk, weight, found[pk], names.by_entity[pk]) for pk, weight in weights)
    return Expansion(entities=tuple(named))


def _named(pk: str, weight: float, said: list[str], names: tuple[str, ...]) -> NamedEntity:
    keys = {name_key(name) for name in said}
    others = [name for name in names if name_key(name) not in keys]
    return NamedEntity(id=pk, weight=weight, said=tuple(said), others=tuple(others[:MOST_NAMES]))


def _names_of(scope: Scope) -> _Names:
    """Return the tenant's names, from the copy if that is current."""
    wide = Scope(tenant_ids=(scope.tenant_id,), principal_id="vocabulary")
    key = wide.cache_key("names")
    version = _version_of(wide)
    with _lock:
        known = _copies.get(key)
        if known is not None and known.version == version:
            _copies.move_to_end(key)
            return known
    made = _read(wide, version)
    with _lock:
        _copies[key] = made
        _copies.move_to_end(key)
        while len(_copies) > _MOST_COPIES:
            _copies.popitem(last=False)
    return made


def _version_of(scope: Scope) -> _Version:
    # As plain as can be: every search asks this first.
    with connection.cursor() as cursor:
        cursor.execute(_VERSION, (scope.tenant_id,))
        count, last = cursor.fetchone()
    return count, last


def _read(scope: Scope, version: _Version) -> _Names:
    """Read all names; a change that commits meanwhile makes the next version another one."""
    if not version[0]:
        return _Names(version, NameIndex(()), {})
    rows = Entity.objects.in_scope(scope).filter(status=EntityStatus.ACTIVE).order_by("-weight")
    by_entity = {
        pk: (term, *aliases)
        for pk, term, aliases in rows.values_list("pk", "term", "aliases")[:_MOST_ENTITIES]
    }
    pairs = ((pk, name) for pk, names in by_entity.items() for name in names)
    return _Names(version, NameIndex(pairs), by_entity)
