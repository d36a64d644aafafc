"""What a prompt is made of, in numbers that a provider's token count can be explained with."""

from __future__ import annotations

import string
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields

from memory.tokens.encodings import encoding_name, load_encoding

_REMEMBERED_TEXTS = 8192

# Classes of UTF-8 bytes. Counting first bytes counts characters; E4 to E9 begin U+4000 to U+9FFF,
# E3 and EF the kana, the CJK signs and the full-width forms.
_IDEOGRAPH = bytes(range(0xE4, 0xEA))
_KANA_OR_SIGN = b"\xe3\xef"
_OTHER = bytes({*range(0xC2, 0xE3), *range(0xEA, 0xEF), *range(0xF0, 0xF5)})
_LETTER = string.ascii_letters.encode()
_DIGIT = string.digits.encode()
_SIGN = string.punctuation.encode()
_BLANK = b" \t"
_LINE = b"\n"
_WORDS_ONLY = bytes(code if code in _LETTER + _DIGIT + b"_" else 32 for code in range(256))
_CLASSES = (_IDEOGRAPH, _KANA_OR_SIGN, _OTHER, _LETTER, _DIGIT, _SIGN, _BLANK, _LINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What a request is made of; every field adds up over its texts, all are plain counts.

    Attributes:
        tokens: Tokens of all texts by the encoding of the model.
        ideographs: Chinese characters (also as kanji and hanja).
        kana_and_signs: Kana, CJK punctuation, full-width forms.
        others: Characters of all other scripts, emoji.
        words: Runs of ASCII letters, digits and underscores.
        letters: ASCII letters.
        digits: ASCII digits.
        signs: ASCII punctuation.
        blanks: Spaces and tabs.
        lines: Line breaks.
        messages: Messages of the request.
        schema_tokens: The part of `tokens` that stems from tool schemas.
        schemas: Tool schemas of the request.
    """

    tokens: float = 0.0
    ideographs: float = 0.0
    kana_and_signs: float = 0.0
    others: float = 0.0
    words: float = 0.0
    letters: float = 0.0
    digits: float = 0.0
    signs: float = 0.0
    blanks: float = 0.0
    lines: float = 0.0
    messages: float = 0.0
    schema_tokens: float = 0.0
    schemas: float = 0.0

    def __add__(self, other: Features) -> Features:
        """Return the features of both requests as one."""
        return _from_row(a + b for a, b in zip(astuple(self), astuple(other), strict=True))

    def vector(self) -> tuple[float, ...]:
        """Return the fields in order, then 1 if there are schemas, then the constant 1."""
        return (*(getattr(self, name) for name in _NAMES), float(self.schemas > 0), 1.0)


_NAMES = tuple(field.name for field in fields(Features))


class _Memory:
    """Counts of the texts seen last, by their hash: the texts themselves are not kept."""

    def __init__(self, *, size: int) -> None:
        self._size = size
        self._rows: OrderedDict[tuple[int, int, str], tuple[int, ...]] = OrderedDict()
        self._lock = threading.Lock()

    def row(self, text: str, encoding: str) -> tuple[int, ...]:
        """Return the counts of `text`, from memory where it has been seen lately."""
        key = (hash(text), len(text), encoding)
        with self._lock:
            row = self._rows.get(key)
            if row is not None:
                self._rows.move_to_end(key)
                return row
        row = _row(text, encoding)
        with self._lock:
            self._rows[key] = row
            if len(self._rows) > self._size:
                self._rows.popitem(last=False)
        return row


_memory = _Memory(size=_REMEMBERED_TEXTS)


def features(
    messages: Sequence[tuple[str, str]], *, model: str, extra: Sequence[str] = ()
) -> Features:
    """Return what a request is made of.

    Cost: about 0.5 ms per 1,000 tokens of text never seen; some µs for a text seen lately.

    Args:
        messages: (role, content) pairs as they are sent.
        model: Chooses the encoding that `Fit.start(model)` builds on.
        extra: Tool schemas, each as its JSON text.
    """
    encoding = encoding_name(model)
    schemas = [_memory.row(text, encoding) for text in extra]
    rows = [_memory.row(content, encoding) for _role, content in messages]
    rows.extend(schemas)
    sums = [sum(column) for column in zip(*rows, strict=True)] or [0] * (2 + len(_CLASSES))
    schema_tokens = sum(row[0] for row in schemas)
    return _from_row((*sums, len(messages), schema_tokens, len(schemas)))


def real_count(texts: Iterable[str], *, model: str) -> int:
    """Return the exact tokens of `texts` by the encoding of `model`, without any framing.

    Text that looks like a special token counts as the ordinary text it is. Cost: as `features`.
    """
    encoding = encoding_name(model)
    return sum(_memory.row(text, encoding)[0] for text in texts)


def _from_row(row: Iterable[float]) -> Features:
    """Return features whose fields are `row`, in order."""
    return Features(**dict(zip(_NAMES, map(float, row), strict=True)))


def _row(text: str, encoding: str) -> tuple[int, ...]:
    """Return the tokens of `text` and the size of each of its classes."""
    data = text.encode("utf-8", "surrogatepass")
    tokens = len(load_encoding(encoding).encode_ordinary(text))
    sizes = [len(data) - len(data.translate(None, group)) for group in _CLASSES]
    return (tokens, *sizes[:3], len(data.translate(_WORDS_ONLY).split()), *sizes[3:])
