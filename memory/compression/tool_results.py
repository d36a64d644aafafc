"""Long results of tools: a summary and the reference under which the original can be read. Pure.

No model: of JSON its shape and first entries, of other text its ends and most telling sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from memory.compression.extractive import telling_weights
from memory.compression.json_shapes import is_container, parsed, shape_lines
from memory.language import Language
from memory.providers.sentences import sentences_of
from memory.sanitize import sanitize
from memory.tokens import estimate, truncate_end

# References from long to short; the first that fits is used, and none is ever cut.
_REFERENCES: Final[dict[Language, tuple[str, ...]]] = {
    "zh": (
        "（结果过长，约略去 {n} 个词元；用 view_message 查看原文：{id}）",
        "view_message {id}",
        "{id}",
    ),
    "en": (
        "(Result too long, about {n} tokens left out; read it with view_message: {id})",
        "view_message {id}",
        "{id}",
    ),
}
_GAP: Final = "…"
# With less room than this a summary says nothing that the reference does not.
_LEAST_ROOM: Final = 16
_BLANKS_PER_TOKEN: Final = 64
_SAMPLES: Final = 16
_SAMPLE_CHARACTERS: Final = 4_000
_END_SHARE: Final = 0.35
_MAX_LINE_CHARACTERS: Final = 300
_MAX_LAST_CHARACTERS: Final = 120
# What a number is made of: where one is cut through, all of it goes.
_FIGURES: Final = "0123456789.,:/-"
_ENDS: Final = 4_000
# The sentences of a long text are taken from this many windows spread over it.
_WINDOWS: Final = 8
_WINDOW_CHARACTERS: Final = 800
# What a window or a line can be of use for; more is not looked at for any budget.
_MAX_LINES: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortResult:
    """A tool's result as a prompt shows it.

    `text` is what the model sees; `is_short` says that it is a summary with a reference, and
    `left_out_tokens` about how much that leaves out. `summary` is `text` without the reference.
    """

    text: str
    is_short: bool
    left_out_tokens: int
    summary: str


def shorten_result(
    *, text: str, reference_id: str, max_tokens: int, language: Language
) -> ShortResult:
    """Return a result whole if it is within `max_tokens`, else a summary and how to read it all.

    Never above `max_tokens` by the heuristic estimate; the reference is shown before any summary
    is, and never cut: where not even the bare id fits, `text` is empty and the caller must refuse.
    A summary is cleaned (decoding JSON can uncover markers); a whole result is as it was handed
    in. Deterministic. Linear; one estimate of the whole text, and the summary of bounded pieces.
    """
    cost = _cost(text, max_tokens)
    if cost <= max_tokens:
        return ShortResult(text=text, is_short=False, left_out_tokens=0, summary=text)
    reference = _reference(language, reference_id, cost, max_tokens)
    room = max_tokens - estimate(reference) - 1 if reference else 0
    summary = _fitted(_summary(text, room, language), room)
    while summary:
        left_out = max(cost - estimate(summary), 1)
        shown = f"{summary}\n{_reference(language, reference_id, left_out, max_tokens)}"
        if estimate(shown) <= max_tokens:
            return ShortResult(text=shown, is_short=True, left_out_tokens=left_out, summary=summary)
        room -= 1
        summary = _fitted(summary, room)
    return ShortResult(text=reference, is_short=True, left_out_tokens=cost, summary="")


def _cost(text: str, max_tokens: int) -> int:
    """Return the tokens of `text`: exactly, or from samples if it is far too long to be within.

    No estimate is below one token for 64 characters.
    """
    if len(text) <= max(_BLANKS_PER_TOKEN * (max_tokens + 1), _SAMPLES * _SAMPLE_CHARACTERS):
        return estimate(text)
    step = len(text) // _SAMPLES
    counted = sum(
        estimate(text[at * step : at * step + _SAMPLE_CHARACTERS]) for at in range(_SAMPLES)
    )
    return max(counted * len(text) // (_SAMPLES * _SAMPLE_CHARACTERS), max_tokens + 1)


def _reference(language: Language, reference_id: str, left_out: int, max_tokens: int) -> str:
    """Return the longest reference that fits, "" if none does."""
    for pattern in _REFERENCES[language]:
        line = pattern.replace("{n}", str(left_out)).replace("{id}", reference_id)
        if estimate(line) <= max_tokens:
            return line
    return ""


def _fitted(summary: str, room: int) -> str:
    """Return `summary` cleaned and within `room` tokens."""
    clean = sanitize(_readable(summary)).text.strip()
    most = room
    while most > 1 and estimate(clean) > room:
        clean = sanitize(_cut(clean, most)).text.strip()
        most -= 1
    return clean if 0 < estimate(clean) <= room else ""


def _summary(text: str, room: int, language: Language) -> str:
    """Return the summary of a result in about `room` tokens."""
    if room < _LEAST_ROOM:
        return ""
    value = parsed(text)
    if is_container(value):
        return "\n".join(_taken(shape_lines(value, language=language), room))
    return _of_text(_readable(text), room)


def _readable(text: str) -> str:
    """Return `text` with its lone surrogates replaced: no pattern and no table takes them."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _of_text(text: str, room: int) -> str:
    """Return the first and last lines of `text` and the most telling sentences between them."""
    head = _taken(_first_lines(text), int(room * _END_SHARE))
    tail = [line for line in _last_lines(text, int(room * _END_SHARE)) if line not in head]
    shown = "\n".join([*head, *tail])
    said = _telling(text, room - estimate(shown) - 4, shown)
    return f"\n{_GAP}\n".join("\n".join(part) for part in (head, said, tail) if part)


