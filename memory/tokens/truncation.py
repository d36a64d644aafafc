"""Cutting text to a number of tokens, never through what a reader sees as one character."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

from memory.tokens.estimators import EstimatorKind, estimate

_JOINER = "\u200d"
_SELECTORS = range(0xFE00, 0xFE10)
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_REGIONS = range(0x1F1E6, 0x1F200)


def truncate_middle(
    text: str,
    *,
    max_tokens: int,
    mark: str,
    kind: EstimatorKind = "heuristic",
    model: str = "",
) -> str:
    """Return `text` within `max_tokens`, its middle replaced by `mark` if it has to be cut.

    Head and tail keep about the same length. The result never estimates above `max_tokens`; where
    not even the mark fits it is left out, and a budget of 0 leaves nothing. Cost: some twenty estimates of the result's length.
    """
    return _truncate(text, _middle(text, mark), max_tokens, mark, (kind, model))


def truncate_end(
    text: str,
    *,
    max_tokens: int,
    mark: str = "…",
    kind: EstimatorKind = "heuristic",
    model: str = "",
) -> str:
    """Return `text` within `max_tokens`, cut at the end and closed by `mark` if need be.

    The result never estimates above `max_tokens`; where not even the mark fits it is left out.
    """
    return _truncate(text, _end(text, mark), max_tokens, mark, (kind, model))


def _truncate(
    text: str,
    cut: Callable[[int], str],
    max_tokens: int,
    mark: str,
    estimator: tuple[EstimatorKind, str],
) -> str:
    """Return the longest candidate of `cut` (by characters kept) that fits."""
    kind, model = estimator

    def fits(candidate: str) -> bool:
        return estimate(candidate, kind=kind, model=model) <= max_tokens

    if max_tokens <= 0:
        return ""
    if len(text) <= _most_characters(max_tokens) and fits(text):
        return text
    if not fits(mark):
        return _truncate(text, _end(text, ""), max_tokens, "", estimator) if mark else ""
    kept = _search(min(len(text) - 1, _most_characters(max_tokens)), lambda n: fits(cut(n)))
    candidate = cut(kept)
    # Estimates are not strictly monotone; walk down the last steps instead of trusting the search.
    while kept > 0 and not fits(candidate):
        kept -= 1
        candidate = cut(kept)
    return candidate if fits(candidate) else ""


def _most_characters(max_tokens: int) -> int:
    """Return a bound on the characters worth trying: beyond it only blanks would fit."""
    return 64 * max_tokens + 64


def _search(high: int, fits: Callable[[int], bool]) -> int:
    """Return about the largest number up to `high` for which `fits` holds, by bisection."""
    low = 0
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _middle(text: str, mark: str) -> Callable[[int], str]:
    """Return the cutter that keeps n characters, half at the head and half at the tail."""

    def cut(kept: int) -> str:
        head = _back(text, (kept + 1) // 2)
        tail = _forward(text, len(text) - kept // 2)
        return text[:head] + mark + text[tail:]

    return cut


def _end(text: str, mark: str) -> Callable[[int], str]:
    """Return the cutter that keeps the first n characters."""
    return lambda kept: text[: _back(text, kept)] + mark


def _back(text: str, at: int) -> int:
    """Return the last position up to `at` where a cut splits nothing."""
    while 0 < at < len(text) and _is_inside(text, at):
        at -= 1
    return at


def _forward(text: str, at: int) -> int:
    """Return the first position from `at` on where a cut splits nothing."""
    while 0 < at < len(text) and _is_inside(text, at):
        at += 1
    return at


def _is_inside(text: str, at: int) -> bool:
    """Say whether a cut before `text[at]` would split what is seen as one character."""
    before, after = ord(text[at - 1]), ord(text[at])
    if after < 0x300:
        return before == 0x0D and after == 0x0A
    if unicodedata.category(text[at]) in {"Mn", "Mc", "Me"} or after in _SELECTORS:
        return True
    if after in _SKIN_TONES or _JOINER in (text[at - 1], text[at]):
        return True
    is_surrogate_pair = 0xD800 <= before < 0xDC00 <= after < 0xE000
    return is_surrogate_pair or (before in _REGIONS and after in _REGIONS)
