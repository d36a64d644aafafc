"""The Scope: who may see what, decided once at the edge and taken by every read and write."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace

from memory.errors import ScopeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A frozen answer of governance.access to "what may this principal touch?".

    Attributes:
        tenant_ids: One id for everything an API key does; several only for staff lists.
        principal_id: Internal id of who acts (`key_…`, `staff:7`, `worker`).
        user_id: Internal `usr_` id of the end user acted for; None means the whole tenant.
        thread_id: The session; session-private rows are readable only with their own thread here.
        team_ids: Teams whose shared memory may be seen.
    """

    tenant_ids: tuple[str, ...]
    principal_id: str
    user_id: str | None = None
    thread_id: str | None = None
    team_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a scope without tenant, or with a text that could widen it.

        Raises:
            ScopeError: No tenant, an empty id, or a session or user across several tenants.
        """
        if not self.tenant_ids or not all(self.tenant_ids) or not self.principal_id:
            raise ScopeError
        if any("," in part or not part for part in (*self.tenant_ids, *self.team_ids)):
            raise ScopeError
        if len(self.tenant_ids) > 1 and (self.user_id or self.thread_id):
            raise ScopeError
        if self.user_id == "" or self.thread_id == "":
            raise ScopeError

    @property
    def tenant_id(self) -> str:
        """The one tenant of this scope.

        Raises:
            ScopeError: The scope spans several tenants, so there is no "the" tenant.
        """
        if len(self.tenant_ids) != 1:
            raise ScopeError
        return self.tenant_ids[0]

    def narrowed(self, *, user_id: str | None = None, thread_id: str | None = None) -> Scope:
        """Return this scope limited further; what is already narrow can not be moved.

        Raises:
            ScopeError: The scope already names another user or thread.
        """
        if user_id and self.user_id not in (None, user_id):
            raise ScopeError
        if thread_id and self.thread_id not in (None, thread_id):
            raise ScopeError
        return replace(self, user_id=user_id or self.user_id, thread_id=thread_id or self.thread_id)

    def for_tenant(self, *, tenant_id: str) -> Scope:
        """Return this staff scope limited to one of its tenants.

        Raises:
            ScopeError: `tenant_id` is not one of this scope's tenants.
        """
        if tenant_id not in self.tenant_ids:
            raise ScopeError
        return replace(self, tenant_ids=(tenant_id,))

    def cache_key(self, *parts: str) -> str:
        """Return the only key under which anything read in this scope may be cached.

        Parts are length-safe: they are encoded as JSON before hashing, so that no separator
        inside one can collide with another key.
        """
        raw = json.dumps(
            [self.tenant_ids, self.user_id, self.thread_id, self.team_ids, self.principal_id, parts]
        )
        return "credence:" + hashlib.sha256(raw.encode()).hexdigest()
