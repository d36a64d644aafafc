"""What calls cost."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from memory.providers.base import Usage
from memory.providers.pricing import cost_usd

AT = datetime(2026, 6, 1, tzinfo=UTC)
USAGE = Usage(input_tokens=1_000_000, output_tokens=100_000)


def test_known_model_costs_what_the_list_says() -> None:
    cost = cost_usd(vendor="OpenAI", model="gpt-4o-mini", usage=USAGE, at=AT)
    assert cost.is_known
    assert cost.usd == Decimal("0.21")  # 0.15 and 0.60 a million


def test_cost_grows_with_both_counts() -> None:
    costs = [
        cost_usd(vendor="openai", model="gpt-4o-mini", usage=usage, at=AT).usd
        for usage in (
            Usage(input_tokens=0, output_tokens=0),
            Usage(input_tokens=10, output_tokens=0),
            Usage(input_tokens=10, output_tokens=10),
        )
    ]
    assert costs == sorted(set(costs))
    assert costs[0] == 0


@pytest.mark.parametrize(("vendor", "model"), [("openai", "nope-1"), ("acme", "gpt-4o-mini")])
def test_unknown_is_zero_and_says_so(vendor: str, model: str) -> None:
    cost = cost_usd(vendor=vendor, model=model, usage=USAGE, at=AT)
    assert (cost.usd, cost.is_known) == (Decimal(0), False)


def test_local_is_free_and_known() -> None:
    for vendor, locality in (("offline", "cloud"), ("openai", "local"), ("", "cloud")):
        cost = cost_usd(vendor=vendor, model="gpt-4o-mini", usage=USAGE, at=AT, locality=locality)
        assert (cost.usd, cost.is_known) == (Decimal(0), True)


def test_no_thread_fetches_prices() -> None:
    before = threading.active_count()
    cost_usd(vendor="openai", model="gpt-4o", usage=USAGE, at=AT)
    assert threading.active_count() == before
