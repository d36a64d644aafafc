"""Checking a tenant's chain: every row against its leaf, every leaf, every link, every head.

Streams, so that the length of the log costs time and no memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

from django.db import connection
from django.db.models import Max, Min

from governance.models import AuditEntry, AuditLeaf, AuditPending, AuditSeal, Disclosure
from governance.sealing.heads import Head
from governance.sealing.leaves import disclosure_leaf, entry_leaf, seal_hash
from governance.sealing.merkle import root_of
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope

MOST_PROBLEMS: Final = 200
# Acts take their time before they commit, and write when they began.
TOLERANCE: Final = timedelta(minutes=15)
_BATCH: Final = 2000
_LOOSE: Final = """
    SELECT 'entry', id FROM governance_auditentry row WHERE tenant_id = %(tenant)s
        AND NOT EXISTS (SELECT 1 FROM governance_auditleaf leaf WHERE leaf.id = row.id)
        AND NOT EXISTS (SELECT 1 FROM governance_auditpending waits WHERE waits.id = row.id)
    UNION ALL
    SELECT 'disclosure', id FROM governance_disclosure row WHERE tenant_id = %(tenant)s
        AND NOT EXISTS (SELECT 1 FROM governance_auditleaf leaf WHERE leaf.id = row.id)
        AND NOT EXISTS (SELECT 1 FROM governance_auditpending waits WHERE waits.id = row.id)
    UNION ALL
    SELECT 'pending', id FROM governance_auditpending row WHERE tenant_id = %(tenant)s
        AND NOT EXISTS (SELECT 1 FROM governance_auditentry entry WHERE entry.id = row.id)
        AND NOT EXISTS (SELECT 1 FROM governance_disclosure shown WHERE shown.id = row.id)
    ORDER BY 2 LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainProblem:
    """One thing that does not fit.

    Attributes:
        kind: `row_changed`, `row_missing`, `row_unlisted` (never listed for sealing),
            `row_backdated`, `leaves_changed`, `link_changed`, `link_missing`, `tail_cut`,
            `rewritten`.
        seq: The link it is about, if any.
        id: The row it is about, if any.
    """

    kind: str
    seq: int | None = None
    id: str = ""


@dataclass(slots=True, kw_only=True)
class ChainReport:
    """What was looked at and what does not fit.

    Attributes:
        seals: Links looked at; `sealed` the rows in them.
        unsealed: Rows that wait for their seal, and the time of the oldest.
        problems: At most 200; `problem_count` is their true number but for rows that are in no
            list, of which 200 are counted.
        heads: How many exported heads were compared.
    """

    tenant_id: str
    seals: int = 0
    sealed: int = 0
    unsealed: int = 0
    oldest_unsealed_at: datetime | None = None
    head_seq: int = 0
    head_hash: str = ""
    heads: int = 0
    problem_count: int = 0
    problems: list[ChainProblem] = field(default_factory=list)

    @property
    def is_intact(self) -> bool:
        """Whether everything fits."""
        return self.problem_count == 0

    def note(self, kind: str, *, seq: int | None = None, row_id: str = "") -> None:
        """Take down a problem."""
        self.problem_count += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(ChainProblem(kind=kind, seq=seq, id=row_id))


def verify(*, scope: Scope, heads: Sequence[Head] | None = None) -> ChainReport:
    """Check one tenant's chain from its first link on; changes nothing.

    Links that are made meanwhile are left for the next check. Cost: reads the whole log once, in
    batches, in one transaction of its own.

    Args:
        scope: The tenant's.
        heads: Exported heads to compare with, of any tenant; None compares with none.
    """
    report = ChainReport(tenant_id=scope.tenant_id)
    with scoped_transaction(scope):
        # Each statement sees what was committed before it, so that all look at links up to this.
        top = AuditSeal.objects.in_scope(scope).aggregate(top=Max("seq"))["top"] or 0
        hashes = _check_links(scope, report, top)
        _check_rows(scope, report, top)
        _check_loose(scope, report)
        _count_waiting(scope, report)
    _check_heads(report, hashes, heads or ())
    return report


