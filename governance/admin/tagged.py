"""What is tagged as personal, over all tables: kinds and counts, never where or what."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import models
from django.urls import reverse

from governance.admin.columns import kinds_of
from governance.models import CoreCandidate, Correction
from memory.models import CoreFact, MemoryItem
from memory.scope import Scope

FIRST_ROWS: Final = 50
_MOST_COUNTED: Final = 10_000
TABLES: Final[tuple[type[models.Model], ...]] = (MemoryItem, CoreFact, CoreCandidate, Correction)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedRow:
    """One row with personal data in its text."""

    id: str
    url: str
    end_user_id: str | None
    kinds: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedTable:
    """One table's rows with personal data.

    Attributes:
        count: How many, of the newest 10,000 at most.
        kinds: Kinds and how many rows have each.
        rows: The newest ones.
        list_url: The room's list of all of them.
    """

    name: str
    count: int
    kinds: tuple[tuple[str, int], ...]
    rows: tuple[TaggedRow, ...]
    list_url: str


def tagged_rows(*, scope: Scope) -> list[TaggedTable]:
    """Return what is tagged in each table. Cost: one query a table, of 10,000 rows at most."""
    return [_table(scope, model) for model in TABLES]


def _table(scope: Scope, model: type[models.Model]) -> TaggedTable:
    manager: Any = model._default_manager
    found = manager.in_scope(scope).exclude(pii=[]).order_by("-created_at", "-pk")
    rows = list(found.values_list("pk", "end_user_id", "pii", "created_at")[:_MOST_COUNTED])
    counted: Counter[str] = Counter()
    for _pk, _person, spans, _at in rows:
        counted.update({str(span.get("kind", "?")) for span in spans if isinstance(span, dict)})
    room = f"admin:{model._meta.app_label}_{model._meta.model_name}"
    return TaggedTable(
        name=str(model._meta.verbose_name_plural),
        count=len(rows),
        kinds=tuple(sorted(counted.items())),
        rows=tuple(
            TaggedRow(
                id=pk,
                url=reverse(f"{room}_change", args=(pk,)),
                end_user_id=person,
                kinds=kinds_of(spans),
                created_at=at,
            )
            for pk, person, spans, at in rows[:FIRST_ROWS]
        ),
        list_url=f"{reverse(f'{room}_changelist')}?personal=yes",
    )
