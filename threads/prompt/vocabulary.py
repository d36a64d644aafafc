"""The tenant's terms that a request names, as lines of reference material, dated and weighed."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from memory.models import Entity, EntityStatus
from memory.retrieval.expansion import Expansion
from memory.sanitize import sanitize
from memory.scope import Scope
from memory.sections import Candidate
from memory.trust import ContextItem, Source
from threads.prompt.given import PromptInput

_SECTION: Final = "reference"
_MOST_ALIASES: Final = 8
_KIND: Final = "entity"
_TIER: Final = "approved"


def with_vocabulary(*, given: PromptInput, scope: Scope, named: Expansion) -> PromptInput:
    """Return the input with a line for each entity that its request names, before what was found.

    Inside the caller's transaction. Cost: nothing where none is named, else one statement.
    """
    if not named:
        return given
    rows = Entity.objects.in_scope(scope).filter(
        pk__in=[one.id for one in named.entities], status=EntityStatus.ACTIVE
    )
    is_zh = given.wording.language == "zh"
    mine = [_candidate(row, is_zh=is_zh) for row in rows.order_by("-weight", "id")]
    others = given.remembered.get(_SECTION, ())
    return replace(given, remembered={**given.remembered, _SECTION: [*mine, *others]})


def _candidate(entity: Entity, *, is_zh: bool) -> Candidate:
    # Cleaned before it stands in a line of ours: a role's name at its head would no longer be one.
    text = sanitize(_line(entity, is_zh=is_zh)).text
    item = ContextItem(
        section=_SECTION,
        kind=_KIND,
        id=entity.pk,
        tier=_TIER,
        source=Source(kind="entity"),
        created_at=entity.created_at,
        approved_at=entity.approved_at,
        weight=round(entity.weight, 4),
        content=text,
    )
    return Candidate(item=item, label="", text=text)


def _line(entity: Entity, *, is_zh: bool) -> str:
    aliases = entity.aliases[:_MOST_ALIASES]
    if is_zh:
        also = f"；又称：{'、'.join(aliases)}" if aliases else ""
        return f"{entity.term}（{entity.entity_type}{also}）"
    also = f"; also: {', '.join(aliases)}" if aliases else ""
    return f"{entity.term} ({entity.entity_type}{also})"
