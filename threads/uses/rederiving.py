"""Making anew what was derived from a turn or a thread, without what somebody decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from governance import audit
from governance.erasure.holds import active_hold
from governance.erasure.problems import LegalHoldError
from memory.errors import ConflictError, NotFoundError
from memory.ids import is_id
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.forgetting.rebuilding import drop_derived
from threads.models import Run
from threads.uses import made, places
from threads.uses.kinds import KINDS, prefix_of
from threads.uses.places import Place
from threads.uses.reach import Reach
from threads.uses.records import Linked

_REDERIVABLE: Final = frozenset({"run", "msg", "th"})
# What a person decided, or wrote, or a run was told to keep: it is told, and stays.
_LEFT: Final = frozenset(
    "fact core_candidate item item_version correction entity_candidate entity document artifact"
    "".split()
)


class NotRederivableError(ConflictError):
    """Only what is derived from a run, a message or a thread can be made anew."""

    code = "not_rederivable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rederived:
    """What went and is asked for anew, by name, and what was left because somebody decided it."""

    item_id: str
    thread_id: str
    dropped: Mapping[str, int]
    left: tuple[Linked, ...]


def rederive(*, reach: Reach, item_id: str, now: datetime) -> Rederived:
    """Drop what was derived from an item, and ask for the jobs that make it anew; audited.

    The same again drops what was made meanwhile. One transaction; about fifty statements.

    Raises:
        NotFoundError: It is gone, unknown or out of reach.
        NotRederivableError: It is no run, message or thread.
        LegalHoldError: Nothing of its person may go for now.
    """
    if not is_id(item_id) or prefix_of(item_id) not in KINDS:
        raise NotFoundError
    with scoped_transaction(reach.scope):
        place = places.find(reach=reach, item_id=item_id)
        if place is None:
            raise NotFoundError
        thread = place.thread
        if prefix_of(item_id) not in _REDERIVABLE or thread is None:
            raise NotRederivableError
        scope = reach.scope.narrowed(user_id=thread.end_user_id)
        if active_hold(scope=scope, subject_id=thread.end_user_id) is not None:
            raise LegalHoldError
        runs = _runs(place)
        with scoped_transaction(scope):
            dropped = drop_derived(scope=scope, thread_id=thread.pk, run_ids=runs, now=now)
        found = made.made_of(scope=reach.scope, seeds=_seeds(reach.scope, place, runs))
        left = tuple(one for one in found.linked if one.kind in _LEFT)
        audit.record(
            scope=reach.scope,
            action="rederived",
            target_kind=KINDS[prefix_of(item_id)].word,
            target_id=item_id,
            now=now,
            detail={**dropped, "left": len(left)},
        )
    counts = {name: count for name, count in dropped.items() if count}
    return Rederived(item_id=item_id, thread_id=thread.pk, dropped=counts, left=left)


def _runs(place: Place) -> list[str] | None:
    """Return the runs whose derived rows go; None for the whole thread."""
    if prefix_of(place.id) == "th":
        return None
    return [one for one in place.seeds if prefix_of(one) == "run"]


def _seeds(scope: Scope, place: Place, runs: Sequence[str] | None) -> list[str]:
    if runs is not None:
        return list(place.seeds)
    rows = Run.objects.in_scope(scope).filter(thread_id=place.id)
    return list(rows.order_by("-seq").values_list("pk", flat=True)[: made.MOST])
