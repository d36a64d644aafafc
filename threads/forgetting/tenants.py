"""The end of a tenant: every person erased, each with a receipt, then all that is the tenant's own.

What is left proves that it was done and what it had cost: the tenant's row without a name, the
audit log and its seals, disclosures, erasures, released holds, sums of use. It may be run again
after any crash and goes on where it stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from django.apps import apps
from django.contrib.auth.models import Group
from django.db import connection
from django.utils import timezone
from psycopg import sql

from governance import audit
from governance.erasure.counting import count_person
from governance.erasure.operations import cancel_runs
from governance.erasure.requests import request_erasure, retry_erasure
from governance.erasure.subjects import Subject
from governance.erasure.tagging import TaggedEraser
from governance.erasure.verifying import verify_open
from governance.erasure.work import do_erasure
from governance.models.erasure import (
    Erasure,
    ErasureMode,
    ErasureOrigin,
    ErasureStatus,
    LegalHold,
    Verified,
)
from governance.permissions import Role, group_name
from memory.errors import ConflictError, CredenceError
from memory.models import EndUser, Tenant
from memory.models.base import TenantModel
from memory.models.tenancy import TenantStatus
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.models import Agent, KeptUsage, Provider

# What stays of a tenant; every other table that belongs to one is emptied.
KEPT: Final[Mapping[str, str]] = {
    "governance.AuditEntry": "what was done",
    "governance.AuditSeal": "that nobody changed it",
    "governance.AuditLeaf": "that nobody changed it",
    "governance.AuditPending": "what the next seal takes in",
    "governance.Disclosure": "what left the house, by ids",
    "governance.Erasure": "who was erased, by ids, with receipts",
    "governance.LegalHold": "that a hold was placed and released",
    "threads.KeptUsage": "sums of what erased runs had cost",
}
# Of these a shell without words stays where sums of use name it.
_SHELLS: Final = frozenset({"threads.Agent", "threads.Provider"})
_VERIFY_SECONDS: Final = 3600.0
_UNFINISHED: Final = (ErasureStatus.QUEUED, ErasureStatus.RUNNING)
_ACCOUNTS: Final = """
    SELECT principal_id FROM governance_apikey WHERE tenant_id = %(tenant)s
"""
# Whose right names a principal: of the tenant itself, and all that a service account has.
_GRANTS: Final = {
    "governance_tenantusergrant": "SELECT id FROM memory_tenant WHERE id = %(tenant)s",
    "governance_tenantgroupgrant": "SELECT id FROM memory_tenant WHERE id = %(tenant)s",
    "governance_agentusergrant": "SELECT id FROM threads_agent WHERE tenant_id = %(tenant)s",
    "governance_agentgroupgrant": "SELECT id FROM threads_agent WHERE tenant_id = %(tenant)s",
    "governance_teamusergrant": "SELECT id FROM memory_team WHERE tenant_id = %(tenant)s",
    "governance_teamgroupgrant": "SELECT id FROM memory_team WHERE tenant_id = %(tenant)s",
}
_DELETE_GRANTS: Final = sql.SQL("DELETE FROM {} WHERE content_object_id IN ({})")
_DELETE_ACCOUNTS: Final = sql.SQL("DELETE FROM {} WHERE {} = ANY (%s)")
_OF_ACCOUNTS: Final = (
    ("guardian_userobjectpermission", "user_id"),
    ("django_admin_log", "user_id"),
    ("auth_user_groups", "user_id"),
    ("auth_user_user_permissions", "user_id"),
    ("auth_user", "id"),
)


class HeldTenantError(ConflictError):
    """Legal holds are on persons of the tenant; its `detail` says how many."""

    code = "legal_hold"


class UnfinishedEndError(CredenceError):
    """Somebody else works on a person of the tenant, or an erasure failed; run it again."""

    code = "tenant_not_ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantEnd:
    """What went, or would go.

    Attributes:
        persons: How many persons.
        unverified: Erasures after which a search found something; their rows say where.
        erased: Rows of persons, by the names of a receipt.
        tenant_rows: Rows of the tenant's own, by table.
    """

    persons: int = 0
    unverified: int = 0
    erased: Mapping[str, int] = field(default_factory=dict)
    tenant_rows: Mapping[str, int] = field(default_factory=dict)


def emptied_models() -> list[type[TenantModel]]:
    """Return the models whose rows of a tenant all go, in the order of their tables' names."""
    found = [
        model
        for model in apps.get_models()
        if issubclass(model, TenantModel) and model._meta.label not in KEPT
    ]
    return sorted(found, key=lambda model: model._meta.db_table)


