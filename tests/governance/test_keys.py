"""API keys: every refusal looks the same, the secret is nowhere, limits hold."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import Permission as DjangoPermission
from django.contrib.auth.models import User
from django.db import IntegrityError
from django.utils import timezone

from governance.access import Principal, may_use_tenant, require_agent, scope_for_user
from governance.keys import (
    UnauthenticatedError,
    authenticate,
    create_key,
    parse,
    revoke_key,
)
from governance.models import ApiKey, AuditEntry, TenantUserGrant
from memory.errors import CredenceError, InvalidInputError, NotFoundError
from memory.models import Tenant
from memory.rls import scoped_transaction
from tests.factories import MadeKey, make_agent, make_end_user, make_key, make_tenant, scope_of

NOW = timezone.now()
LATER = NOW + timedelta(hours=1)


@dataclass(frozen=True)
class Issued:
    """A key and its tenant."""

    tenant: Tenant
    key: MadeKey

    def change(self, **columns: Any) -> None:
        """Change the stored row, as if by hand."""
        scope = scope_of(self.tenant)
        with scoped_transaction(scope):
            ApiKey.objects.in_scope(scope).filter(pk=self.key.id).update(**columns)

    def account(self) -> User:
        """The service account behind the key."""
        return User.objects.get(pk=self.key.principal.account_id)


@pytest.fixture
def issued(db: None) -> Issued:
    tenant = make_tenant()
    return Issued(tenant, make_key(tenant))


def refused(raw: str, now: datetime = LATER) -> CredenceError:
    with pytest.raises(UnauthenticatedError) as error:
        authenticate(raw=raw, now=now)
    return error.value


def suspend(issued: Issued) -> None:
    scope = scope_of(issued.tenant)
    with scoped_transaction(scope):
        Tenant.objects.in_scope(scope).update(status="suspended")


def take_grant(issued: Issued) -> None:
    TenantUserGrant.objects.filter(user=issued.account()).delete()


def revoke(issued: Issued) -> None:
    scope = scope_of(issued.tenant)
    with scoped_transaction(scope):
        revoke_key(scope=scope, key_id=issued.key.id, now=NOW)


REASONS: dict[str, Callable[[Issued], Any]] = {
    "expired": lambda issued: issued.change(expires_at=NOW),
    "revoked": revoke,
    "revoked, account still active": lambda issued: issued.change(revoked_at=NOW),
    "tenant suspended": suspend,
    "account inactive": lambda issued: User.objects.filter(pk=issued.account().pk).update(
        is_active=False
    ),
    "grant on the tenant gone": take_grant,
    "digest of another secret": lambda issued: issued.change(digest="0" * 64),
    "pepper version unknown": lambda issued: issued.change(pepper_version=9),
    "prefix of nobody": lambda issued: issued.change(prefix="aaaaaaaa"),
}
MALFORMED = [
    "",
    "cr",
    "cr__",
    "Bearer",
    "cr_aaaaaaaa_b",
    "x" * 5000,
    "cr_" + "a" * 55,
    "密钥",
    "\x00",
]


@pytest.mark.req("E02")
@pytest.mark.parametrize("name", REASONS)
def test_refusal_says_the_same_for_every_reason(issued: Issued, name: str) -> None:
    """Attack case 41."""
    assert authenticate(raw=issued.key.secret, now=LATER).id == issued.key.id
    REASONS[name](issued)
    error = refused(issued.key.secret)
    garbage = refused("garbage")
    assert (type(error), error.code, error.detail) == (
        type(garbage),
        garbage.code,
        garbage.detail,
    )
    assert error.__context__ is None


@pytest.mark.parametrize("raw", MALFORMED)
def test_malformed_key_refused_without_a_query(
    db: None, raw: str, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(0):
        refused(raw)


def test_mistyped_key_refused_without_a_query(
    issued: Issued, django_assert_num_queries: Any
) -> None:
    """The checksum catches each single wrong character, and two swapped ones."""
    raw = issued.key.secret
    letters = string.ascii_letters + string.digits
    with django_assert_num_queries(0):
        for place in range(len(raw)):
            wrong = letters[(letters.find(raw[place]) + 1) % len(letters)]
            refused(raw[:place] + wrong + raw[place + 1 :])
        for place in range(12, len(raw) - 1):
            if raw[place] != raw[place + 1]:
                refused(raw[:place] + raw[place + 1] + raw[place] + raw[place + 2 :])
        refused(raw + "a")
        refused(raw[:-1])


def test_key_of_another_prefix_refused(issued: Issued) -> None:
    """The right secret under another row's prefix does not pass, checksum made anew or not."""
    other = make_key(issued.tenant)
    prefix = other.secret.split("_")[1]
    refused(f"cr_{prefix}_{issued.key.secret.split('_')[2]}")
    assert parse(other.secret) is not None


