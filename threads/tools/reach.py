"""Which messages a run's tools reach: the person's, in threads of agents of the same role."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Q

from memory.querysets import ScopedQuerySet
from memory.scope import Scope
from threads.models import Message, MessageRole, RunStatus

# What these answered repeats messages that are there themselves.
_ECHOES: Final = ("memory_grep", "memory_search", "view_message", "view_chat_history_summary")
MOST_EXCERPT_CHARACTERS: Final = 200
_SHARE_BEFORE_HIT: Final = 0.3


def messages_in_reach(*, scope: Scope, role: str) -> ScopedQuerySet[Message]:
    """Return the finished turns' messages of the scope's person with agents of `role`.

    All of succeeded and failed turns; nothing of cancelled, rejected and running ones. `scope`
    names the person.
    """
    rows = Message.objects.in_scope(scope).filter(thread__agent__role=role)
    return rows.filter(run__status__in=(RunStatus.SUCCEEDED, RunStatus.FAILED))


def searchable_messages(*, scope: Scope, role: str) -> ScopedQuerySet[Message]:
    """Return the messages in reach that searching shows, in no order.

    Not what a failed turn answered, and not what our own reading tools did.
    """
    rows = messages_in_reach(scope=scope, role=role)
    rows = rows.filter(Q(run__status=RunStatus.SUCCEEDED) | Q(role=MessageRole.USER))
    return rows.exclude(role=MessageRole.TOOL, name__in=_ECHOES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A piece of a longer text around a hit.

    `before` characters of the text stand before the piece, `length` is that of the whole text, and
    `hit` is where the hit begins in the piece.
    """

    piece: str
    before: int
    length: int
    hit: int = 0

    def excerpt(self, *, most: int = MOST_EXCERPT_CHARACTERS) -> str:
        """Return up to `most` characters on one line, with … where something is left out."""
        start = max(self.hit - int(most * _SHARE_BEFORE_HIT), 0)
        part = self.piece[start : start + most - 2]
        line = " ".join(part.split())
        is_cut_after = self.before + start + len(part) < self.length
        head, tail = ("…" if self.before + start else ""), ("…" if is_cut_after else "")
        return f"{head}{line}{tail}"


def stamp(at: datetime) -> str:
    """Return a time as results show it, to the second, in UTC."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
