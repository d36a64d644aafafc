"""Takes secrets out of a text before it is written anywhere for the first time.

Tokens, cookies, keys, passwords and one-time codes become `[secret:kind]`. What is left of the
text is untouched. What is encoded once (percent, HTML, JSON escapes, base64) is seen too. Not
covered: secrets encoded twice, split over messages, or written out in words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from governance.secrets.rules import BOOK, CHECKS, KINDS, PREFIX_START, PREFIXED, SPLIT_BOOK
from governance.secrets.shapes import is_random
from memory.sanitize.decoding import decoded
from memory.sanitize.folding import Shadow, fold
from memory.sanitize.patterns import Hit

_HEAD_OF_MARK = "[secret:"
# Secrets glued to each other show only when the one before has gone; a few rounds see them all.
_MAX_ROUNDS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Stripped:
    """A text without its secrets, and the sorted kinds of what was taken out."""

    text: str
    kinds: tuple[str, ...]


def strip_secrets(text: str) -> Stripped:
    """Return `text` with every secret replaced by `[secret:kind]`; idempotent, linear.

    Finds them glued to Chinese text, in full-width letters, with invisible characters inside, and
    keys with a known prefix also across one line break.
    """
    kinds: set[str] = set()
    for _ in range(_MAX_ROUNDS):
        stripped, found = _strip_once(text)
        kinds |= found
        if stripped == text:
            break
        text = stripped
    return Stripped(text=text, kinds=tuple(sorted(kinds)))


def _strip_once(text: str) -> tuple[str, set[str]]:
    """Return `text` without the secrets that can be seen in it now, and their kinds."""
    shadow = fold(text)
    spans = [*_found(shadow), *_found_encoded(shadow)]
    found = sorted(spans, key=lambda span: (span[0], -span[1]))
    pieces: list[str] = []
    kinds: set[str] = set()
    position = 0
    for first, last, kind in found:
        start, end = shadow.span(start=first, end=last)
        if start < position:
            position = max(position, end)
            continue
        pieces += (text[position:start], f"{_HEAD_OF_MARK}{kind}]")
        kinds.add(kind)
        position = end
    pieces.append(text[position:])
    return "".join(pieces), kinds


def _found_encoded(shadow: Shadow) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, kind) on the shadow of the secrets that an encoding hides."""
    view = decoded(shadow.text)
    if view is None:
        return
    for start, end, kind in _hits(view.text):
        yield *view.span(start=start, end=end), kind


def _found(shadow: Shadow) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, kind) on the shadow of everything that is a secret."""
    yield from _hits(shadow.text)
    if "\n" in shadow.text:
        for hit in SPLIT_BOOK.hits(shadow.text):
            if _is_split_key(shadow, hit):
                yield hit.start, hit.end, KINDS.get(hit.name, hit.name)


def _hits(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, kind) of everything in a folded text that is a secret in one piece."""
    for hit in BOOK.hits(text):
        start, end = hit.groups.get("v", (hit.start, hit.end))
        value = text[start:end]
        if _HEAD_OF_MARK not in value and _is_secret(hit, value):
            yield start, end, KINDS.get(hit.name, hit.name)


def _is_secret(hit: Hit, value: str) -> bool:
    """Say whether the value of a hit is one and not a word of the sentence."""
    # "密码是qwerty。" ends with the word, "密码是 string 类型" goes on about it.
    if hit.name == "password_zh" and "last" in hit.groups and value.isalpha():
        return True
    check = CHECKS.get(hit.name)
    return check is None or check(value)


def _is_split_key(shadow: Shadow, hit: Hit) -> bool:
    """Say whether what follows the line break is the rest of the key before it, and not prose."""
    head = shadow.text[slice(*hit.groups["head"])]
    tail = shadow.text[slice(*hit.groups["tail"])]
    prefix = PREFIX_START[hit.name].match(head)
    body = len(head) - (prefix.end() if prefix else 0)
    _, _, fewest, usual = PREFIXED[hit.name]
    is_cut_short = body < usual and body + len(tail) >= fewest
    return is_cut_short and _continues(tail)


def _continues(tail: str) -> bool:
    """Say whether a word looks like the middle of a key: digits in it, or capitals inside."""
    return is_random(tail) or not (tail.islower() or tail.istitle() or tail.isupper())
