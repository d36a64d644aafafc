"""Which messages searching may show: a person's, in threads of agents of one role or of all."""

from __future__ import annotations

from typing import Final

from django.db.models import Q

from memory.querysets import ScopedQuerySet
from memory.scope import Scope
from threads.models import Message, MessageRole, RunStatus

# What these answered repeats what is there itself.
_ECHOES: Final = (
    "memory_grep",
    "memory_search",
    "kb_search",
    "view_message",
    "view_chat_history_summary",
)


def messages_in_reach(*, scope: Scope, role: str | None) -> ScopedQuerySet[Message]:
    """Return the finished turns' messages of the scope's person with agents of `role`, or of any.

    All of succeeded and failed turns; nothing of cancelled, rejected and running ones. `scope`
    names the person.
    """
    rows = Message.objects.in_scope(scope)
    rows = rows if role is None else rows.filter(thread__agent__role=role)
    return rows.filter(run__status__in=(RunStatus.SUCCEEDED, RunStatus.FAILED))


def searchable_messages(*, scope: Scope, role: str | None) -> ScopedQuerySet[Message]:
    """Return the messages in reach that searching shows, in no order.

    Not what a failed turn answered, and not what our own reading tools did.
    """
    rows = messages_in_reach(scope=scope, role=role)
    rows = rows.filter(Q(run__status=RunStatus.SUCCEEDED) | Q(role=MessageRole.USER))
    return rows.exclude(role=MessageRole.TOOL, name__in=_ECHOES)
