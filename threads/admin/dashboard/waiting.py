"""What waits for a person, and what of the work behind the scenes is late: counts and oldest ages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.db.models import CharField, Count, Min, Model, Q, Value
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from governance.admin.staff import scope_for
from governance.models import BulkDecision, CoreCandidate, EntityCandidate, Erasure
from governance.permissions import Permission
from memory.models import BehaviourSample, EntityMerge, Job, KnowledgeDocument, MemoryItem
from memory.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Rows of one table in some states.

    Attributes:
        name: Short word, unique.
        where: The list's filter that shows them, as the address has it.
        since: The column that says since when a row waits.
        permission: Who may know how many there are.
    """

    name: str
    title: str | Promise
    model: type[Model]
    rows: Q
    where: Mapping[str, str]
    since: str = "created_at"
    permission: Permission = Permission.VIEW


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How many rows of a queue there are, the oldest one's moment, and the way to them."""

    queue: Queue
    count: int
    oldest_at: datetime | None
    url: str


def _in_state(status: str) -> dict[str, Any]:
    return {"rows": Q(status=status), "where": {"status__exact": status}}


DECISIONS: Final[tuple[Queue, ...]] = (
    Queue(name="core", title=_("core candidates"), model=CoreCandidate, **_in_state("pending")),
    Queue(
        name="entity", title=_("entity candidates"), model=EntityCandidate, **_in_state("pending")
    ),
    Queue(
        name="document", title=_("knowledge documents"), model=KnowledgeDocument,
        **_in_state("pending"),
    ),
    Queue(
        name="sample", title=_("behaviour samples"), model=BehaviourSample, **_in_state("pending")
    ),
    Queue(name="item", title=_("held memory items"), model=MemoryItem, **_in_state("held")),
    Queue(
        name="merge", title=_("merges of entities"), model=EntityMerge, **_in_state("proposed")
    ),
)  # fmt: skip
WORK: Final[tuple[Queue, ...]] = (
    Queue(name="dead", title=_("dead jobs"), model=Job, **_in_state("dead")),
    Queue(
        name="bulk", title=_("bulk decisions at work"), model=BulkDecision, **_in_state("ready")
    ),
    Queue(
        name="erasing", title=_("erasures not done"), model=Erasure,
        rows=~Q(status="done"), where={}, permission=Permission.ERASE,
    ),
    Queue(
        name="unverified", title=_("erasures done, not verified yet"), model=Erasure,
        rows=Q(status="done", verified="pending"),
        where={"status__exact": "done", "verified__exact": "pending"}, permission=Permission.ERASE,
    ),
    Queue(
        name="found", title=_("erasures that left something"), model=Erasure,
        rows=Q(verified="false"), where={"verified__exact": "false"}, permission=Permission.ERASE,
    ),
)  # fmt: skip
DUE: Final = "due"


def count_waiting(
    *, request: HttpRequest, scope: Scope, now: datetime
) -> tuple[Mapping[str, Waiting], datetime | None]:
    """Return each queue the member of staff may know of, and since when the oldest due job waits.

    Cost: one statement.

    Args:
        request: Whose grants count.
        scope: The tenant's.
        now: What a job's time is held against.
    """
    queues = [queue for queue in (*DECISIONS, *WORK) if _may(request, queue, scope)]
    due = Job.objects.in_scope(scope).filter(status="ready", not_before__lte=now)
    lines = [_line(due, DUE, "not_before"), *(_line_of(queue, scope) for queue in queues)]
    first, *rest = lines
    found = {name: (count, oldest) for name, count, oldest in first.union(*rest, all=True)}
    told = {
        queue.name: Waiting(
            queue=queue,
            count=found.get(queue.name, (0, None))[0],
            oldest_at=found.get(queue.name, (0, None))[1],
            url=url_of(queue, scope.tenant_id),
        )
        for queue in queues
    }
    return told, found.get(DUE, (0, None))[1]


def url_of(queue: Queue, tenant_id: str) -> str:
    """Return the list that shows a queue of a tenant."""
    options = queue.model._meta
    base = reverse(f"admin:{options.app_label}_{options.model_name}_changelist")
    return f"{base}?{urlencode({**queue.where, 'tenant__id__exact': tenant_id})}"


def _may(request: HttpRequest, queue: Queue, scope: Scope) -> bool:
    granted = scope_for(request, queue.permission)
    return granted is not None and scope.tenant_id in granted.tenant_ids


def _line_of(queue: Queue, scope: Scope) -> Any:
    manager: Any = queue.model._default_manager
    return _line(manager.in_scope(scope).filter(queue.rows), queue.name, queue.since)


def _line(rows: Any, name: str, since: str) -> Any:
    named = rows.order_by().annotate(queue=Value(name, output_field=CharField())).values("queue")
    counted = named.annotate(number=Count("pk"), oldest=Min(since))
    return counted.values_list("queue", "number", "oldest")


def of(told: Mapping[str, Waiting], queues: tuple[Queue, ...]) -> Iterator[Waiting]:
    """Yield what is told of these queues, in their order."""
    return (told[queue.name] for queue in queues if queue.name in told)
