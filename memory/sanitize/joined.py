"""Orders spread over several messages, a word in each: harmless one by one, an order when read on.

Only short texts are read together: a thread of normal sentences has no such words at its seams.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from memory.sanitize.cleaning import hits_in, mark_for, sanitize
from memory.sanitize.invisible import strip_invisible

# Longer texts say what they say by themselves.
MAX_PIECE_LETTERS = 32
# Blanks and stops at the ends of a piece would hide the seam.
_EDGES = " \t\r\n\u3000.,;:!?…~-—。，、；：！？"
_MAX_ROUNDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedOrder:
    """A rule that fires across texts though on none of them alone.

    Attributes:
        rule: The rule's name, as in `Sanitized.neutralised`.
        indexes: Which of the texts it takes, without a gap, at least two.
    """

    rule: str
    indexes: tuple[int, ...]


def joined_orders(texts: Sequence[str]) -> tuple[JoinedOrder, ...]:
    """Return the orders and markers that short neighbours among `texts` form together, in order.

    Give the texts of one speaker, oldest first; they are joined with a blank and, for Chinese and
    for words cut in two, with nothing. Linear in their length; about 4 µs a text if all is well.
    """
    found: dict[tuple[tuple[int, ...], str], None] = {}
    for run in _runs(texts):
        for joint in (" ", ""):
            if hits_in(joint.join(words for _, words in run)):
                found.update(dict.fromkeys(_across(run, joint)))
    return tuple(JoinedOrder(rule=rule, indexes=indexes) for indexes, rule in sorted(found))


def break_joined(texts: Sequence[str]) -> tuple[str, ...]:
    """Return `texts` with a mark in place of each that takes part in a joined order.

    All others are the same, uncleaned. Usually one round of `joined_orders`, at most eight.
    """
    broken = list(texts)
    for _ in range(_MAX_ROUNDS):
        orders = joined_orders(broken)
        if not orders:
            break
        for order in orders:
            mark = mark_for("".join(texts[index] for index in order.indexes))
            for index in order.indexes:
                broken[index] = mark
    return tuple(broken)


def _runs(texts: Sequence[str]) -> Iterator[list[tuple[int, str]]]:
    """Yield each stretch of at least two short texts, empty ones aside: their indexes and words."""
    run: list[tuple[int, str]] = []
    for index, text in enumerate(texts):
        words = strip_invisible(text)[0].strip(_EDGES)
        if len(words) > MAX_PIECE_LETTERS:
            yield from (run,) if len(run) > 1 else ()
            run = []
        elif words:
            run.append((index, words))
    yield from (run,) if len(run) > 1 else ()


def _across(run: list[tuple[int, str]], joint: str) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yield what fires on the joined words, cleaned one by one: which texts it takes, the rule."""
    pieces = [sanitize(words).text for _, words in run]
    starts = list(accumulate((len(piece) + len(joint) for piece in pieces), initial=0))
    for rule, start, end in hits_in(joint.join(pieces)):
        first, last = bisect_right(starts, start) - 1, bisect_right(starts, end - 1) - 1
        if first < last:
            yield tuple(range(run[first][0], run[last][0] + 1)), rule
