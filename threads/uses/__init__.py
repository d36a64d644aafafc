"""Who saw what, and what was made of it: ids, kinds, numbers and times, never a text."""

from __future__ import annotations

from threads.uses.listing import uses_of
from threads.uses.records import Answer, Linked, Uses
from threads.uses.rederiving import NotRederivableError, Rederived, rederive

__all__ = [
    "Answer",
    "Linked",
    "NotRederivableError",
    "Rederived",
    "Uses",
    "rederive",
    "uses_of",
]
