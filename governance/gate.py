"""The gate: what every write to long-term memory passes, whoever asks for it.

In this order: only what succeeded teaches; secrets go, also where they were stripped before; what
is personal is masked, tagged, held or refused as policy says; what is beyond a red line gives way
to a placeholder or refuses the text; what is left of an empty text is nothing. A text that carries
orders or markers is kept as it is, as evidence, but in the tier that nobody believes; a prompt
shows it cleaned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from governance import audit
from governance.pii import Finding, Group, find_pii
from governance.policy_rules import RULES, Policy
from governance.redlines import find_redlines, mask_redlines
from governance.secrets import strip_secrets
from memory.cleared import Cleared, PiiSpan
from memory.language import dominant_language
from memory.sanitize import hits_in, joined_orders
from memory.scope import Scope

UNTRUSTED: Final = "untrusted"
WRITTEN: Final = "memory_written"
# How many texts before one are read together with it: longer chains are no order any more.
MOST_BEFORE: Final = 8
_SUCCEEDED: Final = "succeeded"
_GROUPS: Final[tuple[Group, ...]] = ("pii_identity", "pii_contact", "pii_uncertain")
# Actions of policy after which something personal still stands in the text, and after which not.
_KEPT: Final = frozenset({"tag", "hold"})
_GOES: Final = frozenset({"mask", "strip"})
_MOST_ROUNDS: Final = 8


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
    can_wait: bool = True,
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
        can_wait: Whether somebody will decide about what policy holds; where nobody will (recall),
            it is masked instead.
    """
    if run_status not in (None, _SUCCEEDED):
        return Blocked(reason="run_not_succeeded")
    if not text.strip():
        return Blocked(reason="empty")
    language: Literal["zh", "en"] = "zh" if dominant_language(text) == "zh" else "en"
    actions = _actions(policy, can_wait=can_wait)
    stripped = strip_secrets(text)
    refused = _refused(stripped.text, actions, redlines)
    if refused is not None:
        return refused
    clean, findings, kinds = _cleaned(stripped.text, actions, language)
    if not clean.strip():
        return Blocked(reason="empty", kinds=tuple(sorted(kinds)))
    if most_characters is not None and len(clean) > most_characters:
        return Blocked(reason="too_long")
    markers = _markers(clean, before)
    return Cleared(
        text=clean,
        tier=UNTRUSTED if markers else tier,
        pii=tuple(
            PiiSpan(kind=one.kind, start=one.start, end=one.end)
            for one in findings
            if actions[one.group] in _KEPT
        ),
        removed=tuple(sorted({*stripped.kinds, *kinds})),
        markers=markers,
        is_held=any(actions[one.group] == "hold" for one in findings),
    )


def stored(*, text: str, tier: str) -> Cleared:
    """Return a text that was read from long-term memory, whose writers all came through here.

    For what is cut from it, so that a newer rule does not move the places of older cuts; who may
    call this is on the list of tests/test_gate_walk.py.
    """
    return Cleared(text=text, tier=tier)


def _actions(policy: Policy | None, *, can_wait: bool) -> dict[Group, str]:
    """Return what is to be done with each group; the defaults without a policy."""
    values = policy.values if policy else {name: RULES[name].default for name in _GROUPS}
    actions = {group: str(values[group]) for group in _GROUPS}
    if can_wait:
        return actions
    return {group: "mask" if act == "hold" else act for group, act in actions.items()}


def _refused(
    text: str, actions: Mapping[Group, str], redlines: Literal["mask", "block"]
) -> Blocked | None:
    """Return why a text may not be kept at all, None where it may be."""
    if "block" in actions.values():
        kinds = {one.kind for one in find_pii(text) if actions[one.group] == "block"}
        if kinds:
            return Blocked(reason="pii", kinds=tuple(sorted(kinds)))
    if redlines == "block" and (beyond := find_redlines(text)):
        return Blocked(reason="redline", kinds=tuple(sorted({one.kind for one in beyond})))
    return None


def _cleaned(
    text: str, actions: Mapping[Group, str], language: Literal["zh", "en"]
) -> tuple[str, tuple[Finding, ...], set[str]]:
    """Return a text without what may not stay, what is personal in it still, and what went.

    Where a red line and policy both want a number gone, the red line's placeholder stands for it.
    One thing gone may show another; a few rounds see them all.
    """
    kinds: set[str] = set()
    for _ in range(_MOST_ROUNDS):
        masked = mask_redlines(text, language=language)
        findings = find_pii(masked.text)
        clean = _without(masked.text, findings, actions)
        kinds |= {*masked.kinds, *(one.kind for one in findings if actions[one.group] in _GOES)}
        again = strip_secrets(clean)
        kinds |= set(again.kinds)
        if again.text == text:
            return text, findings, kinds
        text = again.text
    return text, find_pii(text), kinds


def _without(text: str, findings: Sequence[Finding], actions: Mapping[Group, str]) -> str:
    """Return a text with a placeholder, or nothing, for each finding that may not stay."""
    pieces: list[str] = []
    position = 0
    for one in findings:
        if actions[one.group] in _GOES:
            is_masked = actions[one.group] == "mask"
            pieces += (text[position : one.start], f"[pii:{one.kind}]" if is_masked else "")
            position = one.end
    pieces.append(text[position:])
    return "".join(pieces)


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
        action=WRITTEN,
        target_kind=kind,
        target_id=target_id,
        now=now,
        detail=written_detail(kind=kind, cleared=cleared, run_id=run_id, origin=origin),
    )


def written_detail(
    *, kind: str, cleared: Sequence[Cleared], run_id: str | None, origin: str
) -> audit.Detail:
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
