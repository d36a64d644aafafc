"""memory_upsert: items that a run writes, kept in hand until it has succeeded.

Later calls of the same run see them, in grep and search too; nobody else does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from governance.items.clearing import Words, clear
from governance.items.items import guard_key
from governance.items.problems import SimilarKey, SimilarKeyError
from governance.items.similarity import Named, similar_keys
from memory.errors import InvalidInputError
from memory.models import ItemCategory
from memory.retrieval.words import folded, words_of
from memory.store.items import ItemPlace
from memory.store.shelves import Owner
from threads.tools.arguments import Arguments
from threads.tools.records import ToolPlace, ToolRefusedError, ToolResult, UpsertedItem

MOST_ITEMS: Final = 20
CATEGORIES: Final = (ItemCategory.PROGRESS.value, ItemCategory.MEMO.value)
TIER: Final = "observed"
_ENOUGH_WORDS: Final = 0.5
_READ_ONLY: Final = (
    "user_preferences are read-only for you: only the user or staff change them. category is"
    f" {' or '.join(CATEGORIES)}."
)


@dataclass(frozen=True, slots=True)
class _Slot:
    """Where an item of this run will stand; its person and role are the run's."""

    category: str
    key: str


class WrittenItems:
    """What one run has kept so far; the same key again replaces what it said."""

    def __init__(self) -> None:
        """Begin with nothing kept."""
        self._items: dict[_Slot, UpsertedItem] = {}

    @property
    def all(self) -> tuple[UpsertedItem, ...]:
        """The last word under each key, in the order of their first writing."""
        return tuple(self._items.values())

    def upsert(self, place: ToolPlace, arguments: Arguments, now: datetime) -> ToolResult:
        """Take an item in hand, if the gate lets it through and its key drifts from no other.

        Call it with no transaction open: names are compared by what they mean. Cost: two queries
        for a key that is new to the run, the gate, and the comparing.

        Raises:
            ToolRefusedError: It may not be kept; the detail says why, and names a close key.
        """
        if not place.policy.is_on("writeback"):
            raise ToolRefusedError("Nothing is remembered here: the tenant has switched it off.")
        slot = _Slot(_category(arguments.text("category")), arguments.text("key"))
        words = Words(
            key=slot.key, title=arguments.text("title"), content=arguments.text("content")
        )
        try:
            cleared = clear(words=words, tier=TIER, policy=place.policy)
        except InvalidInputError as error:
            raise ToolRefusedError(error.detail) from error
        known = slot in self._items
        if not known:
            self._guard(place, slot, cleared.title.text, now)
        self._items[slot] = UpsertedItem(
            category=slot.category,
            key=slot.key,
            title=cleared.title.text,
            content=cleared.content.text,
        )
        did = "Replaced" if known else "Kept"
        waits = " It waits until a person has looked at it." if cleared.is_held else ""
        text = f"{did} {slot.category}/{slot.key}. It is stored if your answer succeeds.{waits}"
        said = f"{did.lower()} {slot.category}/{slot.key}"
        return ToolResult(text=text, summary=said, candidates=1, kept=1)

    def with_grep(self, result: ToolResult, query: str) -> ToolResult:
        """Return what grep found, with what this run keeps that has the text."""
        parts = [folded(part) for part in query.split("*") if part]
        return self._beside(result, lambda text: _has_in_order(text, parts))

    def with_search(self, result: ToolResult, query: str) -> ToolResult:
        """Return what a search found, with what this run keeps that has half of its words."""
        wanted = frozenset(words_of(query))
        return self._beside(result, lambda text: _share(wanted, text) >= _ENOUGH_WORDS)

    def _beside(self, result: ToolResult, is_hit: Callable[[str], bool]) -> ToolResult:
        hits = [item for item in self.all if is_hit(f"{item.title}\n{item.content}")]
        if not hits:
            return result
        lines = [f"- {item.category}/{item.key} “{item.title}”: {item.content}" for item in hits]
        text = "\n".join(["Kept in this answer, not stored yet:", *lines, "", result.text])
        return result.with_more(text=text, count=len(hits))

    def _guard(self, place: ToolPlace, slot: _Slot, title: str, now: datetime) -> None:
        """Refuse a new key that is close to a stored one, or to one of this run."""
        if len(self._items) >= MOST_ITEMS:
            raise ToolRefusedError(f"One answer may keep at most {MOST_ITEMS} items.")
        least = place.policy.share("similar_key")
        stands = ItemPlace(
            owner=Owner(end_user_id=place.scope.user_id),
            role=place.role,
            category=slot.category,
            key=slot.key,
        )
        try:
            guard_key(scope=place.scope, place=stands, title=title, least=least, now=now)
        except SimilarKeyError as error:
            raise ToolRefusedError(_close(slot.key, error.keys)) from error
        own = [
            Named(key=item.key, title=item.title)
            for item in self.all
            if item.category == slot.category
        ]
        if close := similar_keys(new=Named(key=slot.key, title=title), existing=own, least=least):
            raise ToolRefusedError(_close(slot.key, close))


def _category(given: str) -> str:
    if given == ItemCategory.USER_PREFERENCES:
        raise ToolRefusedError(_READ_ONLY)
    if given not in CATEGORIES:
        raise ToolRefusedError(f"category is {' or '.join(CATEGORIES)}.")
    return given


def _close(key: str, similar: Sequence[SimilarKey]) -> str:
    named = ", ".join(f"{one.key} (“{one.title}”)" for one in similar)
    return f"{key} is close to a key there is: {named}. Write to that one instead."


def _has_in_order(text: str, parts: Sequence[str]) -> bool:
    searched, at = folded(text), 0
    for part in parts:
        at = searched.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def _share(wanted: frozenset[str], text: str) -> float:
    return len(wanted & set(words_of(text))) / len(wanted) if wanted else 0.0
