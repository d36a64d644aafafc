"""Fitting the last turns of a thread into their tokens: whole, cut with a mark, or not. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from memory.boundary import HistoryTurn, ToolLine, Wording
from memory.cutting import BARE_MARK, FittedText, fit_text
from memory.sanitize import sanitize
from memory.tokens import estimate

# What the two labels and line ends of a turn cost in a prompt, in tokens.
TURN_OVERHEAD_TOKENS: Final = 10
LEAST_TURN_TOKENS: Final = 40
_LINE_OVERHEAD_TOKENS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class CutMarks:
    """What stands where the middle of a turn's question and answer was left out."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedTurn(HistoryTurn):
    """A cleaned turn as the prompt shows it; `left_out_tokens` is 0 only if it is whole."""

    left_out_tokens: int = 0


def shown_tokens(turn: HistoryTurn, *, wording: Wording) -> int:
    """Estimate what a turn costs as the prompt shows it; a failed one shows its placeholder."""
    answer = wording.failed_placeholder if turn.is_failed else turn.assistant_text
    told = estimate(turn.user_text) + estimate(answer) + TURN_OVERHEAD_TOKENS
    return told + sum(line_tokens(line) for line in turn.tool_lines)


def line_tokens(line: ToolLine) -> int:
    """Estimate what one tool line costs, its frame included."""
    parts = (line.name, line.arguments, line.result, line.reference_id)
    return sum(estimate(part) for part in parts) + _LINE_OVERHEAD_TOKENS


def referenced(turn: HistoryTurn) -> HistoryTurn:
    """Return a turn whose tool lines keep no more than the tool's name and the reference id."""
    if not turn.tool_lines:
        return turn
    bare = tuple(replace(line, arguments="…", result="…") for line in turn.tool_lines)
    return replace(turn, tool_lines=bare)


def cleaned_turn(turn: HistoryTurn) -> FittedTurn:
    """Return a turn whole and cleaned, without what a failed one put out."""
    return FittedTurn(
        user_text=sanitize(turn.user_text).text,
        assistant_text="" if turn.is_failed else sanitize(turn.assistant_text).text,
        is_failed=turn.is_failed,
        tool_lines=turn.tool_lines,
    )


def fit_turns(
    *,
    turns: Sequence[HistoryTurn],
    wording: Wording,
    limit: int,
    read_marks: Callable[[], Sequence[CutMarks]],
) -> list[FittedTurn]:
    """Return the turns cleaned, and cut in the middle until together they cost at most `limit`.

    Later turns get the larger share, and each at least `LEAST_TURN_TOKENS`, even if that is more
    than `limit`. A turn without room for a mark and a few characters is missing, with those before
    it. `read_marks` is asked only if something must be cut. Cost: a few estimates of the whole
    texts; texts beyond `limit` are cut before they are cleaned.
    """
    if all(shown_tokens(turn, wording=wording) <= limit for turn in turns):
        # Cleaning can lengthen a text by its marks: only now is it known whether they fit.
        cleaned = [cleaned_turn(turn) for turn in turns]
        if sum(shown_tokens(turn, wording=wording) for turn in cleaned) <= limit:
            return cleaned
        turns = cleaned
    return _cut_all(turns, read_marks(), wording, limit)


def _cut_all(
    turns: Sequence[HistoryTurn], marks: Sequence[CutMarks], wording: Wording, limit: int
) -> list[FittedTurn]:
    costs = [shown_tokens(turn, wording=wording) for turn in turns]
    left = limit
    cut: list[FittedTurn] = []
    for place in reversed(range(len(turns))):
        for_older = min(sum(costs[:place]), left // 2)
        share = max(left - for_older, LEAST_TURN_TOKENS)
        turn = _cut_turn(turns[place], share, marks[place], wording)
        if turn is None:
            break
        left = max(left - shown_tokens(turn, wording=wording), 0)
        cut.append(turn)
    cut.reverse()
    return cut


def _cut_turn(
    turn: HistoryTurn, share: int, marks: CutMarks, wording: Wording
) -> FittedTurn | None:
    """Return a turn within `share` tokens; None if one of its texts has no place in them."""
    told = sum(line_tokens(line) for line in turn.tool_lines)
    lines = referenced(turn).tool_lines
    while lines and sum(line_tokens(line) for line in lines) > share // 3:
        lines = lines[1:]
    room = share - TURN_OVERHEAD_TOKENS - sum(line_tokens(line) for line in lines)
    if turn.is_failed:
        room -= estimate(wording.failed_placeholder)
        question = _fit(turn.user_text, room, marks.question)
        answer: FittedText | None = FittedText(text="")
    else:
        wanted = _clean_cost(turn.user_text, room)
        answered = _clean_cost(turn.assistant_text, room)
        for_answer = min(answered, max(room - wanted, room // 2))
        question = _fit(turn.user_text, room - for_answer, marks.question)
        answer = _fit(turn.assistant_text, for_answer, marks.answer)
    if question is None or answer is None:
        return None
    return FittedTurn(
        user_text=question.text,
        assistant_text=answer.text,
        is_failed=turn.is_failed,
        left_out_tokens=question.left_out_tokens
        + answer.left_out_tokens
        + told
        - sum(line_tokens(line) for line in lines),
        tool_lines=lines,
    )


def _clean_cost(text: str, room: int) -> int:
    """Estimate a text as cleaned, if it could be in the prompt whole, else as it is."""
    cost = estimate(text)
    return cost if cost > room else estimate(sanitize(text).text)


def _fit(text: str, most: int, mark: str) -> FittedText | None:
    return fit_text(text, most=most, marks=(mark, BARE_MARK))
