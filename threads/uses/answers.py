"""The answers that something was shown to, from the disclosures: they outlive it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final

from governance.models import Disclosure
from memory.querysets import ScopedQuerySet
from threads.uses.reach import Reach
from threads.uses.records import Answer

MOST_SHOWN: Final = 1000


def answers_to(
    *,
    reach: Reach,
    ids: Collection[str],
    subject_id: str | None,
    since: datetime | None,
    most: int,
) -> tuple[tuple[Answer, ...], int]:
    """Return who was shown any of these ids, newest first, and how many there are.

    Inside the caller's transaction. Cost: two queries over the disclosures of the person, by their
    index; where the person is not known or others may have seen it, over all of the tenant.

    Args:
        reach: Whose disclosures.
        ids: The ids.
        subject_id: The only person who can have been shown them.
        since: No earlier ones: what is newer can not have been in them.
        most: How many to return.
    """
    wanted = set(ids)
    rows = _rows(reach).filter(item_ids__overlap=sorted(wanted))
    rows = rows.filter(subject_id=subject_id) if subject_id else rows
    rows = rows.filter(at__gte=since) if since else rows
    newest = list(rows.order_by("-at", "-id")[:most])
    total = len(newest) if len(newest) < most else rows.count()
    return tuple(_answer(row, wanted) for row in newest), total


def shown_in(*, reach: Reach, run_id: str) -> tuple[str, ...]:
    """Return what a run or a context showed, at most a thousand ids. Cost: one query, by index."""
    rows = _rows(reach).filter(run_id=run_id).order_by("at", "id")
    ids = (one for row in rows[:MOST_SHOWN] for one in row.item_ids)
    return tuple(dict.fromkeys(ids))[:MOST_SHOWN]


def _rows(reach: Reach) -> ScopedQuerySet[Disclosure]:
    rows = Disclosure.objects.in_scope(reach.scope)
    return rows.filter(agent_id=reach.agent_id) if reach.agent_id else rows


def _answer(row: Disclosure, wanted: set[str]) -> Answer:
    return Answer(
        kind=row.kind,
        run_id=row.run_id,
        thread_id=row.thread_id,
        agent_id=row.agent_id,
        key_id=row.key_id,
        provider_id=row.provider_id,
        model=row.model,
        through=tuple(one for one in row.item_ids if one in wanted),
        at=row.at,
    )
