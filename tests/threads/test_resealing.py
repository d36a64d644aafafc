"""Rotation of encryption keys: all providers follow, and then the old key can go."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from governance.models import AuditEntry
from memory.models import Tenant
from memory.providers.crypto import new_key, seal
from memory.providers.errors import SealedSecretError
from memory.rls import scoped_transaction
from tests.factories import make_provider, make_tenant, scope_of
from threads.chat import provider_config
from threads.models import Provider
from threads.resealing import ResealReport, reseal_providers


def _run(*words: str) -> dict[str, int]:
    out = StringIO()
    call_command("reseal_providers", "--json", *words, stdout=out, stderr=StringIO())
    shown: dict[str, int] = json.loads(out.getvalue())
    return shown


def _sealed(tenant: Tenant, secret: str, key: str) -> Provider:
    return make_provider(tenant, name=secret, sealed_api_key=seal(secret, keys=[key]))


def _key_of(tenant: Tenant, provider: Provider) -> str | None:
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        return provider_config(Provider.objects.in_scope(scope).get(pk=provider.pk)).api_key


def _audited(tenant: Tenant) -> list[str]:
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        rows = AuditEntry.objects.in_scope(scope).filter(action="provider_resealed")
        return list(rows.order_by("target_id").values_list("target_id", flat=True))


def test_keys_of_all_tenants_follow_and_the_old_one_can_go(
    committed_db: None, settings: Any
) -> None:
    old, new = new_key(), new_key()
    one, other = make_tenant(), make_tenant()
    first, second = _sealed(one, "sk-one", old), _sealed(other, "密钥 sk-two", old)
    fresh, bare = _sealed(one, "sk-fresh", new), make_provider(one, name="no key")
    settings.CREDENCE_ENCRYPTION_KEYS = [new, old]
    done = {"resealed": 2, "unchanged": 1, "unopened": 0, "open_erasures": 0}
    assert _run() == done
    assert _audited(one) == [first.pk]
    assert _audited(other) == [second.pk]
    settings.CREDENCE_ENCRYPTION_KEYS = [new]
    found = [_key_of(one, first), _key_of(other, second), _key_of(one, fresh), _key_of(one, bare)]
    assert found == ["sk-one", "密钥 sk-two", "sk-fresh", None]


def test_again_changes_and_audits_nothing(committed_db: None, settings: Any) -> None:
    old, new = new_key(), new_key()
    tenant = make_tenant()
    provider = _sealed(tenant, "sk-one", old)
    settings.CREDENCE_ENCRYPTION_KEYS = [new, old]
    scope, now = scope_of(tenant), timezone.now()
    reseal_providers(scope=scope, now=now)
    with scoped_transaction(scope):
        before = Provider.objects.in_scope(scope).get(pk=provider.pk)
    assert reseal_providers(scope=scope, now=now) == ResealReport(
        resealed=0, unchanged=1, unopened=0, open_erasures=0
    )
    with scoped_transaction(scope):
        after = Provider.objects.in_scope(scope).get(pk=provider.pk)
    assert after.sealed_api_key == before.sealed_api_key
    assert _audited(tenant) == [provider.pk]


def test_one_tenant_named_leaves_the_other_as_it_was(committed_db: None, settings: Any) -> None:
    old, new = new_key(), new_key()
    one, other = make_tenant(), make_tenant()
    _sealed(one, "sk-one", old)
    left = _sealed(other, "sk-two", old)
    settings.CREDENCE_ENCRYPTION_KEYS = [new, old]
    assert _run("--tenant", one.slug)["resealed"] == 1
    assert not _audited(other)
    settings.CREDENCE_ENCRYPTION_KEYS = [new]
    with pytest.raises(SealedSecretError):
        _key_of(other, left)


def test_lost_key_fails_the_command_after_the_others_are_done(
    committed_db: None, settings: Any
) -> None:
    old, new = new_key(), new_key()
    tenant = make_tenant()
    lost, kept = _sealed(tenant, "sk-lost", new_key()), _sealed(tenant, "sk-kept", old)
    settings.CREDENCE_ENCRYPTION_KEYS = [new, old]
    with pytest.raises(CommandError, match="1 keys open with none") as caught:
        _run("--tenant", tenant.slug)
    assert "sk-" not in str(caught.value)
    assert _audited(tenant) == [kept.pk]
    settings.CREDENCE_ENCRYPTION_KEYS = [new]
    assert _key_of(tenant, kept) == "sk-kept"
    with pytest.raises(SealedSecretError):
        _key_of(tenant, lost)


@pytest.mark.django_db
def test_no_encryption_key_is_an_error_and_not_a_loss(settings: Any) -> None:
    tenant = make_tenant()
    provider = _sealed(tenant, "sk-one", new_key())
    settings.CREDENCE_ENCRYPTION_KEYS = []
    with pytest.raises(SealedSecretError):
        reseal_providers(scope=scope_of(tenant), now=timezone.now())
    assert not _audited(tenant)
    assert provider.sealed_api_key
