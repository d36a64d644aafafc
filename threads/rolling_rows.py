"""What a packed past of the strategy rolling says of itself: its items and its ledger rows. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from memory.boundary import HistoryTurn, Wording
from memory.ledger import CUT, Dropped
from memory.tokens import estimate
from memory.trust import ContextItem, Source
from threads.history import ThreadView, TurnHead
from threads.turn_cutting import FittedTurn, shown_tokens

_MOST_NAMED: Final = 50  # the ledger is stored with every run


def rolling_items(
    *,
    thread_id: str,
    wording: Wording,
    summaries: Sequence[tuple[str, datetime | None]],
    turns: Sequence[tuple[TurnHead, FittedTurn]],
) -> tuple[ContextItem, ...]:
    """Return the items of a thread section: what is told of old turns, then the turns shown.

    Each of `summaries` comes with the time of the last turn it tells of.
    """
    found = [
        ContextItem(
            section="thread",
            kind="summary",
            id=thread_id,
            tier="derived",
            source=Source(kind="thread", id=thread_id),
            created_at=at,
            content=text,
            tokens=estimate(text),
        )
        for text, at in summaries
        if text
    ]
    found += [
        ContextItem(
            section="thread",
            kind="turn",
            id=head.run_id,
            tier="observed",
            source=Source(kind="run", id=head.run_id, external_id=head.external_id),
            created_at=head.created_at,
            content=_shown(turn, wording),
            tokens=shown_tokens(turn, wording=wording),
        )
        for head, turn in turns
    ]
    return tuple(found)


def _shown(turn: HistoryTurn, wording: Wording) -> str:
    """Return what the prompt shows of a turn: the question, then the answer."""
    answer = wording.failed_placeholder if turn.is_failed else turn.assistant_text
    return f"{wording.user_label} {turn.user_text}\n{wording.assistant_label} {answer}"


def summary_rows(*, thread_id: str, whole: str, shown: str) -> list[Dropped]:
    """Name a summary that is not there, or not all of it."""
    if shown == whole:
        return []
    tokens = max(estimate(whole) - estimate(shown), 0)
    reason = CUT if shown else "section_cap"
    return [Dropped(kind="summary", id=thread_id, tokens=tokens, reason=reason)]


def awaiting_rows(*, view: ThreadView, awaiting: Sequence[TurnHead]) -> list[Dropped]:
    """Name the turns the prompt lacks; those too many to list are one row with their numbers."""
    rows = []
    named = awaiting[-_MOST_NAMED:]
    older = awaiting[: len(awaiting) - len(named)]
    if view.older_uncovered or older:
        numbers = f"{view.upto_seq + 1}-{(named or view.heads)[0].seq - 1}"
        tokens = view.older_tokens + sum(head.tokens for head in older)
        rows.append(Dropped(kind="turns", id=numbers, tokens=tokens, reason="awaiting_summary"))
    rows += [
        Dropped(kind="turn", id=head.run_id, tokens=head.tokens, reason="awaiting_summary")
        for head in named
    ]
    return rows


def cut_rows(turns: Sequence[tuple[TurnHead, FittedTurn]]) -> list[Dropped]:
    """Name the turns that are shown with their middle left out, by what is missing of them."""
    return [
        Dropped(kind="turn", id=head.run_id, tokens=turn.left_out_tokens, reason=CUT)
        for head, turn in turns
        if turn.left_out_tokens
    ]
