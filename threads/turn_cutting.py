"""Fitting the last turns of a thread into their tokens: cut in the middle, never left out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from memory.boundary import HistoryTurn, Wording
from memory.sanitize import sanitize
from memory.tokens import estimate, truncate_middle

# What the two labels and line ends of a turn cost in a prompt, in tokens.
TURN_OVERHEAD_TOKENS: Final = 10
LEAST_TURN_TOKENS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class CutMarks:
    """What stands where the middle of a turn's question and answer was left out."""

    question: str
    answer: str


def shown_tokens(turn: HistoryTurn, *, wording: Wording) -> int:
    """Estimate what a turn costs as the prompt shows it; a failed one shows its placeholder."""
    answer = wording.failed_placeholder if turn.is_failed else turn.assistant_text
    return estimate(turn.user_text) + estimate(answer) + TURN_OVERHEAD_TOKENS


def fit_turns(
    *,
    turns: Sequence[HistoryTurn],
    wording: Wording,
    limit: int,
    read_marks: Callable[[], Sequence[CutMarks]],
) -> list[HistoryTurn]:
    """Return the turns cleaned, and cut in the middle until together they cost at most `limit`.

    Later turns get the larger share. `read_marks` is asked only if something must be cut. Cost: a
    few estimates of the whole texts, cleaning only of what remains of them.
    """
    if sum(shown_tokens(turn, wording=wording) for turn in turns) <= limit:
        cleaned = [_cleaned(turn) for turn in turns]
        # Cleaning can lengthen a text by its marks.
        if sum(shown_tokens(turn, wording=wording) for turn in cleaned) <= limit:
            return cleaned
        turns = cleaned
    marks = read_marks()
    cut = [_cleaned(turn) for turn in _cut_all(turns, marks, wording, limit)]
    return _cut_all(cut, marks, wording, limit)


def _cleaned(turn: HistoryTurn) -> HistoryTurn:
    return replace(
        turn,
        user_text=sanitize(turn.user_text).text,
        assistant_text="" if turn.is_failed else sanitize(turn.assistant_text).text,
    )


def _cut_all(
    turns: Sequence[HistoryTurn], marks: Sequence[CutMarks], wording: Wording, limit: int
) -> list[HistoryTurn]:
    costs = [shown_tokens(turn, wording=wording) for turn in turns]
    left = limit
    cut: list[HistoryTurn] = []
    for place in reversed(range(len(turns))):
        for_older = min(sum(costs[:place]), left // 2)
        share = left - for_older
        turn = turns[place]
        if costs[place] > share:
            turn = _cut_turn(turn, max(share, LEAST_TURN_TOKENS), marks[place], wording)
        left = max(left - shown_tokens(turn, wording=wording), 0)
        cut.append(turn)
    cut.reverse()
    return cut


def _cut_turn(turn: HistoryTurn, share: int, marks: CutMarks, wording: Wording) -> HistoryTurn:
    room = max(share - TURN_OVERHEAD_TOKENS, 2)
    if turn.is_failed:
        left = max(room - estimate(wording.failed_placeholder), 1)
        return replace(turn, user_text=_cut_text(turn.user_text, left, marks.question))
    question, answer = estimate(turn.user_text), estimate(turn.assistant_text)
    for_answer = min(answer, max(room - question, room // 2))
    return replace(
        turn,
        user_text=_cut_text(turn.user_text, room - for_answer, marks.question),
        assistant_text=_cut_text(turn.assistant_text, for_answer, marks.answer),
    )


def _cut_text(text: str, most: int, mark: str) -> str:
    return truncate_middle(text, max_tokens=max(most, 1), mark=mark) if text else ""
