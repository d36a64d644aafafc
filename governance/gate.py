"""The gate: what every write to long-term memory passes, whoever asks for it.

In this order: only what succeeded teaches; secrets go, also where they were stripped before; what is
beyond a red line gives way to a placeholder; what is left of an empty text is nothing. A text that
carries orders or markers is kept as it is, as evidence, but in the tier that nobody believes; a
prompt shows it cleaned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from governance.redlines import mask_redlines
from governance.secrets import strip_secrets
from memory.language import dominant_language
from memory.sanitize import hits_in, joined_orders

UNTRUSTED: Final = "untrusted"
# How many texts before one are read together with it: longer chains are no order any more.
MOST_BEFORE: Final = 8
_SUCCEEDED: Final = "succeeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A text as it may be remembered.

    Attributes:
        text: Without secrets and without what is beyond a red line.
        tier: How far it may be trusted; `untrusted` where it carries orders or markers.
        removed: Kinds of what was taken out, sorted.
        markers: Names of the rules that its orders or markers fire, sorted.
    """

    text: str
    tier: str
    removed: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """A text that must not be remembered, and why: `run_not_succeeded` or `empty`."""

    reason: Literal["run_not_succeeded", "empty"]


def admit(
    *, text: str, tier: str, run_status: str | None = None, before: Sequence[str] = ()
) -> Admitted | Blocked:
    """Return what of a text may be remembered, if anything may.

    Pure; linear; about 0.05 ms for a short turn.

    Args:
        text: What is to be remembered.
        tier: The tier it has where nothing speaks against it.
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
    masked = mask_redlines(stripped.text, language=language)
    markers = _markers(masked.text, before)
    return Admitted(
        text=masked.text,
        tier=UNTRUSTED if markers else tier,
        removed=tuple(sorted((*stripped.kinds, *masked.kinds))),
        markers=markers,
    )


def _markers(text: str, before: Sequence[str]) -> tuple[str, ...]:
    """Return the rules that a text fires, alone or as the last of several."""
    found = {rule for rule, _, _ in hits_in(text)}
    if before:
        texts = [*before[-MOST_BEFORE:], text]
        last = len(texts) - 1
        found |= {order.rule for order in joined_orders(texts) if last in order.indexes}
    return tuple(sorted(found))
