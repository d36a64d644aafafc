"""Where the whole of a turn cut in the middle is to be found: the ids of its messages."""

from __future__ import annotations

from collections.abc import Sequence

from memory.boundary import Wording
from memory.scope import Scope
from threads.models import Message
from threads.turn_cutting import CutMarks


def read_marks(*, scope: Scope, wording: Wording, run_ids: Sequence[str]) -> dict[str, CutMarks]:
    """Return, per run, what stands where its question and its answer were cut. Cost: one query."""
    rows = (
        Message.objects.in_scope(scope)
        .filter(run_id__in=run_ids, role__in=("user", "assistant"))
        .order_by("run_id", "position")
        .values_list("run_id", "role", "id")
    )
    found: dict[tuple[str, str], str] = {}
    for run_id, role, message_id in rows:
        # A run's question is its first user message, its answer the last of the assistant's.
        if role == "assistant" or (run_id, role) not in found:
            found[run_id, role] = message_id
    return {
        run_id: CutMarks(
            question=wording.mark_of_cut(message_id=found.get((run_id, "user"), run_id)),
            answer=wording.mark_of_cut(message_id=found.get((run_id, "assistant"), run_id)),
        )
        for run_id in run_ids
    }
