"""Making and changing chat providers: hosts are checked, keys are sealed and never come back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict
from urllib.parse import urlsplit

from governance import audit
from memory.conf import allowed_provider_hosts, encryption_keys
from memory.errors import InvalidInputError, NotFoundError
from memory.providers.crypto import seal
from memory.providers.errors import ProviderError
from memory.providers.network import HostRule, check_endpoint
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.agents import NameTakenError
from threads.models import Locality, Provider, ProviderKind


class ApiKeyRequiredError(InvalidInputError):
    """The provider moves to another host, so its API key must be given again."""

    code = "api_key_required"


class ProviderValues(TypedDict, total=False):
    """What can be said of a provider; `api_key` is sealed before it is stored."""

    name: str
    kind: str
    base_url: str
    api_key: str | None
    locality: str
    vendor: str
    timeouts: Mapping[str, Any]


def providers_of(*, scope: Scope) -> ScopedQuerySet[Provider]:
    """Return the query of a tenant's providers."""
    return Provider.objects.in_scope(scope)


def create_provider(*, scope: Scope, values: ProviderValues, now: datetime) -> Provider:
    """Make a provider, audited. Cost: one name look-up outside the transaction.

    Raises:
        NameTakenError: A provider of the tenant has the name.
        ProviderRefusedHostError: The operator's list or the locality forbids the host.
        ProviderMisconfiguredError: The base URL can not be used.
        InvalidInputError: Locality or base URL is missing, or given to the offline model; or no
            header can carry the key.
    """
    provider = Provider(tenant_id=scope.tenant_id, created_at=now)
    _apply(provider, values, now)
    _check_endpoint(provider)
    with scoped_transaction(scope):
        _check_name(scope, provider)
        provider.save(force_insert=True)
        _audit(scope, "provider_created", provider, now, values)
    return provider


def update_provider(
    *, scope: Scope, provider_id: str, values: ProviderValues, now: datetime
) -> Provider:
    """Change a provider, audited. Its key does not follow it to another host.

    Raises:
        NotFoundError: There is none in scope.
        ApiKeyRequiredError: The host changes and no key came with it.
        CredenceError: As `create_provider`.
    """
    with scoped_transaction(scope):
        before = _find(scope, provider_id)
    origin = _origin(before.base_url)
    _apply(before, values, now)
    _check_endpoint(before)
    with scoped_transaction(scope):
        provider = _find(scope, provider_id, is_locked=True)
        has_moved = _origin(provider.base_url) != _origin(before.base_url)
        if has_moved and provider.sealed_api_key and "api_key" not in values:
            raise ApiKeyRequiredError(field="api_key")
        if _origin(provider.base_url) != origin:
            raise InvalidInputError("The provider was changed meanwhile; try again.")
        _apply(provider, values, now)
        _check_name(scope, provider)
        provider.save()
        _audit(scope, "provider_updated", provider, now, values)
    return provider


def _find(scope: Scope, provider_id: str, *, is_locked: bool = False) -> Provider:
    rows = Provider.objects.in_scope(scope)
    provider = (rows.select_for_update() if is_locked else rows).filter(pk=provider_id).first()
    if provider is None:
        raise NotFoundError
    return provider


def _apply(provider: Provider, values: ProviderValues, now: datetime) -> None:
    for name, value in values.items():
        if name == "api_key":
            provider.sealed_api_key = _sealed(str(value)) if value else ""
        else:
            setattr(provider, name, value)
    if provider.kind == ProviderKind.OFFLINE:
        provider.locality = provider.locality or Locality.LOCAL
    provider.updated_at = now


def _sealed(api_key: str) -> str:
    """Seal a key that a header can carry."""
    if not (api_key.isascii() and api_key.isprintable()) or api_key != api_key.strip():
        detail = "An API key is visible ASCII text without blanks around it."
        raise InvalidInputError(detail, field="api_key")
    return seal(api_key, keys=encryption_keys())


def _check_endpoint(provider: Provider) -> None:
    """Check where the provider is. Cost: one blocking name look-up for a named host."""
    if provider.kind == ProviderKind.OFFLINE:
        if provider.base_url:
            raise InvalidInputError("The offline model has no base URL.", field="base_url")
        if provider.locality != Locality.LOCAL:
            raise InvalidInputError("The offline model is local.", field="locality")
        return
    if not provider.base_url:
        raise InvalidInputError("A provider over HTTP needs its base URL.", field="base_url")
    if not provider.locality:
        raise InvalidInputError("Say whether the provider is local or cloud.", field="locality")
    rule = HostRule(locality=provider.locality, allowed_hosts=allowed_provider_hosts())
    try:
        check_endpoint(provider.base_url, rule=rule)
    except ProviderError as error:
        error.field = "base_url"
        raise


def _check_name(scope: Scope, provider: Provider) -> None:
    others = Provider.objects.in_scope(scope).filter(name=provider.name)
    if others.exclude(pk=provider.pk).exists():
        raise NameTakenError("A provider has that name.")


def _origin(base_url: str) -> tuple[str, str]:
    parts = urlsplit(base_url)
    return parts.scheme, parts.netloc


def _audit(
    scope: Scope, action: str, provider: Provider, now: datetime, values: ProviderValues
) -> None:
    audit.record(
        scope=scope,
        action=action,
        target_kind="provider",
        target_id=provider.pk,
        now=now,
        detail={"names": sorted(values)},
    )
