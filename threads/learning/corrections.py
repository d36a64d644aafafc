"""Taking a correction that a person made in a thread, about one of its messages or about none."""

from __future__ import annotations

from datetime import datetime

from governance.entities.corrections import Place, Said, record_correction
from governance.models import Correction
from memory.errors import NotFoundError
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.models import Message, Thread


def correct(
    *, scope: Scope, thread: Thread, message_id: str | None, said: Said, now: datetime
) -> Correction:
    """Store a correction of a thread's person. Cost: one query for the message, and its storing.

    Args:
        scope: Reaches the thread.
        thread: Where it was made.
        message_id: The message it is about.
        said: What was put right.
        now: When.

    Raises:
        NotFoundError: The message is not of this thread.
        NotRememberedError: The gate lets it not through.
    """
    own = scope.narrowed(user_id=thread.end_user_id)
    run_id, status = None, None
    if message_id is not None:
        with scoped_transaction(own):
            rows = Message.objects.in_scope(own).filter(pk=message_id, thread_id=thread.pk)
            found = rows.values_list("run_id", "run__status").first()
        if found is None:
            raise NotFoundError
        run_id, status = found
    place = Place(
        end_user_id=thread.end_user_id,
        thread_id=thread.pk,
        message_id=message_id,
        run_id=run_id,
        run_status=status,
    )
    return record_correction(scope=own, place=place, said=said, now=now)
