"""One look behind encodings: percent, HTML, JSON escapes, base64, digits in words, spread letters.

What hides a phone number or a key from patterns is undone once, on a copy with the way back, so
that what is found can be cut out of the original. One pass only: what was encoded twice stays
hidden, and so does what is split over messages (docs name both).
"""

from __future__ import annotations

import base64
import binascii
import html
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from memory.sanitize.patterns import Finder

_ZH_DIGITS: Final = str.maketrans(
    "零〇○一二三四五六七八九幺壹贰叁肆伍陆柒捌玖", "00012345678911" + "2345678" + "9"
)
_EN_DIGITS: Final = {
    word: str(digit)
    for digit, word in enumerate("zero one two three four five six seven eight nine".split())
} | {"oh": "0"}
_ZH_RUN: Final = "[零〇○一二三四五六七八九幺壹贰叁肆伍陆柒捌玖]"
_EN_WORD: Final = "(?:zero|oh|one|two|three|four|five|six|seven|eight|nine)"
# One letter at a time with a sign or a space between: 糖 尿 病, d.i.a.b.e.t.e.s.
_BETWEEN: Final = r"[ .·*_\-]"
_ZH_SPREAD: Final = r"[\u4e00-\u9fff]" + rf"(?:{_BETWEEN}" + r"[\u4e00-\u9fff]){2,}"
_EN_SPREAD: Final = rf"\b[A-Za-z](?:{_BETWEEN}[A-Za-z]){{4,}}\b"
_RE2_ZH: Final = r"[\x{4e00}-\x{9fff}]"
_APART: Final = str.maketrans("", "", " .·*_-")
_SURROGATES: Final = range(0xD800, 0xE000)
_LEAST_BASE64: Final = 16
_MOST_BASE64: Final = 4096
_PARTS: Final = (
    r"(?P<percent>(?:%[0-9A-Fa-f]{2})+)"
    r"|(?P<entity>&(?:\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,10});)"
    r"|(?P<escape>\\(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}))"
    rf"|(?P<zh>{_ZH_RUN}(?:[ \-]?{_ZH_RUN}){{6,}})"
    rf"|(?P<en>(?i:\b{_EN_WORD}(?:[ ,\-]{{1,2}}{_EN_WORD}){{6,}}\b))"
    rf"|(?P<spread>{_ZH_SPREAD}|{_EN_SPREAD})"
    rf"|(?P<base64>[A-Za-z0-9+/]{{{_LEAST_BASE64 - 2},{_MOST_BASE64}}}={{0,2}})"
)
_PART: Final = re.compile(_PARTS)
# The same in linear time, and cheap enough for every text: is there anything to look behind at all?
_ANY: Final = Finder(
    r"%[0-9A-Fa-f]{2}|&(?:#[xX]?[0-9A-Fa-f]{1,7}|[A-Za-z]{2,10});|\\u[0-9A-Fa-f]{4}"
    rf"|\\x[0-9A-Fa-f]{{2}}|{_ZH_RUN}(?:[ \-]?{_ZH_RUN}){{6}}"
    rf"|(?i:{_EN_WORD}(?:[ ,\-]{{1,2}}{_EN_WORD}){{6}})|{_RE2_ZH}(?:{_BETWEEN}{_RE2_ZH}){{2}}"
    rf"|[A-Za-z](?:{_BETWEEN}[A-Za-z]){{4}}|[A-Za-z0-9+/]{{{_LEAST_BASE64 - 2}}}"
)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded text, and for each of its characters where the original's begin and end."""

    text: str
    starts: list[int]
    ends: list[int]

    def span(self, *, start: int, end: int) -> tuple[int, int]:
        """Return the span of the original that a non-empty span of the decoded text stands for."""
        return self.starts[start], self.ends[end - 1]


def decoded(text: str) -> Decoded | None:
    """Return a folded text with its encodings undone once, None where there are none. Linear."""
    if not _ANY.is_in(text):
        return None
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    position = 0
    for part in _PART.finditer(text):
        plain = _plain(part.lastgroup or "", part.group())
        if plain is None:
            continue
        kept, here, end = text[position : part.start()], part.start(), part.end()
        pieces += (kept, plain)
        starts += range(position, here)
        ends += range(position + 1, here + 1)
        starts += _places(part, plain, first=True)
        ends += _places(part, plain, first=False)
        position = end
    if not pieces:
        return None
    pieces.append(text[position:])
    starts += range(position, len(text))
    ends += range(position + 1, len(text) + 1)
    return Decoded("".join(pieces), starts, ends)


def _places(part: re.Match[str], plain: str, *, first: bool) -> list[int]:
    """Return where each plain character begins or ends: one to one if the part allows, else all."""
    start, end = part.span()
    if len(plain) == end - start:
        return list(range(start, end) if first else range(start + 1, end + 1))
    return [start if first else end] * len(plain)


def _plain(kind: str, part: str) -> str | None:
    """Return what a part stands for, None where it stands for itself."""
    if kind == "percent":
        return _utf8(unquote_to_bytes(part))
    if kind == "entity":
        plain = html.unescape(part)
        return None if plain == part else plain
    if kind == "escape":
        code = int("0x" + part[2:], base=0)
        return None if code in _SURROGATES else chr(code)
    if kind == "zh":
        return part.translate(_ZH_DIGITS)
    if kind == "en":
        return "".join(_EN_DIGITS[word] for word in re.split(r"[ ,\-]+", part.lower()))
    return part.translate(_APART) if kind == "spread" else _of_base64(part)


def _of_base64(part: str) -> str | None:
    """Return the text in a run of base64, None where it is a word, a key or something binary."""
    if len(part) < _LEAST_BASE64 or len(part) > _MOST_BASE64:
        return None
    body = part.rstrip("=")
    if len(body) % 4 == 1:
        return None
    try:
        raw = base64.b64decode(body + "=" * (-len(body) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    plain = _utf8(raw)
    return plain if plain and all(one.isprintable() or one in "\n\t\r" for one in plain) else None


def _utf8(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None