def _telling(text: str, room: int, shown: str) -> list[str]:
    """Return the most telling sentences of `text` that fit and are not `shown`, in their order."""
    said = dict.fromkeys(made.text for made in sentences_of(_windows(text)))
    found = [sentence for sentence in said if sentence not in shown][:_MAX_LINES]
    weights = telling_weights(found)
    chosen: list[int] = []
    for at in sorted(range(len(found)), key=lambda at: (-weights[at], at)):
        cost = estimate(found[at]) + 1
        if cost <= room:
            chosen.append(at)
            room -= cost
    return [found[at] for at in sorted(chosen)]


def _windows(text: str) -> Sequence[str]:
    """Return pieces spread evenly over `text`, all of it if it is short; whole lines if it can."""
    if len(text) <= _WINDOWS * _WINDOW_CHARACTERS:
        return [text]
    step = len(text) // _WINDOWS
    pieces = (text[at : at + _WINDOW_CHARACTERS] for at in range(0, len(text), step))
    return [_without_torn_ends(piece) for piece in pieces]


def _without_torn_ends(piece: str) -> str:
    """Return a piece of a text without the sentences that its borders cut through."""
    first = min((at for sign in "\n。" if (at := piece.find(sign)) >= 0), default=-1)
    last = max(piece.rfind("\n"), piece.rfind("。"), piece.rfind(". "))
    return piece[first + 1 : last + 1] if last > first else ""


def _first_lines(text: str) -> Iterator[str]:
    """Yield the first lines of `text` that are not blank, none very long."""
    for line in text[:_ENDS].splitlines():
        if words := line.strip():
            is_long = len(words) > _MAX_LINE_CHARACTERS
            yield words[:_MAX_LINE_CHARACTERS].rstrip(_FIGURES) + _GAP if is_long else words


def _last_lines(text: str, room: int) -> list[str]:
    """Return the last lines of `text` that fit, the end of the last one if it is very long."""
    lines = [words for line in text[-_ENDS:].splitlines() if (words := line.strip())]
    taken: list[str] = []
    for line in reversed(lines):
        is_long = len(line) > _MAX_LAST_CHARACTERS
        words = _GAP + line[-_MAX_LAST_CHARACTERS:].lstrip(_FIGURES) if is_long else line
        room -= estimate(words) + 1
        if room < 0:
            break
        taken.append(words)
    return taken[::-1]


def _taken(lines: Iterable[str], room: int) -> list[str]:
    """Return the lines that fit into `room`, up to the first that does not; the first is cut."""
    taken: list[str] = []
    for line in lines:
        cost = estimate(line) + 1
        if cost > room or len(taken) == _MAX_LINES:
            if not taken:
                taken.append(_cut(line, room))
            break
        taken.append(line)
        room -= cost
    return [line for line in taken if line]


def _cut(line: str, room: int) -> str:
    """Return the beginning of a line, not ending within a number, which would be another number."""
    cut = truncate_end(line, max_tokens=room)
    return cut if cut == line else cut.removesuffix(_GAP).rstrip(_FIGURES) + _GAP
