"""Reading and changing a tenant's policy; the rules themselves are in governance.policy_rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from django.db.models import Subquery

from governance import audit
from governance.models import TenantPolicy
from governance.policy_rules import RULES, Policy, PolicyValue, effective, validate
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope

Rows = TypeVar("Rows", bound=ScopedQuerySet[Any])


def tenant_overrides(*, scope: Scope) -> dict[str, PolicyValue]:
    """Return what the tenant changed. Cost: one query."""
    row = TenantPolicy.objects.in_scope(scope).first()
    return dict(row.overrides) if row else {}


def with_overrides(agents: Rows, *, scope: Scope) -> Rows:
    """Return rows of agents that carry what their tenant changed as `tenant_overrides`, or None."""
    rows = TenantPolicy.objects.in_scope(scope).values("overrides")[:1]
    return agents.annotate(tenant_overrides=Subquery(rows))


def policy_for(*, scope: Scope, agent_overrides: Mapping[str, PolicyValue]) -> Policy:
    """Return the policy of one agent: defaults, then the tenant's, then the agent's own."""
    return effective(tenant_overrides(scope=scope), agent_overrides)


def change_policy(*, scope: Scope, changes: Mapping[str, object], now: datetime) -> Policy:
    """Change some values of the tenant's policy, audited by name; null resets to the default.

    Raises:
        InvalidPolicyError: As governance.policy_rules.validate; then nothing is changed.
    """
    with scoped_transaction(scope):
        TenantPolicy.objects.get_queryset().unscoped(
            reason="insert of the tenant's only row; its unique key and RLS decide"
        ).bulk_create([TenantPolicy(tenant_id=scope.tenant_id)], ignore_conflicts=True)
        row = TenantPolicy.objects.in_scope(scope).select_for_update().get()
        before = effective(row.overrides)
        merged = {**row.overrides, **changes}
        kept = {name: value for name, value in merged.items() if value is not None}
        row.overrides = validate(kept)
        row.updated_at = now
        row.save(update_fields=["overrides", "updated_at"])
        audit.record(
            scope=scope,
            action="policy_changed",
            target_kind="policy",
            target_id=row.id,
            now=now,
            detail=changed_detail(before=before, after=effective(row.overrides), names=changes),
        )
    return effective(row.overrides)


def changed_detail(
    *, before: Policy, after: Policy, names: Iterable[str]
) -> dict[str, int | str | bool | list[str]]:
    """Return what the audit says of a change: which names, and each value before and after.

    Of a list of names only how many there are: no words of a tenant's own. Pure.
    """
    named = sorted(set(names))
    changes = [
        f"{name}: {_said(before.values[name])} -> {_said(after.values[name])}"
        for name in named
        if name in RULES and before.values[name] != after.values[name]
    ]
    return {"names": named, "changes": changes}


def _said(value: PolicyValue) -> str:
    if isinstance(value, list):
        return f"{len(value)} names"
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
