"""From a stored provider to one that answers, and which provider memory work may use."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from memory.conf import allowed_provider_hosts, encryption_keys
from memory.providers.base import ProviderConfig, ProviderTimeouts, Usage
from memory.providers.crypto import open_sealed
from memory.providers.pricing import Cost, cost_usd
from threads.models import Agent, Locality, Provider, ProviderKind

_TIMEOUT_NAMES = {
    "connect": "connect_seconds",
    "first_token": "first_token_seconds",
    "between": "between_tokens_seconds",
    "total": "total_seconds",
}


def provider_config(provider: Provider) -> ProviderConfig:
    """Return what a stored provider needs to be called, its key opened in memory only."""
    sealed = provider.sealed_api_key
    return ProviderConfig(
        id=provider.pk,
        kind=provider.kind,
        base_url=provider.base_url or None,
        api_key=open_sealed(sealed, keys=encryption_keys()) if sealed else None,
        locality=provider.locality,
        vendor=provider.vendor,
        timeouts=provider_timeouts(provider.timeouts),
        allowed_hosts=allowed_provider_hosts(),
    )


def provider_timeouts(stored: dict[str, Any]) -> ProviderTimeouts:
    """Return the timeouts of a provider; what it does not set has the default of DESIGN 13."""
    given = {_TIMEOUT_NAMES[name]: float(value) for name, value in stored.items()}
    return ProviderTimeouts(**given)


def memory_providers(agent: Agent) -> tuple[Provider, ...]:
    """Return the providers that memory work of this agent may use, in order (DESIGN 11).

    The agent's own first; then its fallback, if text may go there: never from a local provider to
    a cloud, and to another vendor's cloud only with the consent once given. One that is switched
    off is not called.
    """
    own, fallback = agent.provider, agent.memory_fallback_provider
    allowed = [own]
    is_other = fallback is not None and fallback.pk != own.pk
    if fallback is not None and is_other and may_fall_back(agent, own=own, fallback=fallback):
        allowed.append(fallback)
    return tuple(provider for provider in allowed if provider.is_active)


def may_fall_back(agent: Agent, *, own: Provider, fallback: Provider) -> bool:
    """Say whether text meant for `own` may go to `fallback` too."""
    if fallback.locality == Locality.LOCAL:
        return True
    if own.locality == Locality.LOCAL:
        return False
    is_same_vendor = bool(own.vendor) and own.vendor.lower() == fallback.vendor.lower()
    return is_same_vendor or agent.cross_vendor_consent_at is not None


def price(*, provider: Provider, model: str, usage: Usage, now: datetime) -> Cost:
    """Return what a call cost; a provider on the host and the built-in model cost nothing."""
    if provider.kind == ProviderKind.OFFLINE:
        return Cost(usd=Decimal(0), is_known=True)
    return cost_usd(
        vendor=provider.vendor, model=model, usage=usage, at=now, locality=provider.locality
    )
