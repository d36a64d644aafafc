"""The rows that entries lead to: what a turn left behind, and the stretches of a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection

from memory.cleared import Cleared
from memory.ids import new_id
from memory.scope import Scope
from memory.store.shelves import Owner

_RECALL: Final = """
    INSERT INTO memory_recallentry (id, tenant_id, end_user_id, thread_id, run_id, agent_id, role,
        said, answered, speaker, external_id, tier, said_at, created_at)
    SELECT given.id, %(tenant)s, %(end_user)s, %(thread)s, given.run_id, %(agent)s, %(role)s,
        said, answered, speaker, external_id, tier, said_at, %(now)s
    FROM unnest(%(ids)s::text[], %(runs)s::text[], %(said)s::text[], %(answered)s::text[],
        %(speakers)s::text[], %(external_ids)s::text[], %(tiers)s::text[],
        %(times)s::timestamptz[])
        AS given (id, run_id, said, answered, speaker, external_id, tier, said_at)
    ON CONFLICT (tenant_id, run_id) DO NOTHING RETURNING run_id, id
"""
_CHUNKS: Final = """
    INSERT INTO memory_knowledgechunk (id, tenant_id, end_user_id, team_id, document_id, position,
        start_char, end_char, heading, content, created_at)
    SELECT given.id, %(tenant)s, %(end_user)s, %(team)s, %(document)s, position, start_char,
        end_char, heading, content, %(now)s
    FROM unnest(%(ids)s::text[], %(positions)s::int[], %(starts)s::int[], %(ends)s::int[],
        %(headings)s::text[], %(contents)s::text[])
        AS given (id, position, start_char, end_char, heading, content)
    ON CONFLICT (tenant_id, document_id, position) DO NOTHING RETURNING position, id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where turns took place: whose thread, with which agent in which role."""

    end_user_id: str
    thread_id: str
    agent_id: str
    role: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecall:
    """One succeeded turn as the gate let it through; None where it let nothing through."""

    run_id: str
    said: Cleared | None
    answered: Cleared | None
    tier: str
    said_at: datetime
    speaker: Cleared | None = None
    external_id: str | None = None

    @property
    def texts(self) -> tuple[Cleared, ...]:
        """All that is kept of it."""
        return tuple(one for one in (self.said, self.answered, self.speaker) if one is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewChunk:
    """One stretch of a document, by its place and its characters, end exclusive."""

    position: int
    start_char: int
    end_char: int
    content: Cleared
    heading: Cleared | None = None


def add_recall(
    *, scope: Scope, origin: Origin, turns: Sequence[NewRecall], now: datetime
) -> dict[str, str]:
    """Store what turns of one thread left behind; return the ids of the new ones by run.

    A run that has its entry already is passed over. Cost: one statement.

    Raises:
        IntegrityError: A run has not succeeded, is gone, or is not of this thread and person.
    """
    values: dict[str, Any] = {
        "tenant": scope.tenant_id,
        "end_user": origin.end_user_id,
        "thread": origin.thread_id,
        "agent": origin.agent_id,
        "role": origin.role,
        "now": now,
        "ids": [new_id("rec") for _ in turns],
        "runs": [turn.run_id for turn in turns],
        "said": [_text(turn.said) for turn in turns],
        "answered": [_text(turn.answered) for turn in turns],
        "speakers": [_text(turn.speaker) or None for turn in turns],
        "external_ids": [turn.external_id for turn in turns],
        "tiers": [turn.tier for turn in turns],
        "times": [turn.said_at for turn in turns],
    }
    with connection.cursor() as cursor:
        cursor.execute(_RECALL, values)
        return dict(cursor.fetchall())


def add_chunks(
    *, scope: Scope, owner: Owner, document_id: str, chunks: Sequence[NewChunk], now: datetime
) -> dict[int, str]:
    """Store stretches of a document; return the ids of the new ones by position.

    A position that is taken is passed over. Cost: one statement.
    """
    values: dict[str, Any] = {
        "tenant": scope.tenant_id,
        "end_user": owner.end_user_id,
        "team": owner.team_id,
        "document": document_id,
        "now": now,
        "ids": [new_id("chunk") for _ in chunks],
        "positions": [chunk.position for chunk in chunks],
        "starts": [chunk.start_char for chunk in chunks],
        "ends": [chunk.end_char for chunk in chunks],
        "headings": [_text(chunk.heading) for chunk in chunks],
        "contents": [chunk.content.text for chunk in chunks],
    }
    with connection.cursor() as cursor:
        cursor.execute(_CHUNKS, values)
        return dict(cursor.fetchall())


def _text(cleared: Cleared | None) -> str:
    return cleared.text if cleared is not None else ""
