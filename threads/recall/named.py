"""Counting which entities people named: the inputs of succeeded runs raise their weight."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from governance.entities.weights import Asked, count_hits
from memory.scope import Scope
from memory.store import NewRecall
from threads.models import Run, RunOrigin


def count_named(
    *, scope: Scope, end_user_id: str, turns: Sequence[NewRecall], takes_all: bool, now: datetime
) -> int:
    """Raise the weights of what some new turns of a person named; return how many rose.

    Inside the caller's transaction. Cost: one statement, and for each turn one, four where it names
    something.

    Args:
        scope: The tenant's, without a person.
        end_user_id: Whose turns they are.
        turns: New ones, as the gate let them through.
        takes_all: Whether turns made elsewhere teach as well (policy `learn_from_turns`).
        now: When.
    """
    runs = Run.objects.in_scope(scope).filter(pk__in=[turn.run_id for turn in turns])
    if not takes_all:
        runs = runs.filter(origin=RunOrigin.RUN)
    teaching = set(runs.values_list("pk", flat=True))
    return sum(
        count_hits(
            scope=scope,
            asked=Asked(
                end_user_id=end_user_id, run_id=turn.run_id, text=turn.said.text, at=turn.said_at
            ),
            now=now,
        )
        for turn in turns
        if turn.run_id in teaching and turn.said is not None
    )