def _check_links(scope: Scope, report: ChainReport, top: int) -> dict[int, str]:
    """Check each link against the one before and its leaves' root; return the hashes by number."""
    hashes: dict[int, str] = {}
    wanted, previous = 1, ""
    roots = _roots(scope, top)
    leaves_of = next(roots, None)
    seals = AuditSeal.objects.in_scope(scope).filter(seq__lte=top).order_by("seq")
    for seal in seals.iterator(chunk_size=_BATCH):
        report.seals += 1
        if seal.seq != wanted:
            report.note("link_missing", seq=wanted)
        elif seal.previous_hash != previous or seal_hash(seal) != seal.hash:
            report.note("link_changed", seq=seal.seq)
        # Leaves of links that are gone are told by the missing link.
        while leaves_of is not None and leaves_of[0] < seal.seq:
            leaves_of = next(roots, None)
        mine = leaves_of[1] if leaves_of is not None and leaves_of[0] == seal.seq else []
        if not mine or len(mine) != seal.entries or root_of(mine) != seal.root:
            report.note("leaves_changed", seq=seal.seq)
        wanted, previous = seal.seq + 1, seal.hash
        hashes[seal.seq] = seal.hash
        report.head_seq, report.head_hash = seal.seq, seal.hash
    return hashes


def _leaves(scope: Scope, top: int) -> ScopedQuerySet[AuditLeaf]:
    rows = AuditLeaf.objects.in_scope(scope).filter(seal__seq__lte=top)
    return rows.order_by("seal__seq", "position")


def _roots(scope: Scope, top: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the leaves of each link, in the order of links and places."""
    rows = _leaves(scope, top)
    pairs = rows.values_list("seal__seq", "leaf_hash").iterator(chunk_size=_BATCH)
    seq, mine = 0, list[str]()
    for number, leaf in pairs:
        if number != seq and mine:
            yield seq, mine
            mine = []
        seq = number
        mine.append(leaf)
    if mine:
        yield seq, mine


def _check_rows(scope: Scope, report: ChainReport, top: int) -> None:
    """Check each sealed row against its leaf, and its time against the rows of links before."""
    latest: datetime | None = None
    link, in_link = 0, latest
    stream = _leaves(scope, top).select_related("seal").iterator(chunk_size=_BATCH)
    while batch := list(islice(stream, _BATCH)):
        rows = _rows(scope, [leaf.pk for leaf in batch])
        for leaf in batch:
            report.sealed += 1
            found = rows.get(leaf.pk)
            if found is None:
                report.note("row_missing", seq=leaf.seal.seq, row_id=leaf.pk)
                continue
            at, now_hash = found
            if now_hash != leaf.leaf_hash:
                report.note("row_changed", seq=leaf.seal.seq, row_id=leaf.pk)
                continue
            if leaf.seal.seq != link:
                link, latest = leaf.seal.seq, _later(latest, in_link)
            if latest is not None and at < latest - TOLERANCE:
                report.note("row_backdated", seq=leaf.seal.seq, row_id=leaf.pk)
            if at <= leaf.seal.sealed_at + TOLERANCE:
                in_link = _later(in_link, at)


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((at for at in (one, other) if at is not None), default=None)


def _rows(scope: Scope, ids: Sequence[str]) -> dict[str, tuple[datetime, str]]:
    """Return time and leaf, as they are now, of the rows that are there."""
    entries: Iterable[AuditEntry] = AuditEntry.objects.in_scope(scope).filter(pk__in=ids)
    shown: Iterable[Disclosure] = Disclosure.objects.in_scope(scope).filter(pk__in=ids)
    found = {entry.pk: (entry.at, entry_leaf(entry)) for entry in entries}
    return found | {one.pk: (one.at, disclosure_leaf(one)) for one in shown}


def _check_loose(scope: Scope, report: ChainReport) -> None:
    """Find rows that are in no list, and listed rows that are gone."""
    values: dict[str, Any] = {"tenant": scope.tenant_id, "most": MOST_PROBLEMS}
    with connection.cursor() as cursor:
        cursor.execute(_LOOSE, values)
        for kind, row_id in cursor.fetchall():
            report.note("row_missing" if kind == "pending" else "row_unlisted", row_id=row_id)


def _count_waiting(scope: Scope, report: ChainReport) -> None:
    waiting = AuditPending.objects.in_scope(scope)
    report.unsealed = waiting.count()
    if not report.unsealed:
        return
    ids = waiting.values("pk")
    oldest = [
        rows.filter(pk__in=ids).aggregate(oldest=Min("at"))["oldest"]
        for rows in (AuditEntry.objects.in_scope(scope), Disclosure.objects.in_scope(scope))
    ]
    report.oldest_unsealed_at = min((at for at in oldest if at is not None), default=None)


def _check_heads(report: ChainReport, hashes: dict[int, str], heads: Sequence[Head]) -> None:
    """Compare with heads that were exported: what they saw must still be there."""
    for head in heads:
        if head.tenant_id != report.tenant_id:
            continue
        report.heads += 1
        if head.seq > report.head_seq:
            report.note("tail_cut", seq=head.seq)
        elif hashes.get(head.seq) not in (None, head.hash):
            report.note("rewritten", seq=head.seq)
