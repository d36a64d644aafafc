"""Which core facts a turn used: those that its prompt showed and its request or answer refers to.

All facts are in every prompt of their person, so being shown alone would tell nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from governance.core.facts import touch
from governance.core.words import share_said
from memory.cleared import Cleared
from memory.ids import is_id
from memory.models import CoreFact
from memory.scope import Scope
from threads.recall.learning import LearnedTurn

# From this share of a fact's telling words in a request or an answer on, that refers to it.
_REFERS: Final = 0.5


def use_facts(*, scope: Scope, end_user_id: str, turns: Sequence[LearnedTurn]) -> list[str]:
    """Note when the facts that turns refer to were used, and return what else was shown, with those.

    Inside the caller's transaction; the caller sees to it that each turn is counted once. Cost: one
    query where prompts showed facts, two more for each turn that refers to some.

    Args:
        scope: The tenant's.
        end_user_id: Whose turns they are.
        turns: New ones, with what their prompts showed.
    """
    shown = [used for turn in turns for used in turn.shown]
    fact_ids = {used for used in shown if is_id(used, prefix="fact")}
    if not fact_ids:
        return shown
    rows = CoreFact.objects.in_scope(scope).filter(pk__in=fact_ids, end_user_id=end_user_id)
    facts = dict(rows.values_list("pk", "fact"))
    used = [one for one in shown if one not in fact_ids]
    for turn in turns:
        referred = _referred_to(turn, facts)
        used += referred
        touch(scope=scope, end_user_id=end_user_id, fact_ids=referred, now=turn.recall.said_at)
    return used


def _referred_to(turn: LearnedTurn, facts: dict[str, str]) -> list[str]:
    said, answered = _text(turn.recall.said), _text(turn.recall.answered)
    return [
        fact_id
        for fact_id in turn.shown
        if fact_id in facts
        and max(share_said(fact=facts[fact_id], said=text) for text in (said, answered)) >= _REFERS
    ]


def _text(part: Cleared | None) -> str:
    return part.text if part is not None else ""
