"""One day of a tenant in figures, and how it is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal

from threads.models import DayFigures
from threads.usage import Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What of their threads' past succeeded runs were sent, in estimated tokens.

    Attributes:
        runs: Those whose account tells.
        whole_tokens: What all earlier turns of the thread, word for word, would have cost them.
        past_tokens: What their prompts held of it: summary, skeleton, verbatim turns.
    """

    runs: int = 0
    whole_tokens: int = 0
    past_tokens: int = 0

    @property
    def saved_tokens(self) -> int:
        """What was not sent; below 0 where short threads cost their frame."""
        return self.whole_tokens - self.past_tokens

    def __add__(self, other: History) -> History:
        """Return both together."""
        return History(
            runs=self.runs + other.runs,
            whole_tokens=self.whole_tokens + other.whole_tokens,
            past_tokens=self.past_tokens + other.past_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """The figures of one day (UTC), or of several added up.

    Attributes:
        runs: What runs used, those erased since among them.
        outcomes: (status, error code or nothing) to runs that are still there.
        latencies: Class of `threads.figures.latencies` to succeeded runs.
        by_length: (kind, class of `threads.usage.LENGTHS`) to calls made for memory.
    """

    runs: Figures = field(default_factory=Figures)
    outcomes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    latencies: Mapping[int, int] = field(default_factory=dict)
    history: History = field(default_factory=History)
    by_length: Mapping[tuple[str, int], Figures] = field(default_factory=dict)

    @property
    def memory_ops(self) -> Figures:
        """What the calls made for memory used."""
        return sum(self.by_length.values(), Figures())

    @property
    def erased_runs(self) -> int:
        """How many runs were erased since: they count, but nobody knows how they ended."""
        return max(self.runs.count - sum(self.outcomes.values()), 0)

    def by_status(self) -> Mapping[str, int]:
        """Return status to runs."""
        found: Counter[str] = Counter()
        for (status, _), count in self.outcomes.items():
            found[status] += count
        return found


def added(days: Iterable[Day]) -> Day:
    """Return days added up. Pure; linear."""
    runs, history = Figures(), History()
    outcomes: Counter[tuple[str, str]] = Counter()
    latencies: Counter[int] = Counter()
    by_length: dict[tuple[str, int], Figures] = {}
    for day in days:
        runs, history = runs + day.runs, history + day.history
        outcomes.update(day.outcomes)
        latencies.update(day.latencies)
        for key, figures in day.by_length.items():
            by_length[key] = by_length.get(key, Figures()) + figures
    return Day(
        runs=runs, outcomes=outcomes, latencies=latencies, history=history, by_length=by_length
    )


def as_row(*, tenant_id: str, day: date, figures: Day, now: datetime) -> DayFigures:
    """Return a day as it is stored."""
    return DayFigures(
        tenant_id=tenant_id,
        day=day,
        runs=figures.runs.count,
        input_tokens=figures.runs.input_tokens,
        output_tokens=figures.runs.output_tokens,
        cost_usd=figures.runs.cost_usd,
        outcomes=[[*key, count] for key, count in sorted(figures.outcomes.items())],
        latencies=[[bucket, count] for bucket, count in sorted(figures.latencies.items())],
        accounted_runs=figures.history.runs,
        whole_tokens=figures.history.whole_tokens,
        past_tokens=figures.history.past_tokens,
        memory_ops=[
            [*key, one.count, one.input_tokens, one.output_tokens, str(one.cost_usd)]
            for key, one in sorted(figures.by_length.items())
        ],
        created_at=now,
    )


def from_row(row: DayFigures) -> Day:
    """Return what was stored of a day."""
    return Day(
        runs=Figures(
            count=row.runs,
            input_tokens=row.input_tokens,
            output_tokens=row.output_tokens,
            cost_usd=row.cost_usd,
        ),
        outcomes={(status, code): count for status, code, count in row.outcomes},
        latencies=dict(row.latencies),
        history=History(
            runs=row.accounted_runs,
            whole_tokens=row.whole_tokens,
            past_tokens=row.past_tokens,
        ),
        by_length={
            (kind, length): Figures(
                count=count, input_tokens=sent, output_tokens=got, cost_usd=Decimal(usd)
            )
            for kind, length, count, sent, got, usd in row.memory_ops
        },
    )
