"""The patterns of numbers, dates, amounts, identifiers and quoted words, in linear time. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

import re2

AnchorKind = Literal["number", "date", "amount", "identifier", "quoted"]

_MAX_CHARACTERS: Final = 128
_LEAST_DIGITS: Final = 3
_LEAST_ORDER_DIGITS: Final = 5
_LEAST_MIXED: Final = 4

_MONTH = (
    "(?:(?i:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|june?|july?|aug(?:ust)?"
    "|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)|May|MAY)"
)
_ORDINAL = "(?:st|nd|rd|th)?"
# Every repetition is bounded where a shorter match could end first: that keeps the whole linear.
_FIGURE = r"\d{1,24}(?:,\d{1,24}){0,8}(?:\.\d{1,24})?"
_MONEY = (
    r"(?:(?:US|HK|NT|A|C|S|R)?\$|[¥€£₩₹]|人民币|(?:RMB|CNY|USD|EUR|GBP|JPY|HKD)\b)"
    rf" ?{_FIGURE}(?: ?(?:[万亿千]|[kKmMbB]\b|(?:million|billion)\b))?"
)
_UNITS = (
    r"(?:[%‰]|个?百分点|[百千万亿]*(?:元|块|美元|美金|欧元|日元|円|港元|英镑|韩元|人民币)|[万亿]"
    r"|(?i:percent|rmb|cny|usd|eur|gbp|jpy|hkd|yuan|dollars?|euros?|pounds?|million|billion)\b)"
)
_FILE_ENDINGS = (
    "pdf|docx?|xlsx?|pptx?|csv|tsv|txt|md|rst|json|jsonl|ya?ml|toml|ini|cfg|conf|xml|html?|css|py"
    "|ipynb|js|ts|tsx|jsx|java|go|rs|cpp|hpp|sql|sh|log|zip|tar|gz|tgz|png|jpe?g|gif|svg|webp|mp3"
    "|mp4|wav|mov|tex|bib|parquet|sqlite|db"
)
_JOINED = r"(?:[_\-/#][A-Za-z0-9]+|\.\d[A-Za-z0-9]*)"
# Each kind and its pattern, the first that matches at a place counts. A bare number below 100 is
# not even matched, so that a table of them costs nothing.
_PATTERNS: Final = (
    ("skip", r"[A-Za-z][A-Za-z0-9+.\-]{1,20}://[!-~]+|\bwww\.[!-~]+"),
    ("skip_mail", r"[\pL\pN_.+\-]{1,64}@[A-Za-z0-9\-]{1,63}(?:\.[A-Za-z0-9\-]{1,63}){1,6}"),
    # Nothing shows where a Chinese file name begins, and two characters glue no verb to it.
    (
        "file",
        (
            rf"(?:\p{{Han}}{{1,2}}[A-Za-z0-9_\-]{{0,3}}|[A-Za-z0-9_\-/.]{{1,64}})"
            rf"\.(?i:{_FILE_ENDINGS})\b"
        ),
    ),
    (
        "date",
        (
            r"\d{4} ?年(?: ?\d{1,2} ?月(?: ?\d{1,2} ?[日号])?)?|\d{1,2} ?月 ?\d{1,2} ?[日号]"
            rf"|\b{_MONTH}\.? \d{{1,2}}{_ORDINAL}(?:,? \d{{4}})?\b|\b{_MONTH}\.?,? \d{{4}}\b"
            rf"|\d{{1,2}}{_ORDINAL}(?: of)? {_MONTH}(?:,? \d{{4}})?\b"
            r"|\d{1,2}:\d{2}(?::\d{2})?\b"
        ),
    ),
    ("day", r"\d{4}[\-/.]\d{1,2}[\-/.]\d{1,2}"),
    ("amount", rf"{_MONEY}|{_FIGURE} ?{_UNITS}"),
    ("slashed", r"\d{1,2}/\d{1,2}(?:/\d{4}|/\d{2})?\b"),
    ("grouped", r"\d{1,3}(?:,\d{3}){1,8}(?:\.\d{1,24})?\b"),
    (
        "token",
        (
            r"(?:(?:[A-Za-z]+[_\-/#])*[A-Za-z]+\d|(?:[A-Za-z]+[_\-/#])+\d|\d(?:\d\d|\d?[A-Za-z]))"
            rf"[A-Za-z0-9]*{_JOINED}*|\d{{1,2}}{_JOINED}+"
        ),
    ),
)
# A day may be followed by a time of day, which is not part of what pins it.
_AFTER_DAY = r"(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?Z?|\b)"
_QUOTES: Final = (
    ("“", r"“([^“”\n]{2,60})”"),
    ("「", "「([^「」\n]{2,60})」"),
    ("『", "『([^『』\n]{2,60})』"),
    ("《", "《([^《》\n]{2,60})》"),
    ("‘", "(?:^|[^A-Za-z])‘([^‘’\n]{2,60})’"),
    ('"', r'"([^"\s](?:[^"\n]{0,58}[^"\s]))"'),
    ("'", r"(?:^|[^\pL\pN'])'([^'\s](?:[^'\n]{0,58}[^'\s]))'"),
)
_NARROW: Final[dict[int, int | str | None]] = {
    **{0xFF10 + n: 0x30 + n for n in range(10)},
    **{0xFF21 + n: 0x41 + n for n in range(26)},
    **{0xFF41 + n: 0x61 + n for n in range(26)},
    **{
        ord(wide): "%$¥£./-:_@\"'  "[at]
        for at, wide in enumerate("％＄￥￡．／－：＿＠＂＇\u3000\u00a0")
    },
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
}


def _options() -> re2.Options:
    """Return room enough for the state machines, and silence."""
    options = re2.Options()
    options.max_mem = 64 << 20
    options.log_errors = False
    return options


def _compiled(pattern: str) -> re2._Regexp:
    """Compile `pattern`."""
    return re2.compile(pattern, _options())


def _set_of(patterns: Sequence[str]) -> re2.Set:
    """Compile `patterns` so that one pass tells which of them a whole text matches."""
    found = re2.Set.FullMatchSet(_options())
    for pattern in patterns:
        found.Add(pattern)
    found.Compile()
    return found


_WHOLE: Final = tuple(
    (name, f"(?:{pattern}){_AFTER_DAY if name == 'day' else ''}") for name, pattern in _PATTERNS
)
# Without groups the scan is a plain state machine; what a piece is, is asked of the piece alone.
_SCAN: Final = _compiled("|".join(pattern for _, pattern in _WHOLE))
_KINDS: Final = _set_of([pattern for _, pattern in _WHOLE])
_QUOTED: Final = tuple((opening, _compiled(pattern)) for opening, pattern in _QUOTES)
_ORDINAL_WORD: Final = _compiled(r"(?i)^\d{1,2}(?:st|nd|rd|th)$")


class Place(NamedTuple):
    """Where a telling piece stands in a text; of quoted words, the inside without the marks."""

    start: int
    end: int
    kind: AnchorKind


def places_of(text: str) -> Iterator[Place]:
    """Yield the places of everything telling in `text`, the quoted words last.

    Linear; some 20 µs a piece. Quoted words may hold other pieces.
    """
    narrow = text if text.isascii() else text.translate(_NARROW)
    known: dict[str, tuple[AnchorKind | None, int]] = {}
    for match in _SCAN.finditer(narrow):
        piece = match.group()
        if piece not in known:
            known[piece] = _judged(piece)
        kind, length = known[piece]
        if kind:
            yield Place(match.start(), match.start() + length, kind)
    for opening, pattern in _QUOTED:
        if opening in narrow:
            yield from _quoted(narrow, pattern.finditer(narrow))


def _quoted(narrow: str, matches: Iterator[re2._Match]) -> Iterator[Place]:
    """Yield the quoted words among `matches`: with a letter or digit, no apostrophe at the end."""
    for match in matches:
        start, end = match.span(1)
        after = narrow[end + 1 : end + 2]
        is_apostrophe = narrow[end] in "'’" and after.isascii() and after.isalpha()
        if not is_apostrophe and any(letter.isalnum() for letter in match.group(1)):
            yield Place(start, end, "quoted")


def _judged(piece: str) -> tuple[AnchorKind | None, int]:
    """Return what a matched piece is, if it tells enough, and how much of it."""
    if len(piece) > _MAX_CHARACTERS:
        return None, 0
    if piece.isdigit():
        return "number", len(piece)
    index = min(_KINDS.Match(piece) or (len(_WHOLE) - 1,))
    name = _WHOLE[index][0]
    length = piece.find("T") if name == "day" and "T" in piece else len(piece)
    return _kind(name, piece), length


def _kind(name: str, piece: str) -> AnchorKind | None:
    """Return what a match of the pattern `name` is, None if it does not tell enough."""
    if name in {"date", "day"}:
        return "date"
    if name == "amount":
        return "amount"
    if name == "grouped":
        return "number"
    if name == "file":
        return None if piece.startswith((".", "/")) else "identifier"
    if name == "slashed":
        return _kind_of_slashed(piece)
    return _kind_of_token(piece) if name == "token" else None


def _kind_of_slashed(piece: str) -> AnchorKind | None:
    """Return "date" if a month and a day can be among numbers with slashes."""
    first, second = (int(part) for part in piece.split("/")[:2])
    return "date" if 1 <= min(first, second) <= 12 and 1 <= max(first, second) <= 31 else None


def _kind_of_token(piece: str) -> AnchorKind | None:
    """Return what a run of letters, digits and joining signs is."""
    digits = sum(letter.isdigit() for letter in piece)
    if digits + piece.count(".") == len(piece):
        return "number" if digits >= _LEAST_DIGITS or "." in piece else None
    if not any(letter.isalpha() for letter in piece):
        return "identifier" if digits >= _LEAST_ORDER_DIGITS else None
    is_telling = len(piece) >= _LEAST_MIXED and not _ORDINAL_WORD.search(piece)
    return "identifier" if is_telling else None
