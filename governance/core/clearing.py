"""A fact through the gate: its words, what it is about, its evidence; and the key of what it says.

Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from governance import gate
from governance.core.orders import is_instruction_like
from governance.core.problems import FactEmptyError, FactRefusedError, FactTooLongError
from governance.gate import Blocked
from governance.policy_rules import Policy
from memory.cleared import Cleared
from memory.retrieval.words import folded
from memory.store.candidates import ClearedFact
from memory.trust import TIERS

MOST_FACT_CHARACTERS: Final = 120
MOST_SUBJECT_CHARACTERS: Final = 80
MOST_EVIDENCE_CHARACTERS: Final = 1000
STATED: Final = "stated"
INSTRUCTION_LIKE: Final = "instruction_like"
PII: Final = "pii"
HELD: Final = "held"
_MARKED: Final = "It carries orders or role markers, so nobody may be asked to confirm it."
# Between digits they tell numbers apart; elsewhere they say nothing of what a fact says.
_SILENT: Final = frozenset(" \t\n\r\u3000.,;:!?。，、；：！？…\"'“”‘’`()（）[]【】「」《》")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedFact:
    """A fact as somebody or some model put it.

    Attributes:
        subject: What it is about, such as "favourite colour"; facts of one subject exclude each other.
        origin: `run` or `import` with its run, `api` or `staff`.
        by: The principal's id.
        evidence: The person's own words.
    """

    fact: str
    origin: str
    by: str
    subject: str = ""
    run_id: str | None = None
    confidence: float = 1.0  # whoever states it is sure; a model says how sure it is
    evidence: str = ""


def fact_key(text: str) -> str:
    """Return the hash of what a text says: in one width and case, without spaces and commas.

    Signs between digits stay, and so do those that make another word: 1.5 is not 15, C++ not C.
    """
    said = folded(text).strip()
    kept = "".join(
        one for place, one in enumerate(said) if one not in _SILENT or _is_in_number(said, place)
    )
    return hashlib.sha256((kept or said).encode()).hexdigest()


def subject_key(text: str) -> str:
    """Return what is equal of two subjects that mean the same; empty for none."""
    return fact_key(text) if text.strip() else ""


def clear_fact(*, stated: StatedFact, policy: Policy | None) -> ClearedFact | Blocked:
    """Return a fact as it may wait for a decision, or why it may not. Cost: under a millisecond.

    Evidence that may not be kept is left out; it refuses nothing.
    """
    fact = gate.admit(
        text=_one_line(stated.fact),
        tier=STATED,
        policy=policy,
        most_characters=MOST_FACT_CHARACTERS,
        redlines="block",
    )
    if isinstance(fact, Blocked):
        return fact
    subject = _subject(stated.subject, policy)
    if isinstance(subject, Blocked):
        return subject
    told = gate.admit(text=stated.evidence[:MOST_EVIDENCE_CHARACTERS], tier=STATED, policy=policy)
    texts = [fact] if subject is None else [fact, subject]
    return ClearedFact(
        fact=fact,
        key=fact_key(fact.text),
        tier=max((one.tier for one in texts), key=TIERS.index),
        subject=subject,
        evidence=told if isinstance(told, Cleared) else None,
        flags=_flags(texts),
    )


def require_clear(*, stated: StatedFact, policy: Policy | None) -> ClearedFact:
    """Return a fact as it may wait, or be confirmed.

    Raises:
        FactEmptyError: It says nothing.
        FactTooLongError: It, or what it is about, is too long.
        FactRefusedError: It names what must not be remembered, or carries orders or markers: those
            are never a candidate.
    """
    passed = clear_fact(stated=stated, policy=policy)
    if isinstance(passed, ClearedFact):
        if any(one.markers for one in passed.texts):
            raise FactRefusedError(_MARKED)
        return passed
    if passed.reason == "empty":
        raise FactEmptyError(field="fact")
    if passed.reason == "too_long":
        raise FactTooLongError(field="fact" if _is_long(stated) else "subject")
    raise FactRefusedError


def _is_long(stated: StatedFact) -> bool:
    return len(_one_line(stated.fact)) > MOST_FACT_CHARACTERS


def _subject(text: str, policy: Policy | None) -> Cleared | Blocked | None:
    text = _one_line(text)
    if not text:
        return None
    return gate.admit(
        text=text,
        tier=STATED,
        policy=policy,
        most_characters=MOST_SUBJECT_CHARACTERS,
        redlines="block",
    )


def _flags(texts: Sequence[Cleared]) -> tuple[str, ...]:
    """Return what whoever decides should see at once."""
    flags = set()
    if any(one.markers or is_instruction_like(one.text) for one in texts):
        flags.add(INSTRUCTION_LIKE)
    if any(one.pii for one in texts):
        flags.add(PII)
    if any(one.is_held for one in texts):
        flags.add(HELD)
    return tuple(sorted(flags))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _is_in_number(text: str, place: int) -> bool:
    if not 0 < place < len(text) - 1:
        return False
    return text[place - 1].isdigit() and text[place + 1].isdigit()
