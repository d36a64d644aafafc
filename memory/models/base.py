"""What every walled table has in common: an id, a tenant, walls, and a privacy sorting."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from django.db import models

from memory.ids import new_id
from memory.querysets import ScopedManager, model_validation


@dataclass(frozen=True, slots=True, kw_only=True)
class Walls:
    """Which columns of a table the scope is held against, in querysets and in row-level security.

    Attributes:
        tenant: Column of the tenant.
        user: Column of the end user whose personal data the row is, if any.
        session: Column of the thread the row is private to, if any.
        team: Column of the team that shares the row. With it, a row of no user is seen by every
            user of the tenant, or if it names a team, by those whose scope has that team.
    """

    tenant: str = "tenant_id"
    user: str | None = None
    session: str | None = None
    team: str | None = None


def id_field(prefix: str) -> models.CharField[str, str]:
    """Return a text primary key that fills itself with a TypeID of this prefix."""
    return models.CharField(
        primary_key=True, max_length=40, default=partial(new_id, prefix), editable=False
    )


class TenantModel(models.Model):
    """Base of every table that belongs to a tenant.

    Subclasses declare `walls`, and sort every column into `personal` (erased with its person) or
    `kept` (ids, counts, times, states); a test fails the build for a column in neither.
    """

    walls: ClassVar[Walls] = Walls()
    personal: ClassVar[frozenset[str]] = frozenset()
    kept: ClassVar[frozenset[str]] = frozenset()
    # Rows are never changed; memory.checks sees that the database holds it.
    is_append_only: ClassVar[bool] = False

    tenant = models.ForeignKey(
        "memory.Tenant", on_delete=models.CASCADE, related_name="+", db_index=False
    )

    objects = ScopedManager()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        # The admin log copies this text: it must never hold personal data.
        return str(self.pk)

    def validate_unique(self, exclude: Any = None) -> None:
        """As Django's, looking only at what row-level security shows."""
        with model_validation():
            super().validate_unique(exclude)

    def validate_constraints(self, exclude: Any = None) -> None:
        """As Django's, looking only at what row-level security shows."""
        with model_validation():
            super().validate_constraints(exclude)


def tenant_unique(model: str) -> models.UniqueConstraint:
    """Return the unique (tenant, id) that composite foreign keys of other tables point at."""
    return models.UniqueConstraint(fields=["tenant", "id"], name=f"{model}_tenant_id_uniq")
