"""Texts of a lossless thread that say again what an earlier message says. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from threads.lossless_texts import ThreadTexts
from threads.lossless_turns import LoadedTurn, MarkedTurn, same_mark


class Repeats:
    """Finds repeated questions and answers; comparing is done once, at the first look."""

    def __init__(self, *, texts: ThreadTexts, turns: Sequence[LoadedTurn]) -> None:
        """Take the turns that may be compared, oldest first."""
        self._texts = texts
        self._turns = turns
        self._firsts: Sequence[int] = ()

    def marked(self, *, head_to: int, start: int) -> dict[int, MarkedTurn]:
        """Return, by their places from `start` on, turns with marks for what they repeat.

        That stands before them, in the first `head_to` turns or from `start` on, and costs more
        than the mark.
        """
        if not self._firsts:
            self._firsts = _firsts([text for turn in self._turns for text in _said(turn)])
        seen: dict[int, str] = {}
        found: dict[int, MarkedTurn] = {}
        for at in (*range(head_to), *range(start, len(self._turns))):
            turn = self._turns[at]
            ids = (turn.question_id, turn.answer_id)
            named = [
                seen.setdefault(alike, message_id)
                for alike, message_id in zip(self._firsts[2 * at : 2 * at + 2], ids, strict=True)
            ]
            if at >= start and any(name != own for name, own in zip(named, ids, strict=True)):
                question, answer = (
                    text if name == own else self._shorter(text, name)
                    for text, name, own in zip(_said(turn), named, ids, strict=True)
                )
                if (question, answer) != _said(turn):
                    found[at] = MarkedTurn(
                        user_text=question, assistant_text=answer, is_failed=turn.is_failed
                    )
        return found

    def _shorter(self, text: str, message_id: str) -> str:
        mark = same_mark(wording=self._texts.wording, message_id=message_id)
        return mark if self._texts.count(mark) < self._texts.count(text) else text


def _said(turn: LoadedTurn) -> tuple[str, str]:
    return turn.question, turn.answer


def _firsts(texts: Sequence[str]) -> list[int]:
    """Return for each text the place of the first that is equal after folding."""
    seen: dict[str, int] = {}
    return [seen.setdefault(_folded(text), place) for place, text in enumerate(texts)]


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
