"""Texts of a lossless thread that say again what an earlier message says. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from memory.compression.dedupe import dedupe
from threads.lossless.texts import ThreadTexts
from threads.lossless.turns import LoadedTurn, MarkedTurn

_LEAST_CHARACTERS: Final = 12
# Digits, the letters that neither plurals nor words of politeness have, and the first bytes of the
# Chinese characters that are no particles: `dedupe` never takes texts for one that differ in these.
_TELLING: Final = frozenset(b"0123456789bcdfgjkmxz\xe4\xe6\xe9")
_IDLE: Final = bytes(code for code in range(256) if code not in _TELLING)


class Repeats:
    """Finds repeated questions and answers; each stretch of turns is compared once."""

    def __init__(self, *, texts: ThreadTexts, turns: Sequence[LoadedTurn]) -> None:
        """Take the turns that may be compared, oldest first."""
        self._texts = texts
        self._turns = turns
        self._found: dict[tuple[int, int], dict[int, MarkedTurn]] = {}

    def marked(self, *, head_to: int, start: int) -> dict[int, MarkedTurn]:
        """Return, by their places from `start` on, turns with marks for what they repeat.

        That stands before them, in the first `head_to` turns or from `start` on, and costs more
        than the mark.
        """
        if (head_to, start) not in self._found:
            places = [*range(head_to), *range(start, len(self._turns))]
            self._found[head_to, start] = {
                at: marked for at, marked in self._compared(places) if at >= start
            }
        return self._found[head_to, start]

    def _compared(self, places: Sequence[int]) -> Iterator[tuple[int, MarkedTurn]]:
        turns = [self._turns[at] for at in places]
        said = [text for turn in turns for text in (turn.question, turn.answer)]
        ids = [name for turn in turns for name in (turn.question_id, turn.answer_id)]
        shown = [
            text if first == number else self._shorter(text, ids[first])
            for number, (text, first) in enumerate(zip(said, firsts_of(said), strict=True))
        ]
        for number, (at, turn) in enumerate(zip(places, turns, strict=True)):
            question, answer = shown[2 * number : 2 * number + 2]
            if (question, answer) != (turn.question, turn.answer):
                yield (
                    at,
                    MarkedTurn(user_text=question, assistant_text=answer, is_failed=turn.is_failed),
                )

    def _shorter(self, text: str, message_id: str) -> str:
        mark = self._texts.wording.mark_of_same(message_id=message_id)
        return mark if self._texts.count(mark) < self._texts.count(text) else text


def firsts_of(texts: Sequence[str]) -> list[int]:
    """Return for each text the place of the first that it repeats, or its own.

    Decided by `dedupe`, but only asked about texts that could be alike and that cost more than a
    mark. Cost: about 2 µs a text that is like no other.
    """
    groups: dict[bytes, list[int]] = {}
    for place, text in enumerate(texts):
        if len(text) >= _LEAST_CHARACTERS:
            groups.setdefault(_outline(text), []).append(place)
    firsts = list(range(len(texts)))
    for places in groups.values():
        if len(places) > 1:
            alike = dedupe([texts[place] for place in places])
            for place, first in zip(places, alike, strict=True):
                firsts[place] = places[first]
    return firsts


def _outline(text: str) -> bytes:
    """Return what texts that are alike have in common, in order: see `_TELLING`."""
    return text.lower().encode("utf-8", "surrogatepass").translate(None, _IDLE)
