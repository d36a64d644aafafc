"""Whether a person's own words bear out a fact, and which of their messages does it best. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import re2

from governance.core.words import is_negated, share_said
from memory.retrieval.words import folded

_LEAST_SHARE: Final = 0.5
_NUMBER: Final = re2.compile(r"[0-9]+(?:[.,:/-][0-9]+)*")
# Names of things that are written as they are or not at all: paths, addresses, identifiers.
_LITERAL: Final = re2.compile(r"[\w.+-]*(?:[/\\@_]|\w\.\w)[\w./\\@+-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounded:
    """The run whose words bear a fact out, and the sentence that does it best."""

    run_id: str
    evidence: str


def ground(*, fact: str, said: Mapping[str, Sequence[str]]) -> Grounded | None:
    """Return what bears a fact out, None where nothing does: the model made it up, or was told it.

    At least half of its telling words have to be one message's own, every number, path, address and
    identifier in it, and the sentence must not deny what the fact affirms. Of messages that do, the newest that does it best. Linear.

    Args:
        fact: As the model put it.
        said: The person's own sentences by run, oldest first.
    """
    best: tuple[float, Grounded] | None = None
    for run_id, sentences in said.items():
        text = "\n".join(sentences)
        share = share_said(fact=fact, said=text)
        if share < _LEAST_SHARE or not _has_literals(fact, text):
            continue
        if best is None or share >= best[0]:
            evidence = _evidence(fact, sentences)
            if evidence is not None:
                best = (share, Grounded(run_id=run_id, evidence=evidence))
    return best[1] if best else None


def _evidence(fact: str, sentences: Sequence[str]) -> str | None:
    """Return the sentence that bears a fact out best, None if it says the contrary."""
    shares = [(share_said(fact=fact, said=one), one) for one in sentences]
    most = max(share for share, _ in shares)
    best = [one for share, one in shares if share == most]
    return next((one for one in best if is_negated(one) == is_negated(fact)), None)


def _has_literals(fact: str, text: str) -> bool:
    """Say whether each number and literal of a fact stands in the text."""
    told, fact = folded(text), folded(fact)
    numbers = set(_NUMBER.findall(told))
    if any(number not in numbers for number in _NUMBER.findall(fact)):
        return False
    return all(literal.strip(".") in told for literal in _LITERAL.findall(fact))