def count_end(*, scope: Scope) -> TenantEnd:
    """Return what the end of a tenant would take away now. Cost: a dry run a person.

    Raises:
        HeldTenantError: A legal hold is on somebody.
    """
    _require_no_holds(scope)
    erased: Counter[str] = Counter()
    persons = _persons(scope)
    for person in persons:
        subject = Subject(tenant_id=person.tenant_id, person_id=person.pk, user_id=person.user_id)
        erased += count_person(subject)
    with scoped_transaction(scope):
        rows = {
            model._meta.db_table: model._default_manager.in_scope(scope).count()
            for model in emptied_models()
            if not _is_of_persons(model)
        }
    return TenantEnd(
        persons=len(persons),
        erased=dict(erased),
        tenant_rows={name: number for name, number in rows.items() if number},
    )


def end_tenant(*, scope: Scope, tagged: TaggedEraser, now: datetime) -> TenantEnd:
    """End a tenant; a second time finds nothing and changes nothing.

    Cost: an erasure a person, one search through everything, and a statement a table.

    Raises:
        HeldTenantError: A legal hold is on somebody; nothing was changed.
        UnfinishedEndError: A person could not be erased; run it again.
    """
    _suspend(scope, now)
    _finish_open(scope, tagged)
    for person in _persons(scope):
        asked = request_erasure(
            scope=scope,
            person=person,
            mode=ErasureMode.ALL,
            now=timezone.now(),
            origin=ErasureOrigin.TENANT_END,
        )
        do_erasure(erasure_id=asked.pk, tagged=tagged, now=timezone.now())
    with scoped_transaction(scope):
        if EndUser.objects.in_scope(scope).exists():
            raise UnfinishedEndError
        ended = _empty(scope)
    # Only now: what was the tenant's own may have named its persons, too.
    verify_open(now=timezone.now(), within_seconds=_VERIFY_SECONDS)
    with scoped_transaction(scope):
        unverified = Erasure.objects.in_scope(scope).filter(verified=Verified.FALSE).count()
    return replace(ended, unverified=unverified)


def _require_no_holds(scope: Scope) -> None:
    with scoped_transaction(scope):
        held = LegalHold.objects.in_scope(scope).filter(released_at__isnull=True).count()
    if held:
        raise HeldTenantError(f"Legal holds are on {held} persons of this tenant.")


def _suspend(scope: Scope, now: datetime) -> None:
    """Let nobody of the tenant in any more, and cancel what runs; holds refuse it, seen under lock."""
    with scoped_transaction(scope):
        rows = Tenant.objects.in_scope(scope).filter(pk=scope.tenant_id)
        tenant = rows.select_for_update(of=("self",)).get()
        _require_no_holds(scope)
        if tenant.status != TenantStatus.ACTIVE:
            return
        rows.update(status=TenantStatus.SUSPENDED)
        cancelled = cancel_runs(scope=scope, now=now)
        _audit(scope, "tenant_ending", {"cancelled_runs": cancelled}, now)


def _finish_open(scope: Scope, tagged: TaggedEraser) -> None:
    """Do what was asked for before, by whatever mode: a person has one unfinished erasure at most."""
    with scoped_transaction(scope):
        there = EndUser.objects.in_scope(scope).filter(erasing_at__isnull=False)
        stuck = list(
            Erasure.objects.in_scope(scope)
            .filter(status=ErasureStatus.FAILED, subject_id__in=there.values("pk"))
            .values_list("pk", flat=True)
        )
    for erasure_id in stuck:
        retry_erasure(scope=scope, erasure_id=erasure_id, now=timezone.now())
    with scoped_transaction(scope):
        rows = Erasure.objects.in_scope(scope).filter(status__in=_UNFINISHED)
        waiting = list(rows.order_by("created_at", "id").values_list("pk", flat=True))
    for erasure_id in waiting:
        do_erasure(erasure_id=erasure_id, tagged=tagged, now=timezone.now())


def _persons(scope: Scope) -> list[EndUser]:
    with scoped_transaction(scope):
        rows = EndUser.objects.in_scope(scope).filter(erasing_at__isnull=True)
        return list(rows.order_by("pk"))


