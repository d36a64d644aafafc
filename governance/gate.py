"""The gate: what every write to long-term memory passes, whoever asks for it.

In this order: only what succeeded teaches; secrets go, also where they were stripped before; what
is personal is masked, tagged, held or refused as policy says; what is beyond a red line gives way
to a placeholder or refuses the text; what is left of an empty text is nothing. A text that carries
orders or markers is kept as it is, as evidence, but in the tier that nobody believes; a prompt
shows it cleaned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from governance import audit
from governance.policy_rules import Policy
from governance.redlines import find_redlines, mask_redlines
from governance.secrets import strip_secrets
from memory.cleared import Cleared
from memory.language import dominant_language
from memory.sanitize import hits_in, joined_orders
from memory.scope import Scope

UNTRUSTED: Final = "untrusted"
# How many texts before one are read together with it: longer chains are no order any more.
MOST_BEFORE: Final = 8
_SUCCEEDED: Final = "succeeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """A text that must not be remembered: why, and the kinds of what speaks against it, sorted."""

    reason: Literal["run_not_succeeded", "empty", "too_long", "redline", "pii"]
    kinds: tuple[str, ...] = ()


def admit(
    *,
    text: str,
    tier: str,
    policy: Policy | None = None,
    most_characters: int | None = None,
    redlines: Literal["mask", "block"] = "mask",
    run_status: str | None = None,
    before: Sequence[str] = (),
) -> Cleared | Blocked:
    """Return what of a text may be remembered, if anything may.

    Pure; linear; about 0.05 ms for a short turn.

    Args:
        text: What is to be remembered.
        tier: The tier it has where nothing speaks against it.
        policy: What is done about what is personal; None for the defaults.
        most_characters: What its column holds; a longer text is blocked, None for any length.
        redlines: Whether what is beyond a red line gives way to a placeholder (recall, knowledge)
            or refuses the whole text (facts, items, corrections, behaviour samples).
        run_status: How the run ended that it comes from; None for what comes from none.
        before: What the same speaker said just before, oldest first: an order may be spread over
            several messages.
    """
    if run_status not in (None, _SUCCEEDED):
        return Blocked(reason="run_not_succeeded")
    if not text.strip():
        return Blocked(reason="empty")
    language: Literal["zh", "en"] = "zh" if dominant_language(text) == "zh" else "en"
    stripped = strip_secrets(text)
    if redlines == "block" and (beyond := find_redlines(stripped.text)):
        return Blocked(reason="redline", kinds=tuple(sorted({one.kind for one in beyond})))
    masked = mask_redlines(stripped.text, language=language)
    if most_characters is not None and len(masked.text) > most_characters:
        return Blocked(reason="too_long")
    markers = _markers(masked.text, before)
    return Cleared(
        text=masked.text,
        tier=UNTRUSTED if markers else tier,
        removed=tuple(sorted((*stripped.kinds, *masked.kinds))),
        markers=markers,
    )


def record_written(
    *,
    scope: Scope,
    kind: str,
    target_id: str,
    cleared: Sequence[Cleared],
    now: datetime,
    run_id: str | None = None,
    origin: str,
) -> None:
    """Write the audit row of one long-term write, in its transaction. Cost: one INSERT.

    Args:
        scope: Names tenant and actor.
        kind: What was written: `recall`, `item`, `fact`, `document`, ...
        target_id: The row's id.
        cleared: The texts it holds, as the gate let them through; only counted and named here.
        now: When it was written.
        run_id: The run it comes from, if any.
        origin: How it came: `run`, `api`, `tool`, `staff`, ...

    Raises:
        AuditOutsideTransactionError: No transaction is open.
    """
    audit.record(
        scope=scope,
        action="memory_written",
        target_kind=kind,
        target_id=target_id,
        now=now,
        detail=written_detail(kind=kind, cleared=cleared, run_id=run_id, origin=origin),
    )


def written_detail(
    *, kind: str, cleared: Sequence[Cleared], run_id: str | None, origin: str
) -> dict[str, int | str | bool | list[str]]:
    """Return what the audit row of a write says: sizes, names and ids, never text."""
    tiers = {one.tier for one in cleared}
    return {
        "kind": kind,
        "origin": origin,
        "characters": sum(len(one.text) for one in cleared),
        "source_run_id": run_id or "",
        "tier": UNTRUSTED if UNTRUSTED in tiers else min(tiers, default=""),
        "removed": sorted({name for one in cleared for name in one.removed}),
        "pii": sorted({span.kind for one in cleared for span in one.pii}),
        "markers": sorted({name for one in cleared for name in one.markers}),
        "is_held": any(one.is_held for one in cleared),
    }


def _markers(text: str, before: Sequence[str]) -> tuple[str, ...]:
    """Return the rules that a text fires, alone or as the last of several."""
    found = {rule for rule, _, _ in hits_in(text)}
    if before:
        texts = [*before[-MOST_BEFORE:], text]
        last = len(texts) - 1
        found |= {order.rule for order in joined_orders(texts) if last in order.indexes}
    return tuple(sorted(found))
