"""Shadow copies: a folded twin of a text for matching, with the way back to the original.

Strangers hide orders and secrets behind full-width letters, zero-width characters, combining
marks and Cyrillic or Greek look-alikes. Patterns are matched on the shadow; what is found is cut
out of the original, so that everything else stays as it was, byte for byte.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

# Look-alikes of Latin letters that NFKC leaves alone. Only letters a reader cannot tell apart.
_CYRILLIC = dict(
    zip("АВЕКМНОРСТУХЅІЈԚԜҮЗаеорсухѕіјԛԝһԁ", "ABEKMHOPCTYXSIJQWY3aeopcyxsijqwhd", strict=True)
)
_GREEK = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοαιρνυκ", "ABEZHIKMNOPTYXoaipvuk", strict=True))
_LATIN = dict(zip("ıɑɡɩℓᴏꜱ∣ǀ▁", "iagilos||_", strict=True))
_LOOKALIKES = {**_CYRILLIC, **_GREEK, **_LATIN}

_BRACKETS = {**dict.fromkeys("【〖〔〘〚", "["), **dict.fromkeys("】〗〕〙〛", "]")}
_PLAIN = {
    **{chr(0xFF01 + n): chr(0x21 + n) for n in range(94)},
    **_BRACKETS,
    **dict.fromkeys("\r\x0b\x0c\x85\u2028\u2029", "\n"),
    **dict.fromkeys("‘’", "'"),
    **dict.fromkeys("“”", '"'),
    "\u3000": " ",
}
_SINGLE = {**_PLAIN, **_LOOKALIKES}
# What stays as it is; everything else is looked at one character at a time.
_ODD = re.compile(
    "[^\t\n -~、。"
    "\u2010-\u2015\u2022-\u2026\u2039\u203a"
    "\u3003-\u300f\u3012\u3013\u301c-\u3029\u3030-\u3096\u309b-\u30ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]"
)


@dataclass(frozen=True, slots=True)
class Shadow:
    """A folded text and the points from which its positions are shifted against the original."""

    text: str
    shadow_points: Sequence[int]
    origin_points: Sequence[int]

    def span(self, *, start: int, end: int) -> tuple[int, int]:
        """Return the span of the original that the non-empty span of the shadow stands for."""
        return self._origin(start), self._origin(end - 1) + 1

    def _origin(self, position: int) -> int:
        """Return the index of the original character that one shadow character came from."""
        at = bisect_right(self.shadow_points, position) - 1
        return self.origin_points[at] + position - self.shadow_points[at]


def fold(text: str) -> Shadow:
    """Return the shadow of `text`: NFKC and more, case kept; linear in its length.

    Invisible characters and combining marks vanish, every kind of line end becomes a line feed,
    look-alikes become Latin letters, all decimal digits become 0 to 9, lone surrogates U+FFFD.
    """
    pieces: list[str] = []
    shadow_points, origin_points = [0], [0]
    position = shift = 0
    for odd in _ODD.finditer(text):
        here = odd.start()
        folded = _fold_character(odd.group())
        pieces += (text[position:here], folded)
        position = here + 1
        if len(folded) != 1:
            shadow_points.extend(range(here + shift, here + shift + len(folded) + 1))
            origin_points.extend([here] * len(folded) + [here + 1])
            shift += len(folded) - 1
    pieces.append(text[position:])
    return Shadow("".join(pieces), shadow_points, origin_points)


@lru_cache(maxsize=65536)
def _fold_character(character: str) -> str:
    """Return what one character outside the plain table folds to, perhaps nothing."""
    if character in _SINGLE:
        return _SINGLE[character]
    category = unicodedata.category(character)
    if category == "Cs":
        return "\ufffd"
    if category in {"Cf", "Mn", "Me", "Cc"}:
        return ""
    return "".join(map(_fold_part, unicodedata.normalize("NFKD", character)))


def _fold_part(part: str) -> str:
    """Return one character of a decomposition as the shadow shows it."""
    if unicodedata.category(part) in {"Mn", "Me", "Cf"}:
        return ""
    digit = unicodedata.decimal(part, -1)
    if digit >= 0:
        return str(digit)
    return _SINGLE.get(part, part)
