"""Names through the gate: what a term or an alias of the vocabulary may be."""

from __future__ import annotations

from typing import Final

from governance import gate
from governance.entities.problems import NotRememberedError
from governance.policy_rules import Policy
from memory.cleared import Cleared
from memory.retrieval.names import name_key
from memory.sanitize import sanitize

MOST_TERM_CHARACTERS: Final = 120
MOST_ALIASES: Final = 200
PII: Final = "pii"
HELD: Final = "held"


def admit_term(*, text: str, policy: Policy, tier: str = "stated") -> Cleared:
    """Return a term as it may be remembered: on one line, nothing unseen in it.

    One with orders or markers stays as it was handed in, and is untrusted. Pure; about 0.1 ms.

    Raises:
        NotRememberedError: It is beyond a red line, empty, too long, or lost a part at the gate.
    """
    raw = _admitted(" ".join(text.split()), policy, tier)
    if raw.tier == gate.UNTRUSTED:
        return raw
    return _admitted(" ".join(sanitize(raw.text).text.split()), policy, tier)


def admit_name(*, text: str, policy: Policy) -> Cleared:
    """Return a name that a decider wrote, as it may take effect.

    Raises:
        NotRememberedError: As `admit_term`, or it carries orders or markers.
    """
    cleared = admit_term(text=text, policy=policy, tier="approved")
    if cleared.tier == gate.UNTRUSTED:
        raise NotRememberedError("A name carries no orders and no markers of a prompt.")
    return cleared


def flags_of(cleared: Cleared) -> tuple[str, ...]:
    """Return what a decider should look at, by name."""
    found = ((PII, bool(cleared.pii)), (HELD, cleared.is_held))
    return tuple(name for name, is_so in found if is_so)


def _admitted(text: str, policy: Policy, tier: str) -> Cleared:
    cleared = gate.admit(
        text=text,
        tier=tier,
        policy=policy,
        most_characters=MOST_TERM_CHARACTERS,
        redlines="block",
    )
    if isinstance(cleared, gate.Blocked):
        raise NotRememberedError
    if cleared.removed or not name_key(cleared.text):
        raise NotRememberedError("A term with secrets or masked numbers in it is no term.")
    return cleared
