"""Shelves: finding or making one, and the lock and numbers of each write to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.db import connection

from memory.errors import NotFoundError, ScopeError
from memory.ids import new_id
from memory.models import Shelf
from memory.scope import Scope

_MAKE: Final = """
    INSERT INTO memory_shelf (id, tenant_id, end_user_id, team_id, version, generation)
    VALUES (%s, %s, %s, %s, 0, 0) ON CONFLICT (tenant_id, end_user_id, team_id) DO NOTHING
"""
_ADD: Final = """
    UPDATE memory_shelf SET version = version + 1, generation = generation + %s
    WHERE tenant_id = %s AND id = %s RETURNING version
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose a shelf is: a person's, a team's, or with neither the whole tenant's."""

    end_user_id: str | None = None
    team_id: str | None = None

    def __post_init__(self) -> None:
        """Refuse two owners.

        Raises:
            ScopeError: Both a person and a team.
        """
        if self.end_user_id and self.team_id:
            raise ScopeError("A shelf has one owner.")


def find_shelf(*, scope: Scope, owner: Owner) -> str | None:
    """Return the id of an owner's shelf, None where there is none yet. Cost: one query."""
    rows = Shelf.objects.in_scope(scope).filter(end_user_id=owner.end_user_id)
    return rows.filter(team_id=owner.team_id).values_list("id", flat=True).first()


def ensure_shelf(*, scope: Scope, owner: Owner) -> str:
    """Return the id of an owner's shelf, making it where there is none.

    Locks nothing that is there already. Cost: one query; three the first time.

    Raises:
        NotFoundError: The scope may not see the owner's shelf.
    """
    found = find_shelf(scope=scope, owner=owner)
    if found is not None:
        return found
    values = (new_id("shelf"), scope.tenant_id, owner.end_user_id, owner.team_id)
    with connection.cursor() as cursor:
        cursor.execute(_MAKE, values)
    # Whoever made it at the same moment has committed by now: the insert waited for that.
    found = find_shelf(scope=scope, owner=owner)
    if found is None:
        raise NotFoundError
    return found


def next_version(*, scope: Scope, shelf_id: str, has_changed_old: bool = False) -> int:
    """Lock a shelf until the transaction ends and return the version of what is written now.

    Args:
        scope: Of the open transaction.
        shelf_id: The shelf.
        has_changed_old: Whether entries are taken away or changed, which makes copies worthless.

    Raises:
        NotFoundError: The scope has no such shelf.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ADD, (int(has_changed_old), scope.tenant_id, shelf_id))
        row = cursor.fetchone()
    if row is None:
        raise NotFoundError
    return int(row[0])
