"""What a call cost, from the price list that ships with `genai-prices`; no network, no thread."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import lru_cache

import genai_prices

from memory.providers.base import Usage

FREE_VENDORS = frozenset({"", "offline", "local", "self", "self-hosted"})
_ALIASES = {"xai": "x-ai", "gemini": "google", "vertex": "google", "bedrock": "aws",
            "moonshot": "moonshotai", "kimi": "moonshotai", "zhipu": "zhipuai",
            "mistralai": "mistral", "voyage": "voyageai"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Money for one call in USD; `is_known` is False when the list has no such model."""

    usd: Decimal
    is_known: bool


def cost_usd(
    *, vendor: str, model: str, usage: Usage, at: datetime, locality: str = "cloud"
) -> Cost:
    """Price `usage` of a vendor's `model` at the list prices of that moment.

    Whatever runs locally is free and known to be. An unknown vendor or model costs 0 with
    `is_known` False, so that bookkeeping never stops. Cost: a scan of the list (about 0.2 ms),
    once per vendor and model; the first call loads the list (half a second).
    """
    name = vendor.strip().lower()
    if locality == "local" or name in FREE_VENDORS:
        return Cost(usd=Decimal(0), is_known=True)
    vendor_id = _ALIASES.get(name, name)
    if not _is_listed(vendor_id, model):
        return Cost(usd=Decimal(0), is_known=False)
    tokens = genai_prices.Usage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
    price = genai_prices.calc_price(
        tokens, model, provider_id=vendor_id, genai_request_timestamp=at
    )
    return Cost(usd=price.total_price, is_known=True)


@lru_cache(maxsize=256)
def _is_listed(vendor_id: str, model: str) -> bool:
    try:
        genai_prices.calc_price(
            genai_prices.Usage(input_tokens=1, output_tokens=1), model, provider_id=vendor_id
        )
    except (LookupError, ValueError):
        return False
    return True
