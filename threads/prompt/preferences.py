"""The section preferences: all that the person prefers of an agent in this role, on every turn."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from governance.items.items import active_items
from memory.language import Language
from memory.models import ItemCategory, MemoryItem
from memory.sanitize import sanitize
from memory.scope import Scope
from memory.sections import Candidate
from memory.trust import ContextItem, Source

SECTION: Final = "preferences"
KIND: Final = "item"
_TIERS: Final[dict[Language, dict[str, str]]] = {
    "zh": {
        "approved": "已确认",
        "stated": "用户所述",
        "observed": "对话中所见",
        "untrusted": "不可信",
    },
    "en": {},
}


def preference_candidates(
    *, scope: Scope, role: str, language: Language, now: datetime
) -> list[Candidate]:
    """Return the preferences of the scope's person for a role, the last written first.

    Inside the caller's transaction. Cost: one query; none for somebody who is not known yet.
    """
    if scope.user_id is None:
        return []
    rows = active_items(scope=scope, now=now).filter(
        end_user_id=scope.user_id, role=role, category=ItemCategory.USER_PREFERENCES
    )
    return [_candidate(item, language) for item in rows.order_by("-updated_at", "-id")]


def _candidate(item: MemoryItem, language: Language) -> Candidate:
    # Cleaned before it stands in a line of ours: a role's name at its head would no longer be one.
    title, text = sanitize(item.title).text, sanitize(item.content).text
    tier = _TIERS[language].get(item.tier, item.tier)
    label = f"{title}（{tier}）" if language == "zh" else f"{title} ({tier})"
    shown = ContextItem(
        section=SECTION,
        kind=KIND,
        id=item.pk,
        tier=item.tier,
        source=Source(kind=item.origin, id=item.run_id),
        created_at=item.updated_at,
        confidence=item.confidence,
        content=f"{title}: {text}",
    )
    return Candidate(item=shown, label=label, text=text)