def _empty(scope: Scope) -> TenantEnd:
    """Delete all that is the tenant's own, in one transaction, and say so in the audit."""
    now = timezone.now()
    tenant = Tenant.objects.in_scope(scope).select_for_update(of=("self",)).get(pk=scope.tenant_id)
    erasures = Erasure.objects.in_scope(scope)
    erased: Counter[str] = Counter()
    for counts in erasures.filter(origin=ErasureOrigin.TENANT_END).values_list("counts", flat=True):
        erased.update(counts)
    report = TenantEnd(
        persons=erased["persons"],
        erased=dict(sorted(erased.items())),
        tenant_rows={} if tenant.status == TenantStatus.ENDED else _empty_tables(scope),
    )
    if tenant.status != TenantStatus.ENDED:
        Tenant.objects.in_scope(scope).filter(pk=tenant.pk).update(
            status=TenantStatus.ENDED, name=""
        )
        _audit(scope, "tenant_ended", {"persons": report.persons, **report.tenant_rows}, now)
    return report


def _empty_tables(scope: Scope) -> dict[str, int]:
    """Delete row by table; foreign keys are looked at when the transaction ends."""
    values = {"tenant": scope.tenant_id}
    gone: Counter[str] = Counter()
    with connection.cursor() as cursor:
        cursor.execute(_ACCOUNTS, values)
        accounts = [row[0] for row in cursor.fetchall()]
        for table, whose in _GRANTS.items():
            cursor.execute(_DELETE_GRANTS.format(sql.Identifier(table), sql.SQL(whose)), values)
            gone[table] += cursor.rowcount
        gone.update(_blank_shells(scope))
        for model in emptied_models():
            if model._meta.label in _SHELLS:
                continue
            table = model._meta.db_table
            statement = sql.SQL("DELETE FROM {} WHERE tenant_id = %(tenant)s")
            cursor.execute(statement.format(sql.Identifier(table)), values)
            gone[table] += cursor.rowcount
        groups = Group.objects.filter(name__in=_groups(scope))
        gone["auth_group"] = groups.count()
        groups.delete()
        for table, column in _OF_ACCOUNTS:
            names = sql.Identifier(table), sql.Identifier(column)
            cursor.execute(_DELETE_ACCOUNTS.format(*names), [accounts])
    gone["auth_user"] += len(accounts)
    return {name: number for name, number in sorted(gone.items()) if number}


def _groups(scope: Scope) -> list[str]:
    return [group_name(tenant_id=scope.tenant_id, role=role) for role in Role]


def _blank_shells(scope: Scope) -> Counter[str]:
    """Empty the agents that sums of use name, and their providers; delete the others."""
    named = KeptUsage.objects.in_scope(scope).values_list("agent_id", flat=True).distinct()
    agents = Agent.objects.in_scope(scope)
    kept = agents.filter(pk__in=list(named))
    gone: Counter[str] = Counter(threads_agent=agents.count(), threads_provider=0)
    providers = list(kept.values_list("provider_id", flat=True))
    for agent_id in kept.values_list("pk", flat=True):
        agents.filter(pk=agent_id).update(
            name=agent_id,
            system_prompt="",
            model="",
            role="default",
            tools=[],
            policy={},
            memory_fallback_provider=None,
            cross_vendor_consent_at=None,
            is_active=False,
        )
    _delete_others(scope, Agent, list(kept.values_list("pk", flat=True)))
    rows = Provider.objects.in_scope(scope)
    gone["threads_provider"] = rows.count()
    for provider_id in providers:
        rows.filter(pk=provider_id).update(
            name=provider_id,
            base_url="",
            sealed_api_key="",
            vendor="",
            timeouts={},
            is_active=False,
        )
    _delete_others(scope, Provider, providers)
    return gone


def _delete_others(scope: Scope, model: type[TenantModel], kept: list[str]) -> None:
    """Delete by statement: the ORM would refuse what others name that go later."""
    statement = sql.SQL("DELETE FROM {} WHERE tenant_id = %s AND NOT id = ANY (%s::text[])")
    with connection.cursor() as cursor:
        cursor.execute(
            statement.format(sql.Identifier(model._meta.db_table)), [scope.tenant_id, kept]
        )


def _is_of_persons(model: type[TenantModel]) -> bool:
    """Say whether each row of a model is some person's."""
    columns = {one.name: one for one in model._meta.fields}
    return model is EndUser or ("end_user" in columns and not columns["end_user"].null)


def _audit(scope: Scope, action: str, detail: Mapping[str, int], now: datetime) -> None:
    audit.record(
        scope=scope,
        action=action,
        target_kind="tenant",
        target_id=scope.tenant_id,
        now=now,
        detail=dict(detail),
    )
