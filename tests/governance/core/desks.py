"""A person whose core memory is decided about, and the staff that decides."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from governance.core.candidates import Added, add_candidate, confirm_candidate
from governance.core.clearing import StatedFact
from governance.core.facts import facts_of
from governance.decisions import DecidedBy
from governance.models import AuditEntry, CoreCandidate
from governance.policy import policy_for
from memory.models import CoreFact, EndUser, IndexEntry, Tenant
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.factories import NOW, make_end_user, make_tenant, scope_of

STAFF = DecidedBy(kind="staff", id="staff:1")
OTHER_STAFF = DecidedBy(kind="staff", id="staff:2")


@dataclass(frozen=True)
class Desk:
    """One person of one tenant."""

    tenant: Tenant
    person: EndUser

    @property
    def scope(self) -> Scope:
        return scope_of(self.tenant, self.person)

    def add(self, fact: str, subject: str = "", at: datetime = NOW, **values: Any) -> Added:
        with scoped_transaction(self.scope):
            policy = policy_for(scope=self.scope, agent_overrides={})
        stated = StatedFact(
            **{"fact": fact, "subject": subject, "origin": "api", "by": "test"} | values
        )
        return add_candidate(
            scope=self.scope, end_user_id=self.person.pk, stated=stated, policy=policy, now=at
        )

    def candidate(self, fact: str, subject: str = "", **values: Any) -> str:
        found = self.add(fact, subject, **values).candidate
        assert found is not None
        return found.pk

    def confirm(
        self, candidate_id: str, by: DecidedBy = STAFF, at: datetime = NOW, **values: Any
    ) -> tuple[CoreCandidate, CoreFact | None]:
        return confirm_candidate(
            scope=self.scope, candidate_id=candidate_id, by=by, now=at, **values
        )

    def hold(self, fact: str, subject: str = "", days: int = 0, **values: Any) -> CoreFact:
        """A fact that was confirmed so many days after NOW."""
        at = NOW + timedelta(days=days)
        made = self.confirm(self.candidate(fact, subject, at=at), at=at, **values)[1]
        assert made is not None
        return made

    def facts(self, as_of: datetime | None = None) -> list[str]:
        with scoped_transaction(self.scope):
            found = facts_of(scope=self.scope, end_user_id=self.person.pk, as_of=as_of)
        return [fact.fact for fact in found]

    def rows(self, model: Any) -> list[Any]:
        scope = scope_of(self.tenant)
        with scoped_transaction(scope):
            return list(model.objects.in_scope(scope).order_by("id"))

    def candidates(self) -> list[CoreCandidate]:
        return self.rows(CoreCandidate)

    def stored(self) -> list[CoreFact]:
        return self.rows(CoreFact)

    def entries(self) -> list[str | None]:
        return [entry.fact_id for entry in self.rows(IndexEntry) if entry.kind == "core"]

    def audited(self, *kinds: str) -> list[str]:
        rows = self.rows(AuditEntry)
        return [row.action for row in rows if row.target_kind in (kinds or KINDS)]


KINDS = ("core_candidate", "core_fact")


def make_desk() -> Desk:
    tenant = make_tenant()
    return Desk(tenant, make_end_user(tenant))
