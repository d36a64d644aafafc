"""The account of one prompt: a row a section, wanted, granted and dropped, and what it decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memory.ledger import Dropped, Ledger, SectionRow
from memory.tokens import estimate
from threads.past import PackedPast
from threads.prompt_input import PromptInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """What nothing can be taken from, in estimated tokens; and the same by the real count."""

    estimated: int
    counted: int
    announcement: int


def _refused(row: SectionRow) -> SectionRow:
    """Return a row of a refused prompt: all that was wanted is named as dropped."""
    gone = Dropped(kind="section", id=row.name, tokens=row.wanted, reason="rejected")
    return replace(row, granted=0, items=0, dropped=(gone,) if row.wanted else ())


def past_row(given: PromptInput, packed: PackedPast) -> SectionRow:
    """Return the row of the thread's past."""
    return SectionRow(
        name="thread",
        cap=min(given.past.usual_cap(), given.target),
        wanted=packed.wanted,
        granted=packed.tokens,
        items=len(packed.items),
        dropped=packed.dropped,
    )


def account(
    given: PromptInput, rows: Sequence[SectionRow], fixed: Fixed, *, decision: str, sent: int
) -> Ledger:
    """Return the ledger of a prompt from its rows; of a rejected one everything is dropped.

    Args:
        given: What the prompt was made from.
        rows: The sections' rows, in any order.
        fixed: The irreducible part.
        decision: The precheck's decision.
        sent: What the prompt costs as sent, 0 if it was rejected.
    """
    kept = sorted((row for row in rows if row.wanted), key=lambda row: row.position)
    asked = estimate(given.question)
    request = SectionRow(name="request", cap=given.target, wanted=asked, granted=asked, items=1)
    framing = fixed.announcement if kept else 0
    with_all = fixed.counted + sum(row.wanted for row in kept) + framing
    return Ledger(
        decision=decision,
        # Estimated piece by piece, so a little apart from the whole: never below what is sent.
        current_tokens=max(with_all, sent),
        prompt_tokens=sent,
        target_budget=given.target,
        context_window=given.agent.context_window,
        candidate_count=sum(row.candidates for row in kept),
        sections=[_refused(row) if decision == "reject" else row for row in (*kept, request)],
    )
