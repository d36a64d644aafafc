"""An item's words through the gate: what of them may be kept, or why not. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NoReturn

import re2

from governance import gate
from governance.items.problems import (
    BadKeyError,
    BlockedByRedLineError,
    BlockedPiiError,
    EmptyItemError,
    ItemTooLongError,
    NotSucceededError,
)
from governance.items.similarity import key_and_title
from governance.policy_rules import Policy
from governance.secrets import strip_secrets
from memory.cleared import Cleared

MOST_KEY_CHARACTERS: Final = 64
MOST_TITLE_CHARACTERS: Final = 200
MOST_CONTENT_CHARACTERS: Final = 500
_KEY: Final = re2.compile(r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$")
_WORDS: Final = re2.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What an item is to say, as it came in."""

    key: str
    title: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearedItem:
    """What the gate let through of an item.

    Attributes:
        key_folded: Key and title as the guard compares them.
        tier: That of the weakest of its three texts.
        is_held: Whether a person has to look at one of them first.
    """

    title: Cleared
    content: Cleared
    key_folded: str
    tier: str
    is_held: bool


def check_key(key: str) -> None:
    """Let pass a key in snake_case.

    Raises:
        BadKeyError: It is none; the detail has the nearest form that is.
    """
    if len(key) <= MOST_KEY_CHARACTERS and _KEY.match(key):
        return
    words = [word.lower() for word in _WORDS.findall(key)]
    hint = "_".join(words).lstrip("0123456789_")[:MOST_KEY_CHARACTERS].rstrip("_")
    raise BadKeyError(
        "A key is snake_case: a-z, 0-9 and single _ between words, beginning with a letter, at most"
        f" {MOST_KEY_CHARACTERS} characters, such as {hint or 'standard_japanese'}.",
        field="key",
    )


def clear(
    *, words: Words, tier: str, policy: Policy | None, run_status: str | None = None
) -> ClearedItem:
    """Return what of an item may be kept. Cost: the gate, four times; about 0.3 ms.

    Raises:
        BadKeyError: The key is not snake_case, or holds what may not be kept.
        ItemTooLongError: The content has over 500 characters after the gate, the title over 200.
        EmptyItemError: Nothing is left of one of them.
        BlockedByRedLineError: A text is beyond a red line.
        BlockedPiiError: Policy forbids something personal in it.
        NotSucceededError: The run has not succeeded.
    """
    check_key(words.key)
    key = _clear_key(words.key, tier, policy, run_status)
    line = " ".join(words.title.split())
    title = _admitted(line, "title", MOST_TITLE_CHARACTERS, tier, policy, run_status)
    content = _admitted(words.content, "content", MOST_CONTENT_CHARACTERS, tier, policy, run_status)
    parts = (key, title, content)
    weakest = gate.UNTRUSTED if any(part.tier == gate.UNTRUSTED for part in parts) else tier
    return ClearedItem(
        title=replace(title, tier=weakest),
        content=replace(content, tier=weakest),
        key_folded=key_and_title(key=words.key, title=title.text),
        tier=weakest,
        is_held=any(part.is_held for part in parts),
    )


def _clear_key(key: str, tier: str, policy: Policy | None, run_status: str | None) -> Cleared:
    """Return a key that holds nothing it may not, read with its underscores and as words."""
    spoken = _admitted(key.replace("_", " "), "key", MOST_KEY_CHARACTERS, tier, policy, run_status)
    whole = _admitted(key, "key", MOST_KEY_CHARACTERS, tier, policy, run_status)
    parts = key.split("_")
    tails = ("_".join(parts[place:]) for place in range(len(parts)))
    is_kept = whole.text == key and spoken.text == key.replace("_", " ")
    if not is_kept or any(strip_secrets(tail).kinds for tail in tails):
        raise BadKeyError("A key holds no secret and no number of a person.", field="key")
    return whole if whole.tier == gate.UNTRUSTED else spoken


def _admitted(
    text: str, field: str, most: int, tier: str, policy: Policy | None, run_status: str | None
) -> Cleared:
    found = gate.admit(
        text=text,
        tier=tier,
        policy=policy,
        most_characters=most,
        redlines="block",
        run_status=run_status,
    )
    return found if isinstance(found, Cleared) else _refuse(found, field)


def _refuse(blocked: gate.Blocked, field: str) -> NoReturn:
    if blocked.reason == "too_long":
        raise ItemTooLongError(field=field)
    if blocked.reason == "redline":
        kinds = ", ".join(blocked.kinds)
        raise BlockedByRedLineError(f"This text is beyond a red line ({kinds}).", field=field)
    if blocked.reason == "pii":
        kinds = ", ".join(blocked.kinds)
        raise BlockedPiiError(f"Policy forbids to remember this: {kinds}.", field=field)
    if blocked.reason == "run_not_succeeded":
        raise NotSucceededError
    raise EmptyItemError(field=field)