def test_key_shape_is_what_scanners_can_know(issued: Issued) -> None:
    assert re.fullmatch(r"cr_[a-z0-9]{8}_[A-Za-z0-9]{46}", issued.key.secret)
    assert make_key(issued.tenant).secret != issued.key.secret


@pytest.mark.req("E02")
def test_pepper_rotated_old_and_new_keys_pass_until_it_retires(
    issued: Issued, settings: Any
) -> None:
    settings.CREDENCE_KEY_PEPPERS = {1: "test-pepper-one"}
    old = make_key(issued.tenant)
    settings.CREDENCE_KEY_PEPPERS = {1: "test-pepper-one", 7: "test-pepper-seven"}
    new = make_key(issued.tenant)
    scope = scope_of(issued.tenant)
    with scoped_transaction(scope):
        versions = dict(ApiKey.objects.in_scope(scope).values_list("id", "pepper_version"))
    assert (versions[old.id], versions[new.id]) == (1, 7)
    authenticate(raw=old.secret, now=LATER)
    authenticate(raw=new.secret, now=LATER)
    settings.CREDENCE_KEY_PEPPERS = {7: "test-pepper-seven"}
    refused(old.secret)
    authenticate(raw=new.secret, now=LATER)
    settings.CREDENCE_KEY_PEPPERS = {7: "another"}
    refused(new.secret)
    settings.CREDENCE_KEY_PEPPERS = {7: ""}
    refused(new.secret)


def test_expiry_counts_to_the_moment(db: None) -> None:
    tenant = make_tenant()
    end = NOW + timedelta(days=1)
    key = make_key(tenant, expires_at=end)
    authenticate(raw=key.secret, now=end - timedelta(seconds=1))
    refused(key.secret, now=end)


def test_last_used_written_at_most_once_a_minute(
    issued: Issued, django_assert_max_num_queries: Any
) -> None:
    scope = scope_of(issued.tenant)

    def used_at() -> Any:
        with scoped_transaction(scope):
            return ApiKey.objects.in_scope(scope).get(pk=issued.key.id).last_used_at

    authenticate(raw=issued.key.secret, now=LATER)
    assert used_at() == LATER
    soon = LATER + timedelta(seconds=59)
    with django_assert_max_num_queries(10) as asked:
        authenticate(raw=issued.key.secret, now=soon)
    assert [query for query in asked.captured_queries if "UPDATE" in query["sql"]] == []
    assert used_at() == LATER
    minute = LATER + timedelta(seconds=60)
    authenticate(raw=issued.key.secret, now=minute)
    assert used_at() == minute


@pytest.mark.req("E02")
def test_superuser_and_global_permissions_widen_nothing(issued: Issued) -> None:
    """Attack case 28, for service accounts: guardian's defaults would let them in everywhere."""
    other = make_tenant()
    account = issued.account()
    account.is_superuser = account.is_staff = True
    account.save()
    account.user_permissions.set(DjangoPermission.objects.all())
    assert may_use_tenant(account_id=account.pk, tenant_id=other.id) is None
    principal = authenticate(raw=issued.key.secret, now=LATER)
    assert principal.tenant_id == issued.tenant.id
    assert principal.permissions == {"use_tenant", "run_agent", "act_for"}
    take_grant(issued)
    refused(issued.key.secret)


@pytest.mark.req("E02")
def test_key_scope_missing_denied(db: None) -> None:
    """Attack case 44: what a key does not say it may, it may not."""
    principal = make_key(make_tenant(), scopes=("read",)).principal
    principal.require_key_scope("read")
    for wanted in (("write",), ("read", "govern"), ("admin",), ("READ",), ("",)):
        with pytest.raises(CredenceError) as error:
            principal.require_key_scope(*wanted)
        assert error.value.code == "forbidden"
    nothing = Principal(id="key_x", account_id=1, tenant_id="tn_x", key_scopes=frozenset())
    with pytest.raises(CredenceError):
        nothing.require_key_scope("read")


@pytest.mark.parametrize("scopes", [(), ("read", "root"), ("Run",), ("",)])
def test_key_with_no_or_unknown_scope_not_made(db: None, scopes: tuple[str, ...]) -> None:
    tenant = make_tenant()
    scope = scope_of(tenant)
    with scoped_transaction(scope), pytest.raises(InvalidInputError) as error:
        create_key(scope=scope, scopes=scopes, now=NOW)
    assert error.value.field == "scopes"


