"""What one link of the audit chain covers: its leaves, a page at a time, with the rows behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.core.paginator import Page, Paginator

from governance.models import AuditEntry, AuditLeaf, AuditSeal, Disclosure
from governance.sealing.leaves import disclosure_leaf, entry_leaf
from memory.scope import Scope

ROWS_A_PAGE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedRow:
    """One leaf with the row that it seals.

    Attributes:
        position: Its place under the link's root, from 0.
        entry: The row of the audit log, if it is one and is there.
        disclosure: The row of the book of disclosures, if it is one and is there.
        is_as_sealed: Whether the row says what it said when it was sealed; no where it is gone.
    """

    position: int
    id: str
    entry: AuditEntry | None
    disclosure: Disclosure | None
    is_as_sealed: bool

    @property
    def is_gone(self) -> bool:
        """Say whether there is no such row any more, which nobody of the product can bring about."""
        return self.entry is None and self.disclosure is None

    @property
    def at(self) -> datetime | None:
        """When it happened."""
        row = self.entry or self.disclosure
        return row.at if row else None


def page_of_rows(*, scope: Scope, seal: AuditSeal, number: str | None) -> Page[AuditLeaf]:
    """Return a page of a link's leaves in their order; the first or last for a number that is none.

    Cost: two queries, of which one counts the leaves.
    """
    leaves = AuditLeaf.objects.in_scope(scope).filter(seal_id=seal.pk).order_by("position")
    return Paginator(leaves, ROWS_A_PAGE).get_page(number)


def rows_behind(*, scope: Scope, leaves: Sequence[AuditLeaf]) -> list[SealedRow]:
    """Return the leaves with their rows, each compared with its hash. Cost: two queries."""
    ids = [leaf.pk for leaf in leaves]
    entries = AuditEntry.objects.in_scope(scope).in_bulk(ids)
    disclosures = Disclosure.objects.in_scope(scope).in_bulk(ids)
    return [_row(leaf, entries.get(leaf.pk), disclosures.get(leaf.pk)) for leaf in leaves]


def _row(leaf: AuditLeaf, entry: AuditEntry | None, shown: Disclosure | None) -> SealedRow:
    found = entry_leaf(entry) if entry else disclosure_leaf(shown) if shown else None
    return SealedRow(
        position=leaf.position,
        id=leaf.pk,
        entry=entry,
        disclosure=shown,
        is_as_sealed=found == leaf.leaf_hash,
    )
