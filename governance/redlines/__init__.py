"""The red lines: identity numbers, exam results and health, which memory must not keep.

Found by pattern, checksum and context, in Chinese and English, on a shadow copy and behind one layer of
encoding. A prompt forbids
them first; this is the second layer, for when a model writes them anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from governance.redlines.grades import grade_spans
from governance.redlines.health import health_spans
from governance.redlines.identity import identity_spans
from memory.language import Language
from memory.sanitize.decoding import decoded
from memory.sanitize.folding import fold

RedlineKind = Literal["identity", "grades", "health"]

# The first is the wording of the design seed (A, section 2.4); the others follow its form.
PLACEHOLDERS: dict[Language, dict[RedlineKind, str]] = {
    "zh": {
        "grades": "(涉及学生成绩，略)",
        "identity": "(涉及身份证件，略)",
        "health": "(涉及健康信息，略)",
    },
    "en": {
        "grades": "(grades omitted)",
        "identity": "(identity number omitted)",
        "health": "(health information omitted)",
    },
}


# A statement glued to another shows only when that one has gone.
_MAX_ROUNDS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Redline:
    """One statement beyond a red line: its kind and its span in the text, end exclusive."""

    kind: RedlineKind
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Masked:
    """A text with placeholders for what is beyond a red line, and the sorted kinds of it."""

    text: str
    kinds: tuple[RedlineKind, ...]


def find_redlines(text: str) -> tuple[Redline, ...]:
    """Return what in `text` is beyond a red line, in order, without overlaps; linear."""
    shadow = fold(text)
    spans = list(_spans(shadow.text))
    view = decoded(shadow.text)
    if view is not None:
        spans += ((kind, *view.span(start=a, end=b)) for kind, a, b in _spans(view.text))
    found = []
    for kind, start, end in spans:
        first, last = shadow.span(start=start, end=end)
        found.append(Redline(kind=kind, start=first, end=last))
    found.sort(key=lambda redline: (redline.start, -redline.end))
    apart: list[Redline] = []
    for redline in found:
        if apart and redline.start < apart[-1].end:
            last = max(apart[-1].end, redline.end)
            apart[-1] = Redline(kind=apart[-1].kind, start=apart[-1].start, end=last)
        else:
            apart.append(redline)
    return tuple(apart)


def mask_redlines(text: str, *, language: Language) -> Masked:
    """Return `text` with the placeholder of `language` for everything beyond a red line."""
    kinds: set[RedlineKind] = set()
    for _ in range(_MAX_ROUNDS):
        redlines = find_redlines(text)
        if not redlines:
            break
        kinds.update(redline.kind for redline in redlines)
        text = _masked(text, redlines, PLACEHOLDERS[language])
    return Masked(text=text, kinds=tuple(sorted(kinds)))


def _masked(text: str, redlines: Sequence[Redline], placeholders: Mapping[RedlineKind, str]) -> str:
    """Return `text` with a placeholder for each of `redlines`, which are in order and apart."""
    pieces: list[str] = []
    position = 0
    for redline in redlines:
        pieces += (text[position : redline.start], placeholders[redline.kind])
        position = redline.end
    pieces.append(text[position:])
    return "".join(pieces)


def _spans(text: str) -> Iterator[tuple[RedlineKind, int, int]]:
    """Yield (kind, start, end) of every finding in a shadow text."""
    for start, end in identity_spans(text):
        yield "identity", start, end
    for start, end in grade_spans(text):
        yield "grades", start, end
    for start, end in health_spans(text):
        yield "health", start, end