def test_key_expired_at_birth_not_made(db: None) -> None:
    scope = scope_of(make_tenant())
    with scoped_transaction(scope), pytest.raises(InvalidInputError):
        create_key(scope=scope, scopes=["read"], now=NOW, expires_at=NOW)


@pytest.mark.req("E02")
def test_key_bound_to_agent_runs_no_other(db: None) -> None:
    tenant = make_tenant()
    own, other = make_agent(tenant), make_agent(tenant)
    principal = make_key(tenant, agent_id=own.id).principal
    assert principal.permissions == {"use_tenant", "act_for"}
    with scoped_transaction(scope_of(tenant)):
        require_agent(principal=principal, agent=own, agent_id=own.id)
        with pytest.raises(NotFoundError):
            require_agent(principal=principal, agent=other, agent_id=other.id)


@pytest.mark.req("E02")
@pytest.mark.req("B17")
def test_key_bound_to_user_acts_for_no_other(db: None) -> None:
    """Attack case 7."""
    tenant = make_tenant()
    own, other = make_end_user(tenant), make_end_user(tenant)
    principal = make_key(tenant, end_user_id=own.id).principal
    assert principal.permissions == {"use_tenant", "run_agent"}
    with scoped_transaction(scope_of(tenant)):
        assert scope_for_user(principal=principal, end_user=own).user_id == own.id
        with pytest.raises(CredenceError) as error:
            scope_for_user(principal=principal, end_user=other)
        assert error.value.code == "forbidden"


@pytest.mark.req("B18")
def test_key_of_another_tenants_agent_not_made(committed_db: None) -> None:
    """The composite key refuses it even where a caller forgot to look."""
    agent = make_agent(make_tenant())
    tenant = make_tenant()
    with pytest.raises((IntegrityError, CredenceError, agent.DoesNotExist)):
        make_key(tenant, agent_id=agent.id)
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        assert ApiKey.objects.in_scope(scope).count() == 0


@pytest.mark.req("B18")
def test_revoking_another_tenants_key_looks_like_an_unknown_one(issued: Issued) -> None:
    scope = scope_of(make_tenant())
    details = []
    for key_id in (issued.key.id, "key_01h455vb4pex5vsknk084sn02q"):
        with scoped_transaction(scope), pytest.raises(NotFoundError) as error:
            revoke_key(scope=scope, key_id=key_id, now=NOW)
        details.append(error.value.detail)
    assert details[0] == details[1]
    authenticate(raw=issued.key.secret, now=LATER)


def test_revoking_twice_changes_and_audits_once(issued: Issued) -> None:
    scope = scope_of(issued.tenant)
    with scoped_transaction(scope):
        first = revoke_key(scope=scope, key_id=issued.key.id, now=NOW)
        again = revoke_key(scope=scope, key_id=issued.key.id, now=LATER)
        assert first.revoked_at == again.revoked_at == NOW
        rows = AuditEntry.objects.in_scope(scope).filter(target_id=issued.key.id)
        assert sorted(rows.values_list("action", flat=True)) == ["key_created", "key_revoked"]
    assert not issued.account().is_active


@pytest.mark.req("E02")
def test_secret_is_in_no_column_of_the_database(committed_db: None, superuser_url: str) -> None:
    """Attack case 46: a dump of the whole database holds the prefix and nothing of the secret."""
    tenant = make_tenant()
    key = make_key(tenant)
    authenticate(raw=key.secret, now=LATER)
    with pytest.raises(UnauthenticatedError):
        authenticate(raw=key.secret[:-1] + "!", now=LATER)
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        revoke_key(scope=scope, key_id=key.id, now=LATER)
    _, prefix, body = key.secret.split("_")
    hits = {"prefix": 0, "secret": 0}
    with psycopg.connect(superuser_url) as superuser:
        tables = superuser.execute(
            "SELECT oid::regclass::text FROM pg_class WHERE relkind IN ('r', 'p')"
            " AND relnamespace = 'public'::regnamespace"
        ).fetchall()
        assert len(tables) > 30
        for (table,) in tables:
            for row in superuser.execute(f"SELECT t::text FROM {table} t").fetchall():
                hits["prefix"] += prefix in row[0]
                hits["secret"] += any(body[at : at + 12] in row[0] for at in range(34))
    assert hits["prefix"] == 1
    assert hits["secret"] == 0
