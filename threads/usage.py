"""What a tenant used: runs and the model calls made for memory, counted apart and added up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from django.contrib.postgres.fields import ArrayField
from django.db.models import (
    Aggregate,
    CharField,
    Count,
    Expression,
    F,
    Func,
    IntegerField,
    Q,
    Sum,
    Value,
)
from django.db.models.functions import Cast, Coalesce, Concat, TruncDate

from governance import access
from governance.access import Principal
from memory.models import MemoryOp
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.models import KeptUsage, Run, RunOrigin

GROUPS: Final = ("day", "agent", "kind")
RUN_KIND: Final = "run"
_NONE: Final = "none"
_BETWEEN: Final = "|"
_MADE: Final = "made"
_WORKED: Final = "worked"
# Where one class of length ends and the next begins, in tokens that a call read.
LENGTHS: Final = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
_NUMBERS: Final = ("n", "tokens_in", "tokens_out", "usd")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DayUsage:
    """One day's usage (UTC).

    Attributes:
        by_length: Of the calls made for memory: (kind, class of LENGTHS from 0) to its figures.
    """

    runs: Figures = field(default_factory=Figures)
    by_length: Mapping[tuple[str, int], Figures] = field(default_factory=dict)


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
    one statement over the period.
    """
    scope = access.tenant_scope(principal)
    books = _books(scope, from_at=from_at, to_at=to_at, agent_id=principal.agent_id)
    by_runs: dict[str, Figures] = {}
    by_ops: dict[str, Figures] = {}
    run_key, kept_key, op_key = _keys(group_by)
    lines = [_line(books.runs, _MADE, run_key), _line(books.ops, _WORKED, op_key)]
    # Sums are nobody's: a key of one person sees what that person used, which is none of them.
    if principal.end_user_id is None:
        lines.append(_line(books.kept, _MADE, kept_key, count=Sum("runs")))
    with scoped_transaction(scope):
        for side, key, figures in _read(lines):
            found = by_runs if side == _MADE else by_ops
            found[key] = found.get(key, Figures()) + figures
    keys = sorted({*by_runs, *by_ops})
    rows = tuple(
        UsageRow(key=key, runs=by_runs.get(key, Figures()), memory_ops=by_ops.get(key, Figures()))
        for key in keys
    )
    return UsageReport(results=rows, total=_total(rows))


def daily(*, scope: Scope, first: date, last: date) -> dict[date, DayUsage]:
    """Return what a tenant used on each day from `first` to `last`; a day without use is missing.

    The figures are those of `report`. Inside the caller's transaction of that scope. Cost: one
    statement over the period.
    """
    from_at = datetime.combine(first, time(0), tzinfo=UTC)
    to_at = datetime.combine(last + timedelta(days=1), time(0), tzinfo=UTC)
    books = _books(scope, from_at=from_at, to_at=to_at)
    run_key, kept_key, op_key = _keys("day")
    length = Func(
        F("input_tokens"),
        Cast(Value(list(LENGTHS)), ArrayField(IntegerField())),
        function="width_bucket",
        output_field=IntegerField(),
    )
    by_length = Concat(op_key, Value(_BETWEEN), F("kind"), Value(_BETWEEN), _as_text(length))
    found: dict[date, DayUsage] = {}
    lines = [
        _line(books.runs, _MADE, run_key),
        _line(books.kept, _MADE, kept_key, count=Sum("runs")),
        _line(books.ops, _WORKED, by_length),
    ]
    for side, key, figures in _read(lines):
        day, _, rest = key.partition(_BETWEEN)
        at = date.fromisoformat(day)
        known = found.get(at, DayUsage())
        if side == _MADE:
            found[at] = replace(known, runs=known.runs + figures)
        else:
            kind, _, bucket = rest.partition(_BETWEEN)
            found[at] = replace(known, by_length={**known.by_length, (kind, int(bucket)): figures})
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Books:
    """What is counted: runs that Credence made, sums of erased ones, calls made for memory."""

    runs: ScopedQuerySet[Run]
    kept: ScopedQuerySet[KeptUsage]
    ops: ScopedQuerySet[MemoryOp]


def _books(
    scope: Scope,
    *,
    from_at: datetime | None,
    to_at: datetime | None,
    agent_id: str | None = None,
) -> _Books:
    of_agent = Q() if agent_id is None else Q(agent_id=agent_id)
    runs = Run.objects.in_scope(scope).filter(of_agent, origin=RunOrigin.RUN)
    ops = MemoryOp.objects.in_scope(scope).filter(of_agent)
    kept = KeptUsage.objects.in_scope(scope).filter(of_agent)
    return _Books(
        runs=runs.filter(_within("created_at", from_at, to_at)),
        kept=kept.filter(_whole_days(from_at, to_at)),
        ops=ops.filter(_within("at", from_at, to_at)),
    )


def _keys(group_by: str) -> tuple[Expression, Expression, Expression]:
    """Return what runs, sums of erased ones and calls are grouped by, as text."""
    run: Any = {"day": TruncDate("created_at", tzinfo=UTC), "agent": F("agent_id")}
    op: Any = {"day": TruncDate("at", tzinfo=UTC), "agent": F("agent_id")}
    kept: Any = {"day": F("day"), "agent": F("agent_id")}
    made = Value(RUN_KIND)
    return (
        _as_text(run.get(group_by, made)),
        _as_text(kept.get(group_by, made)),
        _as_text(op.get(group_by, F("kind"))),
    )


def _as_text(key: Any) -> Expression:
    return Coalesce(Cast(key, CharField()), Value(_NONE), output_field=CharField())


def _line(
    rows: ScopedQuerySet[Any], side: str, key: Expression, *, count: Aggregate | None = None
) -> ScopedQuerySet[Any]:
    """Return the sums of some rows by key, in the columns of every other line."""
    sums = {**_SUMS, "n": count} if count is not None else _SUMS
    named = rows.annotate(side=Value(side, output_field=CharField()), usage_key=key)
    grouped: Any = named.values("side", "usage_key").annotate(**sums).order_by()
    return grouped.values_list("side", "usage_key", *_NUMBERS)  # type: ignore[no-any-return]


def _read(lines: Sequence[ScopedQuerySet[Any]]) -> Iterator[tuple[str, str, Figures]]:
    first, *rest = lines
    for side, key, count, tokens_in, tokens_out, usd in first.union(*rest, all=True):
        yield (
            side,
            key,
            Figures(
                count=count or 0,
                input_tokens=tokens_in or 0,
                output_tokens=tokens_out or 0,
                cost_usd=usd or Decimal(0),
            ),
        )


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


def _total(rows: Iterable[UsageRow]) -> UsageRow:
    runs, ops = Figures(), Figures()
    for row in rows:
        runs, ops = runs + row.runs, ops + row.memory_ops
    return UsageRow(key="total", runs=runs, memory_ops=ops)
