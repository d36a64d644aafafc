"""The account of one prompt: a row a section, wanted, granted and dropped, and what it decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memory.ledger import Dropped, Ledger, SectionRow
from memory.tokens import estimate
from threads.past import PackedPast
from threads.prompt.given import PromptInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """What nothing can be taken from, in estimated tokens; and the same by the real count."""

    estimated: int
    counted: int
    announcement: int
    characters: int


def _refused(row: SectionRow) -> SectionRow:
    """Return a row of a refused prompt: all that was wanted is named as dropped."""
    gone = Dropped(kind="section", id=row.name, tokens=row.wanted, reason="rejected")
    return replace(row, granted=0, items=0, dropped=(gone,) if row.wanted else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a prompt.

    Attributes:
        decision: The precheck's decision.
        wanted: What all candidates would have cost, as estimated, without the irreducible part.
        sent: What the prompt costs as its model counts, 0 if it was rejected.
        share: The tokens of the model for each estimated one, at most 1.
    """

    decision: str
    wanted: int
    sent: int = 0
    share: float = 1.0


def past_row(given: PromptInput, packed: PackedPast) -> SectionRow:
    """Return the row of the thread's past."""
    return SectionRow(
        name="thread",
        cap=min(given.past.usual_cap(), given.limit),
        wanted=packed.wanted,
        granted=packed.tokens,
        items=len(packed.items),
        dropped=packed.dropped,
    )


def account(
    given: PromptInput, rows: Sequence[SectionRow], fixed: Fixed, *, outcome: Outcome
) -> Ledger:
    """Return the ledger of a prompt from its rows; of a rejected one everything is dropped.

    Rows are packed by the heuristic. Where that put the prompt higher than its model will count,
    they are scaled down alike, so that what was granted never adds up to more than what is sent.

    Args:
        given: What the prompt was made from.
        rows: The sections' rows, in any order.
        fixed: The irreducible part.
        outcome: What became of them.
    """
    kept = sorted((row for row in rows if row.wanted), key=lambda row: row.position)
    asked = estimate(given.question)
    request = SectionRow(name="request", cap=given.limit, wanted=asked, granted=asked, items=1)
    # Both are in what is fixed already, and are counted in `current_tokens` as that.
    own = (given.behaviour.row,) if given.behaviour.row else ()
    shown = [_scaled(row, outcome.share) for row in (*own, *kept, request)]
    framing = fixed.announcement if kept else 0
    with_all = fixed.counted + round(outcome.wanted * outcome.share) + framing
    is_rejected = outcome.decision == "reject"
    return Ledger(
        decision=outcome.decision,
        # Estimated piece by piece, so a little apart from the whole: never below what is sent.
        current_tokens=max(with_all, outcome.sent),
        prompt_tokens=outcome.sent,
        target_budget=given.target,
        context_window=given.agent.context_window,
        candidate_count=sum(row.candidates for row in (*own, *kept)),
        sections=[_refused(row) if is_rejected else row for row in shown],
        retrieval=given.retrieval,
    )


def _scaled(row: SectionRow, share: float) -> SectionRow:
    """Return a row in the tokens of the model; wanted stays what was granted and what was not."""
    if share == 1:
        return row
    dropped = [replace(gone, tokens=scale(gone.tokens, share)) for gone in row.dropped]
    granted = scale(row.granted, share)
    wanted = granted + sum(gone.tokens for gone in dropped)
    return replace(row, wanted=wanted, granted=granted, dropped=dropped)


def scale(tokens: int, share: float) -> int:
    """Return that share of some tokens, rounded down; something stays something."""
    return max(int(tokens * share), 1) if tokens else 0
