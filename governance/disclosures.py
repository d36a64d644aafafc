"""Writing down what was shown to whom: always inside the transaction that made it ready."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from governance.audit import AuditOutsideTransactionError
from governance.models import Disclosure, DisclosureKind
from memory.ids import is_id
from memory.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What one prompt shows to which model.

    Attributes:
        kind: How it is shown.
        run_id: The run, or the trace's id where a context was only assembled.
        thread_id: The thread; None where nothing was said yet.
        agent_id: The agent, and in `provider_id` and `model` what it talks to.
        key_id: Whose key asked.
        item_ids: In prompt order.
    """

    kind: DisclosureKind
    run_id: str
    thread_id: str | None
    agent_id: str
    key_id: str
    provider_id: str
    model: str
    item_ids: tuple[str, ...]


def record(*, scope: Scope, shown: Shown, now: datetime) -> None:
    """Append one row. Cost: one INSERT, and the one of the trigger that has it sealed.

    Args:
        scope: Names tenant and person; a person that is not known yet is left out.
        shown: What is shown; whatever is no id of ours is left out, and what is named twice.
        now: When it is shown.

    Raises:
        AuditOutsideTransactionError: No transaction is open, so prompt and row could part.
    """
    if not transaction.get_connection().in_atomic_block:
        raise AuditOutsideTransactionError
    Disclosure.objects.create(
        tenant_id=scope.tenant_id,
        at=now,
        kind=shown.kind,
        subject_id=scope.user_id,
        run_id=shown.run_id,
        thread_id=shown.thread_id,
        agent_id=shown.agent_id,
        key_id=shown.key_id,
        provider_id=shown.provider_id,
        model=shown.model,
        item_ids=list(dict.fromkeys(one for one in shown.item_ids if is_id(one))),
    )
