"""What a tenant used: runs and the model calls made for memory, counted apart and added up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from django.db.models import Aggregate, Count, F, Q, Sum, Value
from django.db.models.functions import TruncDate

from governance import access
from governance.access import Principal
from memory.models import MemoryOp
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from threads.models import KeptUsage, Run, RunOrigin

GROUPS: Final = ("day", "agent", "kind")
RUN_KIND: Final = "run"
_SUMS: Final = {
    "n": Count("pk"),
    "tokens_in": Sum("input_tokens"),
    "tokens_out": Sum("output_tokens"),
    "usd": Sum("cost_usd"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Calls, their tokens as the providers counted them, and their cost in USD."""

    count: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = Decimal(0)

    def __add__(self, other: Figures) -> Figures:
        """Return both together."""
        return Figures(
            count=self.count + other.count,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=self.cost_usd + other.cost_usd,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """One group's usage; `key` is a day (UTC), an agent's id, or `run` and the kinds of work."""

    key: str
    runs: Figures = field(default_factory=Figures)
    memory_ops: Figures = field(default_factory=Figures)

    @property
    def total_usd(self) -> Decimal:
        """What both cost together."""
        return self.runs.cost_usd + self.memory_ops.cost_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """Usage by group, and all of it."""

    results: tuple[UsageRow, ...]
    total: UsageRow


def report(
    *,
    principal: Principal,
    group_by: str = "day",
    from_at: datetime | None = None,
    to_at: datetime | None = None,
) -> UsageReport:
    """Return what was used from `from_at` to before `to_at`; unnamed ends are open.

    Only runs that Credence made count; recorded and imported turns cost nothing. Of runs that were
    erased the sums of each day are left: they count where the whole day lies in the period. Cost:
    three aggregates over the period.
    """
    scope = access.tenant_scope(principal)
    runs = Run.objects.in_scope(scope).filter(origin=RunOrigin.RUN)
    ops = MemoryOp.objects.in_scope(scope)
    # Sums are nobody's: a key of one person sees what that person used, which is none of them.
    kept = KeptUsage.objects.in_scope(scope)
    kept = kept.none() if principal.end_user_id is not None else kept
    if principal.agent_id is not None:
        runs, ops, kept = (
            runs.filter(agent_id=principal.agent_id),
            ops.filter(agent_id=principal.agent_id),
            kept.filter(agent_id=principal.agent_id),
        )
    runs = runs.filter(_within("created_at", from_at, to_at))
    ops = ops.filter(_within("at", from_at, to_at))
    kept = kept.filter(_whole_days(from_at, to_at))
    run_key = {"day": TruncDate("created_at", tzinfo=UTC), "agent": F("agent_id")}
    op_key = {"day": TruncDate("at", tzinfo=UTC), "agent": F("agent_id")}
    kept_key = {"day": F("day"), "agent": F("agent_id")}
    with scoped_transaction(scope):
        by_runs = _added(
            _grouped(runs, run_key.get(group_by, Value(RUN_KIND))),
            _grouped(kept, kept_key.get(group_by, Value(RUN_KIND)), count=Sum("runs")),
        )
        by_ops = _grouped(ops, op_key.get(group_by, F("kind")))
    keys = sorted({*by_runs, *by_ops})
    rows = tuple(
        UsageRow(key=key, runs=by_runs.get(key, Figures()), memory_ops=by_ops.get(key, Figures()))
        for key in keys
    )
    return UsageReport(results=rows, total=_total(rows))


def _within(column: str, from_at: datetime | None, to_at: datetime | None) -> Q:
    wanted = Q()
    if from_at is not None:
        wanted &= Q(**{f"{column}__gte": from_at})
    if to_at is not None:
        wanted &= Q(**{f"{column}__lt": to_at})
    return wanted


def _whole_days(from_at: datetime | None, to_at: datetime | None) -> Q:
    """Return which days (UTC) lie in the period from their first moment to their last."""
    wanted = Q()
    if from_at is not None:
        first = from_at.astimezone(UTC)
        is_midnight = first.time() == time(0)
        wanted &= Q(day__gte=first.date() if is_midnight else first.date() + timedelta(days=1))
    if to_at is not None:
        wanted &= Q(day__lt=to_at.astimezone(UTC).date())
    return wanted


def _added(some: dict[str, Figures], more: dict[str, Figures]) -> dict[str, Figures]:
    keys = {*some, *more}
    return {key: some.get(key, Figures()) + more.get(key, Figures()) for key in keys}


def _grouped(
    rows: ScopedQuerySet[Any], key: Any, *, count: Aggregate | None = None
) -> dict[str, Figures]:
    sums = {**_SUMS, "n": count} if count is not None else _SUMS
    found = rows.annotate(usage_key=key).values("usage_key").annotate(**sums).order_by("usage_key")
    return {
        _word(row["usage_key"]): Figures(
            count=row["n"] or 0,
            input_tokens=row["tokens_in"] or 0,
            output_tokens=row["tokens_out"] or 0,
            cost_usd=row["usd"] or Decimal(0),
        )
        for row in found
    }


def _word(key: date | str | None) -> str:
    return key.isoformat() if isinstance(key, date) else str(key or "none")


def _total(rows: Iterable[UsageRow]) -> UsageRow:
    runs, ops = Figures(), Figures()
    for row in rows:
        runs, ops = runs + row.runs, ops + row.memory_ops
    return UsageRow(key="total", runs=runs, memory_ops=ops)
