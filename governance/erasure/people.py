"""The person whom an act of erasure is about: one tenant, one locked row."""

from __future__ import annotations

from dataclasses import replace

from memory.errors import NotFoundError
from memory.models import EndUser
from memory.scope import Scope


def one_tenant(scope: Scope, tenant_id: str) -> Scope:
    """Return the scope of an act in one of its tenants, as wide in it as it was.

    Raises:
        ScopeError: The scope has not that tenant.
    """
    narrowed = scope.for_tenant(tenant_id=tenant_id)
    return replace(narrowed, thread_id=None)


def lock_person(*, scope: Scope, person_id: str) -> EndUser:
    """Return a person's row locked until the caller's transaction ends; writers go on.

    Whoever asks for an erasure or a hold comes through here, so one sees what the other did.

    Raises:
        NotFoundError: The person is gone, or is being erased.
    """
    rows = EndUser.objects.in_scope(scope).filter(pk=person_id, erasing_at__isnull=True)
    person = rows.select_for_update(no_key=True).first()
    if person is None:
        raise NotFoundError
    return person
