"""Whom an erasure is about, and the scopes in which it is done."""

from __future__ import annotations

from dataclasses import dataclass

from governance.models.erasure import Erasure
from memory.scope import Scope

ERASER = "eraser"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One person of one tenant, by their internal ids.

    Attributes:
        user_id: The tenant's own name of the person, while it is still known.
    """

    tenant_id: str
    person_id: str
    user_id: str | None = None

    @property
    def wide(self) -> Scope:
        """The tenant's scope, for what is shared or names nobody."""
        return Scope(tenant_ids=(self.tenant_id,), principal_id=ERASER)

    @property
    def own(self) -> Scope:
        """The person's own scope, in which nobody else's row can be reached."""
        return self.wide.narrowed(user_id=self.person_id)

    @property
    def values(self) -> dict[str, str | int]:
        """The parameters of the map's conditions."""
        return {"tenant": self.tenant_id, "person": self.person_id}


def subject_of(erasure: Erasure, *, user_id: str | None = None) -> Subject:
    """Return whom an erasure is about."""
    return Subject(tenant_id=erasure.tenant_id, person_id=erasure.subject_id, user_id=user_id)
