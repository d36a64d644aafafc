"""The uses of one item: what it was made of, what was made of it, and which answers showed any of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from memory.errors import NotFoundError
from memory.ids import is_id
from memory.rls import scoped_transaction
from threads.uses import answers, made, places
from threads.uses.kinds import PRIVATE, SHARED, prefix_of, word_of
from threads.uses.places import Place
from threads.uses.reach import Reach
from threads.uses.records import Found, Uses

MOST_ANSWERS: Final = 100
_SHOWING: Final = frozenset({"run", "ctx"})
# Clocks of several processes differ a little.
_SKEW: Final = timedelta(minutes=1)
_NOTHING: Final = Found(counts={})


def uses_of(*, reach: Reach, item_id: str, most: int = MOST_ANSWERS) -> Uses:
    """Return the uses of an item, also of one that is gone and was ever shown.

    One transaction. Cost: about ten queries of ids, up to fifty where much was made of it.

    Raises:
        NotFoundError: There is and was none that this tenant has shown, or it is out of reach.
    """
    word = word_of(item_id) if is_id(item_id) else None
    if word is None:
        raise NotFoundError
    with scoped_transaction(reach.scope):
        place = places.find(reach=reach, item_id=item_id)
        shown: tuple[str, ...] = ()
        if prefix_of(item_id) in _SHOWING:
            shown = answers.shown_in(reach=reach, run_id=item_id)
        found, ids = _NOTHING, {item_id}
        if place is not None:
            found = made.made_of(scope=reach.scope, seeds=place.seeds, known=place.above)
            ids = {*place.seeds, *(one.id for one in found.linked)}
        listed, total = answers.answers_to(
            reach=reach,
            ids=ids,
            subject_id=_only_person(place, ids),
            since=place.at - _SKEW if place else None,
            most=most,
        )
    if place is None and not listed and not shown:
        raise NotFoundError
    return Uses(
        item_id=item_id,
        kind=word,
        is_gone=place is None,
        sources=place.sources if place else (),
        made=found,
        answers=listed,
        answers_total=total,
        shown=shown,
    )


def _only_person(place: Place | None, ids: set[str]) -> str | None:
    """Return the only person who can have been shown any of this, if there is one."""
    if place is None or place.end_user_id is None:
        return None
    prefixes = {prefix_of(one) for one in ids}
    if prefixes & SHARED:
        return None
    is_private = prefixes <= PRIVATE or prefix_of(place.id) not in PRIVATE
    return place.end_user_id if is_private else None
