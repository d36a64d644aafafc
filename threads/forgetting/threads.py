"""Ending a thread: as complete as an erasure, for this thread alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from governance import access, audit
from governance.access import Principal
from governance.erasure.operations import cancel_runs
from governance.erasure.problems import LegalHoldError
from governance.models import LegalHold
from memory.errors import NotFoundError
from memory.models import EndUser
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.forgetting.turns import drop_thread, forget_turns
from threads.models import FINAL, Run, Thread

DELETED: Final = "thread_deleted"
_BATCH: Final = 200


def delete_thread_of(*, principal: Principal, thread_id: str, now: datetime) -> None:
    """Delete a thread within a key's reach.

    Raises:
        NotFoundError: There is none within reach.
        LegalHoldError: A hold is on its person.
    """
    scope = access.tenant_scope(principal)
    with scoped_transaction(scope):
        rows = Thread.objects.in_scope(scope).filter(pk=thread_id)
        if principal.agent_id is not None:
            rows = rows.filter(agent_id=principal.agent_id)
        thread = rows.select_related("end_user").first()
    if thread is None:
        raise NotFoundError
    access.scope_for_user(principal=principal, end_user=thread.end_user)
    delete_thread(scope=scope, thread_id=thread_id, now=now)


def delete_thread(*, scope: Scope, thread_id: str, now: datetime) -> Mapping[str, int]:
    """Delete a thread with all its turns and what was made of them; return how many rows of what.

    Runs in flight are cancelled first, and whatever they still write finds nothing to write to. In
    batches, each a transaction: what ends half-way is gone on with by the same call. Audited.

    Args:
        scope: The tenant's, or the person's.
        thread_id: The thread.
        now: When.

    Raises:
        NotFoundError: There is none in scope.
        LegalHoldError: A hold is on its person.
    """
    counts: Counter[str] = Counter()
    while True:
        _cancel(scope, thread_id, now)
        with scoped_transaction(scope):
            own = _lock(scope, thread_id)
            with scoped_transaction(own):
                runs = Run.objects.in_scope(own).filter(thread_id=thread_id).order_by("-seq")
                if runs.exclude(status__in=FINAL).exists():
                    continue  # one began meanwhile
                run_ids = list(runs.values_list("pk", flat=True)[:_BATCH])
                if run_ids:
                    counts += forget_turns(
                        scope=own, thread_id=thread_id, run_ids=run_ids, now=now, is_rebuilt=False
                    )
                    continue
                counts += drop_thread(scope=own, thread_id=thread_id)
                _record(own, thread_id, counts, now)
                return counts


def _lock(scope: Scope, thread_id: str, *, is_locked: bool = True) -> Scope:
    """Hold the thread's row, so that no run begins in it, and return the scope of its person."""
    rows = Thread.objects.in_scope(scope).filter(pk=thread_id)
    thread = (rows.select_for_update(of=("self",)) if is_locked else rows).first()
    if thread is None:
        raise NotFoundError
    held = LegalHold.objects.in_scope(scope).filter(
        subject_id=thread.end_user_id, released_at__isnull=True
    )
    if held.exists():
        raise LegalHoldError
    # Whoever erases the person goes on with the thread, too.
    people = EndUser.objects.in_scope(scope).filter(pk=thread.end_user_id, erasing_at__isnull=True)
    if not people.exists():
        raise NotFoundError
    narrow: Scope = scope if scope.user_id else scope.narrowed(user_id=thread.end_user_id)
    return narrow


def _cancel(scope: Scope, thread_id: str, now: datetime) -> None:
    """Cancel what runs, in a transaction of its own."""
    with scoped_transaction(scope):
        _lock(scope, thread_id, is_locked=False)
        cancel_runs(scope=scope, now=now, thread_id=thread_id)


def _record(scope: Scope, thread_id: str, counts: Counter[str], now: datetime) -> None:
    audit.record(
        scope=scope,
        action=DELETED,
        target_kind="thread",
        target_id=thread_id,
        now=now,
        detail={name: number for name, number in sorted(counts.items()) if number},
    )
