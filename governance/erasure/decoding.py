"""The readings of a stored value: what it says once its encodings are taken off. Pure.

A search for what is left of a person must see through the ways in which libraries store text:
base64, JSON and Python escapes, hexadecimal, compression, pickles (read, never loaded), signed
payloads, percent and HTML escapes, and one inside the other.
"""

from __future__ import annotations

import base64
import binascii
import html
import pickletools
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import unquote, unquote_plus

import re2

from memory import ids

DEPTH: Final = 3
DECODINGS: Final = (
    "plain",
    "folded",
    "digits",
    "escapes",
    "base64",
    "hex",
    "zlib",
    "gzip",
    "pickle",
    "utf-16",
    "tsvector",
    "percent",
    "html",
)
_INFLATED_BYTES: Final = 16 * 1024 * 1024
_BASE_CHARS: Final = 4 * 1024 * 1024
_TIMES_INPUT: Final = 16
_MOST_PICKLE_STRINGS: Final = 200_000
_PROBE_SIGNS: Final = 64

_ESCAPE = re2.compile(
    r"(?:\\x[0-9a-fA-F]{2})+|(?:\\u[0-9a-fA-F]{4})+|\\U[0-9a-fA-F]{8}|\\[0-7]{3}|\\[nrtbf\"'/\\]"
)
_LINES = re2.compile(r"(?:[A-Za-z0-9+/]{60,76}\r?\n)+[A-Za-z0-9+/]{0,76}={0,2}")
# These two are linear in any engine (what they repeat is apart from what follows), and the standard
# one gives its matches many times faster.
_DIGITS = re.compile(r"[0-9](?:[ \t\-().+/_]{0,3}[0-9]){6,}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_OWN_ID = re2.compile(ids.SHAPE)
_HEX = re2.compile(r"[0-9a-fA-F]{16,}")
_LEXEME = re2.compile(r"'((?:[^']|'')*)'(?::([0-9]+[A-D]?(?:,[0-9]+[A-D]?)*))?(?:\s|$)")
_SIMPLE: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_NOT_DIGITS = str.maketrans("", "", " \t-().+/_")
_STANDARD = str.maketrans("-_", "+/")
_CONTROLS: Final = bytes([*range(9), *range(14, 32)])
_USUAL = re.compile("[ -\u024f\u3000-\u9fff]+")
# Hashes, keys and ids of others stand in many rows; what one run says is worked out once.
_MOST_KEPT_RUNS: Final = 50_000
_MOST_KEPT_CHARS: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """All texts that one value can be read as.

    Attributes:
        texts: Folded, the plain one first.
        is_cut: The bound of the output was reached, so deeper readings are missing.
    """

    texts: tuple[str, ...]
    is_cut: bool


def fold(text: str) -> str:
    """Return a text as it is compared: compatibility forms and cases made one, spaces single."""
    return _folded(_compatible(text))


def _compatible(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def digits_of(text: str) -> str:
    """Return the runs of 7 digits and more, their separators taken out, one a line."""
    return _digits(_compatible(text))


def _digits(text: str) -> str:
    return "\n".join(_DIGITS.findall(text)).translate(_NOT_DIGITS)


def readings(value: str, *, depth: int = DEPTH) -> Readings:
    """Return every reading of `value`, encodings nested up to `depth` taken off.

    Time is linear in the input and in the output, which is bounded: 16 times the input and 4 MiB.
    Nothing is executed or unpickled.
    """
    left = _BASE_CHARS + _TIMES_INPUT * len(value)
    level, seen, texts, is_cut = [value], {value}, [], False
    for step in range(depth + 1):
        deeper: list[str] = []
        for raw in level:
            compatible = _compatible(raw)
            texts += [_folded(compatible), _digits(compatible)]
            for found in _taken_off(raw) if step < depth else ():
                if found in seen:
                    continue
                if len(found) > left:
                    is_cut = True
                    continue
                left -= len(found)
                seen.add(found)
                deeper.append(found)
        level = deeper
    return Readings(texts=tuple(text for text in texts if text), is_cut=is_cut)


def _taken_off(text: str) -> Iterator[str]:
    """Yield the text with one layer of each encoding that it can have taken off."""
    for decode in _DECODERS:
        found = decode(text)
        if found and found != text:
            yield found


def unescaped(text: str) -> str:
    r"""Return a text with `\u5f20`, `\xe5`, `\n` and the like as what they stand for."""
    return str(_ESCAPE.sub(_unescape, text)) if "\\" in text else ""


def _unescape(match: re2._Match[str]) -> str:
    found: str = match.group(0)
    kind = found[1]
    if kind == "x":
        raw = bytes.fromhex(found.replace("\\x", ""))
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return raw.decode("latin-1")
    if kind == "u":
        raw = bytes.fromhex(found.replace("\\u", ""))
        return raw.decode("utf-16-be", errors="replace")
    if kind == "U":
        number = int(f"0x{found[2:]}", 0)
        return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else ""
    if len(found) == 4:
        return chr(int(found[1:], 8))
    return _SIMPLE.get(kind, kind)


def from_base64(text: str) -> str:
    """Return what every run of 16 and more signs of base64 or base64url stands for."""
    found: list[str] = []
    if "\n" in text:
        for block in _LINES.findall(text):
            found += texts_of_bytes(_debased("".join(block.split())))
    for run in _BASE64.findall(text):
        found += _kept_texts(run) if len(run) <= _MOST_KEPT_CHARS else _texts_of_run(run)
    return "\n".join(found)


@lru_cache(maxsize=_MOST_KEPT_RUNS)
def _kept_texts(run: str) -> tuple[str, ...]:
    return tuple(_texts_of_run(run))


def _texts_of_run(run: str) -> list[str]:
    """Read a run from its first sign and from the next three: letters may stand before it."""
    if _OWN_ID.fullmatch(run):
        return []
    body = run.rstrip("=")
    found: list[str] = []
    for offset in range(4):
        if _is_plausible(_debased(body[offset : offset + _PROBE_SIGNS])):
            found += texts_of_bytes(_debased(body[offset:]))
    return found


def _debased(body: str) -> bytes:
    body = body.rstrip("=").translate(_STANDARD)
    if len(body) % 4 == 1:
        body = body[:-1]
    try:
        return base64.b64decode(body + "=" * (-len(body) % 4))
    except (binascii.Error, ValueError):
        return b""


def from_hex(text: str) -> str:
    """Return what every run of 16 and more hexadecimal digits stands for (bytea among them)."""
    found: list[str] = []
    for run in _HEX.findall(text):
        for offset in range(2):
            body = run[offset:]
            raw = bytes.fromhex(body[: len(body) // 2 * 2])
            if _is_plausible(raw):
                found += texts_of_bytes(raw)
                break
    return "\n".join(found)


def _is_plausible(raw: bytes) -> bool:
    """Say whether bytes can be text, or something that holds text, rather than noise."""
    if len(raw) < 4:
        return False
    if raw[0] in (0x78, 0x80) or raw[:2] == b"\x1f\x8b" or _wide(raw):
        return True
    head = raw[:256]
    controls = len(head) - len(head.translate(None, _CONTROLS))
    broken = head.decode(errors="replace").count("\ufffd")
    return (controls + broken) * 8 <= len(head)


def _wide(raw: bytes) -> str:
    """Return which UTF-16 some bytes are in, if most of the first signs are Latin or Chinese."""
    if raw.count(0) * 3 >= len(raw):
        return "utf-16-le" if raw[1::2].count(0) > raw[::2].count(0) else "utf-16-be"
    head = raw[: _PROBE_SIGNS & ~1]
    for encoding in ("utf-16-le", "utf-16-be"):
        signs = head.decode(encoding, errors="replace")
        usual = len(signs) - len(_USUAL.sub("", signs))
        if usual * 5 >= len(signs) * 4:
            return encoding
    return ""


def texts_of_bytes(raw: bytes) -> list[str]:
    """Return the texts in some bytes: as UTF-8, UTF-16, inflated, or the strings of a pickle."""
    if not raw:
        return []
    found = [raw.decode(errors="ignore")]
    if encoding := _wide(raw):
        found.append(raw.decode(encoding, errors="ignore"))
    if raw[0] == 0x78 or raw[:2] == b"\x1f\x8b":
        inflated = _inflated(raw)
        if inflated:
            found.append(inflated.decode(errors="ignore"))
            found += pickle_strings(inflated)
    found += pickle_strings(raw)
    return found


def _inflated(raw: bytes) -> bytes:
    """Return what zlib or gzip data holds, at most 16 MiB; of damaged data what can be read."""
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    pieces: list[bytes] = []
    left = _INFLATED_BYTES
    try:
        while raw and left > 0 and not inflater.eof:
            piece = inflater.decompress(raw, min(left, 65536))
            pieces.append(piece)
            left -= len(piece)
            raw = inflater.unconsumed_tail
    except zlib.error:
        pass
    return b"".join(pieces)


def pickle_strings(raw: bytes) -> list[str]:
    """Return the strings and bytes of a pickle, read opcode by opcode; nothing is ever loaded."""
    if raw[:1] != b"\x80":
        return []
    found: list[str] = []
    try:
        for _opcode, argument, _position in pickletools.genops(raw):
            if isinstance(argument, str):
                found += [argument, _as_bytes(argument)]
            elif isinstance(argument, bytes | bytearray):
                found.append(bytes(argument).decode(errors="ignore"))
            if len(found) >= _MOST_PICKLE_STRINGS:
                break
    except Exception:  # noqa: BLE001 - whatever is broken about it, what came before counts
        return found
    return found


def _as_bytes(text: str) -> str:
    """Return the text of bytes that an older pickle wrote as one sign a byte."""
    if text.isascii():
        return ""
    return text.encode("latin-1", errors="ignore").decode(errors="ignore")


def lexemes_in_order(text: str) -> str:
    """Return the words of a tsvector in the order of the text that it was made from."""
    if "'" not in text:
        return ""
    words: list[tuple[int, str]] = []
    for word, places in _LEXEME.findall(text):
        plain = word.replace("''", "'")
        numbers = [int(place.rstrip("ABCD")) for place in places.split(",")] if places else [0]
        words += [(number, plain) for number in numbers[:64]]
    return " ".join(word for _number, word in sorted(words))


def _percent(text: str) -> str:
    return unquote(text) if "%" in text else ""


def _form(text: str) -> str:
    return unquote_plus(text) if "+" in text and "%" in text else ""


def _html(text: str) -> str:
    return html.unescape(text) if "&" in text else ""


_DECODERS: Final[tuple[Callable[[str], str], ...]] = (
    unescaped,
    from_base64,
    from_hex,
    lexemes_in_order,
    _percent,
    _form,
    _html,
)
