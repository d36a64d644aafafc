"""The audit log: in the act's transaction, append-only for everybody, without personal text."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from django.db import IntegrityError, ProgrammingError, connections, transaction

from governance import audit
from governance.audit import AuditOutsideTransactionError
from governance.keys import create_key
from governance.models import ApiKey, AuditEntry, TenantPolicy
from governance.permissions import Role
from governance.policy import change_policy
from governance.tenants import SlugTakenError, create_staff, create_tenant
from memory.models import Tenant
from memory.rls import scoped_transaction
from tests.factories import NOW, make_end_user, make_staff, make_tenant, scope_of


def note(tenant: Tenant, **values: Any) -> None:
    audit.record(
        scope=scope_of(tenant),
        **{
            "action": "tried",
            "target_kind": "tenant",
            "target_id": tenant.id,
            "now": NOW,
            **values,
        },
    )


def test_record_outside_a_transaction_refused(
    django_db_setup: None, django_db_blocker: Any
) -> None:
    with django_db_blocker.unblock():
        with pytest.raises(AuditOutsideTransactionError):
            note(Tenant(id="tn_x"))
        connections.close_all()


def test_record_keeps_who_did_what_when(db: None) -> None:
    tenant = make_tenant()
    with scoped_transaction(scope_of(tenant)):
        note(tenant, detail={"count": 3})
        row = AuditEntry.objects.in_scope(scope_of(tenant)).get(action="tried")
    assert (row.actor, row.at, row.target_id, row.detail) == ("test", NOW, tenant.id, {"count": 3})


def test_act_undone_takes_its_row_with_it(db: None) -> None:
    tenant = make_tenant()
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        create_key(scope=scope, scopes=["read"], now=NOW)
        assert AuditEntry.objects.in_scope(scope).filter(action="key_created").exists()
        transaction.set_rollback(True)
    with scoped_transaction(scope):
        assert ApiKey.objects.in_scope(scope).count() == 0
        assert not AuditEntry.objects.in_scope(scope).filter(action="key_created").exists()


def test_row_refused_undoes_its_act(db: None) -> None:
    """An act whose audit row can not be written does not happen: here the actor's name is too long."""
    tenant = make_tenant()
    scope = type(scope_of(tenant))(tenant_ids=(tenant.id,), principal_id="p" * 81)
    with pytest.raises(Exception, match="too long"), transaction.atomic():
        change_policy(scope=scope, changes={"recent_turns": 4}, now=NOW)
    with scoped_transaction(scope):
        assert AuditEntry.objects.in_scope(scope).get().action == "tenant_created"
        assert TenantPolicy.objects.in_scope(scope).count() == 0


def test_taken_slug_leaves_neither_tenant_nor_row(db: None) -> None:
    tenant = make_tenant("taken")
    with pytest.raises(SlugTakenError) as error:
        create_tenant(slug="taken", name="second", now=NOW, actor="test")
    assert error.value.detail == "A tenant of that slug exists."
    assert tenant.id not in str(error.value)


@pytest.fixture
def kept(committed_db: None) -> Tenant:
    return make_tenant()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE governance_auditentry SET actor = 'nobody'",
        "DELETE FROM governance_auditentry",
        "TRUNCATE governance_auditentry",
    ],
    ids=["update", "delete", "truncate"],
)
def test_nobody_changes_deletes_or_truncates(
    kept: Tenant, superuser_url: str, statement: str
) -> None:
    """The application and maintenance lack the right; owner and superuser meet the trigger."""
    for alias in ("default", "maint"):
        with (
            pytest.raises(ProgrammingError, match="permission denied"),
            scoped_transaction(scope_of(kept), using=alias),
            connections[alias].cursor() as cursor,
        ):
            cursor.execute(statement)
    with psycopg.connect(superuser_url) as superuser:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"):
            superuser.execute(statement)
        superuser.rollback()
        row = superuser.execute("SELECT count(*) FROM governance_auditentry").fetchone()
    assert row == (1,)


def test_owner_meets_the_trigger_or_sees_no_rows(kept: Tenant) -> None:
    with connections["owner"].cursor() as cursor:
        cursor.execute("DELETE FROM governance_auditentry")
        assert cursor.rowcount == 0
        with pytest.raises(ProgrammingError, match="append-only"):
            cursor.execute("TRUNCATE governance_auditentry")


@pytest.mark.req("B18")
def test_acts_write_internal_ids_only(db: None) -> None:
    """No row holds a name, a tenant's user_id, a password or a secret."""
    words = ["Zhang San", "张三", "pupil-42", "open sesame", "mentor"]
    tenant = make_tenant()
    scope = scope_of(tenant)
    make_end_user(tenant, user_id="pupil-42")
    create_staff(scope=scope, username="mentor", password="open sesame", role=Role.READER, now=NOW)
    make_staff(tenant)
    with scoped_transaction(scope):
        made = create_key(scope=scope, scopes=["read"], now=NOW, name="Zhang San 张三")
    change_policy(scope=scope, changes={"recent_turns": 4}, now=NOW)
    with scoped_transaction(scope):
        text = str(list(AuditEntry.objects.in_scope(scope).values()))
    assert text.count("'action'") == 5
    assert [word for word in [*words, made.secret, made.key.prefix] if word in text] == []


def test_row_of_another_tenant_refused(db: None) -> None:
    mine, other = make_tenant(), make_tenant()
    with (
        pytest.raises((ProgrammingError, IntegrityError)),
        scoped_transaction(scope_of(mine)),
    ):
        note(other)
