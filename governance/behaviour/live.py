"""The samples that hold: read together with their agent, so that no prompt costs a query more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Case, F, IntegerField, OuterRef, Q, Value, When
from django.db.models.functions import JSONObject

from memory.models import BehaviourSample, SampleKind, SampleStatus
from memory.querysets import ScopedQuerySet
from memory.scope import Scope

Rows = TypeVar("Rows", bound=ScopedQuerySet[Any])

# No policy allows more of them in one prompt; one more says that there are more.
MOST_LIVE: Final = 200
_ORDER: Final = (SampleKind.RULE, SampleKind.INTENT, SampleKind.EXAMPLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSample:
    """An approved sample as it is stored, and since when it holds."""

    id: str
    kind: str
    name: str
    content: str
    input: str
    output: str
    created_at: datetime
    approved_at: datetime


def with_samples(agents: Rows, *, scope: Scope) -> Rows:
    """Return rows of agents that carry their approved samples and the tenant's as `live_samples`.

    Rules first, then intents, then examples; each kind in the order of approval.
    """
    place = Case(
        *(When(kind=kind, then=Value(number)) for number, kind in enumerate(_ORDER)),
        output_field=IntegerField(),
    )
    rows = BehaviourSample.objects.in_scope(scope).filter(
        Q(agent_id=OuterRef("pk")) | Q(agent_id__isnull=True), status=SampleStatus.APPROVED
    )
    names = ("id", "kind", "name", "content", "input", "output", "created_at")
    row = JSONObject(**{name: F(name) for name in names}, approved_at=F("decided_at"))
    ordered = rows.order_by(place, "decided_at", "id")[:MOST_LIVE]
    return agents.annotate(live_samples=ArraySubquery(ordered.values_list(row)))


def live_samples(agent: object) -> tuple[LiveSample, ...]:
    """Return what `with_samples` gave an agent, in order."""
    rows: list[dict[str, Any]] = getattr(agent, "live_samples", None) or []
    return tuple(
        LiveSample(
            **row
            | {name: datetime.fromisoformat(row[name]) for name in ("created_at", "approved_at")}
        )
        for row in rows
    )
