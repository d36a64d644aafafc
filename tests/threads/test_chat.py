"""Which provider memory work may use, and what calls cost."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from memory.conf import encryption_keys
from memory.providers.base import ProviderTimeouts, Usage
from memory.providers.crypto import seal
from threads.chat import memory_providers, price, provider_config, provider_timeouts
from threads.models import Agent, Provider

NOW = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)


def provider(locality: str, vendor: str = "a", **values: Any) -> Provider:
    values = {"kind": "openai_compatible", "name": f"{locality}-{vendor}"} | values
    return Provider(locality=locality, vendor=vendor, **values)


def agent(own: Provider, fallback: Provider | None, *, has_consent: bool = False) -> Agent:
    return Agent(
        provider=own,
        memory_fallback_provider=fallback,
        cross_vendor_consent_at=NOW if has_consent else None,
    )


@pytest.mark.req("A15")
@pytest.mark.parametrize(
    ("own", "fallback", "has_consent", "is_allowed"),
    [
        (("local", "a"), ("local", "b"), False, True),
        (("local", "a"), ("cloud", "a"), False, False),
        (("local", "a"), ("cloud", "a"), True, False),
        (("cloud", "a"), ("local", "b"), False, True),
        (("cloud", "a"), ("cloud", "A"), False, True),
        (("cloud", "a"), ("cloud", "b"), False, False),
        (("cloud", "a"), ("cloud", "b"), True, True),
        (("cloud", ""), ("cloud", ""), False, False),
    ],
)
def test_fallback_is_never_from_local_to_cloud_nor_to_another_vendor_unasked(
    own: Any, fallback: Any, has_consent: Any, is_allowed: Any
) -> None:
    """181."""
    mine, other = provider(*own), provider(*fallback)
    found = memory_providers(agent(mine, other, has_consent=has_consent))
    assert found == ((mine, other) if is_allowed else (mine,))


@pytest.mark.req("A15")
def test_provider_switched_off_is_never_asked() -> None:
    off: dict[str, Any] = {"is_active": False}
    mine, other = provider("cloud"), provider("local")
    assert memory_providers(agent(mine, provider("local", **off))) == (mine,)
    assert memory_providers(agent(provider("cloud", **off), other)) == (other,)
    assert memory_providers(agent(provider("cloud", **off), provider("local", **off))) == ()
    assert memory_providers(agent(mine, mine)) == (mine,)
    assert memory_providers(agent(mine, None)) == (mine,)


def test_config_opens_the_key_and_never_shows_it() -> None:
    sealed = seal("sk-very-secret", keys=encryption_keys())
    config = provider_config(provider("cloud", sealed_api_key=sealed, timeouts={"total": 7}))
    assert config.api_key == "sk-very-secret"
    assert "sk-very-secret" not in repr(config)
    assert config.timeouts == ProviderTimeouts(total_seconds=7)
    assert config.base_url is None
    assert provider_config(provider("local")).api_key is None


def test_timeouts_not_set_have_their_defaults() -> None:
    assert provider_timeouts({}) == ProviderTimeouts()
    assert provider_timeouts({"connect": 1, "first_token": 2, "between": 3, "total": 4}) == (
        ProviderTimeouts(
            connect_seconds=1, first_token_seconds=2, between_tokens_seconds=3, total_seconds=4
        )
    )


def test_built_in_and_local_models_cost_nothing_cloud_ones_their_price() -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=1_000_000)
    offline = price(provider=provider("local", kind="offline"), model="x", usage=usage, now=NOW)
    assert (offline.usd, offline.is_known) == (Decimal(0), True)
    known = price(provider=provider("cloud", "openai"), model="gpt-4o-mini", usage=usage, now=NOW)
    assert known.is_known
    assert known.usd > Decimal("0.1")
    unknown = price(provider=provider("cloud", "nobody"), model="what-1", usage=usage, now=NOW)
    assert not unknown.is_known
