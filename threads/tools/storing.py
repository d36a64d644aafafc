"""Storing what a succeeded run remembers: through the gate once more, in the run's own transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from governance.items.clearing import Words, clear
from governance.items.items import KIND, Stamp, write_item
from governance.policy_rules import Policy
from memory.errors import CredenceError
from memory.scope import Scope
from memory.store.items import ItemPlace, lock_items
from memory.store.shelves import Owner
from threads.models import Run
from threads.tools.items import TIER
from threads.tools.records import UpsertedItem

ORIGIN: Final = "run"
_CONFIDENCE: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsItems:
    """The items of a run that has ended, its agent's role, and the policy it ran under."""

    run: Run
    role: str
    policy: Policy
    items: Sequence[UpsertedItem] = ()

    @property
    def owner(self) -> Owner:
        """Whose they are: the run's person's."""
        return Owner(end_user_id=self.run.end_user_id)

    @property
    def are_wanted(self) -> bool:
        """Whether there is anything that policy lets a run write."""
        return bool(self.items) and self.policy.is_on("writeback")


def lock_for(*, scope: Scope, kept: RunsItems) -> None:
    """Lock the person's items, before any job is asked for. Cost: a statement, if any."""
    if kept.are_wanted:
        lock_items(scope=scope, owner=kept.owner)


def store_items(*, scope: Scope, kept: RunsItems, now: datetime) -> list[dict[str, Any]]:
    """Store what a run remembers, and return what the trace tells of it: ids and sizes, no text.

    The gate asks for the run's status, whatever the caller thinks of it, and the database again. What
    the gate refuses by now is named as refused. Inside the caller's transaction, which has locked
    the items. Cost: up to fifteen statements an item.
    """
    if not kept.are_wanted:
        return []
    return [_stored(scope, kept, item, now) for item in kept.items]


def _stored(scope: Scope, kept: RunsItems, item: UpsertedItem, now: datetime) -> dict[str, Any]:
    words = Words(key=item.key, title=item.title, content=item.content)
    try:
        cleared = clear(words=words, tier=TIER, policy=kept.policy, run_status=str(kept.run.status))
    except CredenceError as error:
        return {"kind": KIND, "refused": error.code}
    done = write_item(
        scope=scope,
        place=ItemPlace(owner=kept.owner, role=kept.role, category=item.category, key=item.key),
        cleared=cleared,
        stamp=Stamp(
            origin=ORIGIN,
            written_by=scope.principal_id,
            run_id=kept.run.pk,
            confidence=_CONFIDENCE,
        ),
        now=now,
    )
    return {
        "kind": KIND,
        "id": done.item.pk,
        "characters": len(cleared.title.text) + len(cleared.content.text),
        "version": done.item.version,
        "status": str(done.item.status),
        "is_changed": done.is_changed,
    }
