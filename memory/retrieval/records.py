"""What is stored of a text to find it by: a head of fixed size and its words, packed. Pure.

A shelf is read as one stream of such records, so both halves are plain little-endian numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from memory.retrieval.traits import traits_of
from memory.retrieval.words import folded, hash_of, hashed, words_of

HEAD: Final = np.dtype(
    [
        ("words", "<u4"),  # how many words follow
        ("kind", "<u2"),  # place in KINDS
        ("traits", "<u2"),  # see memory.retrieval.traits
        ("role", "<u4"),  # hash of the role; 0 is any
        ("speaker", "<u4"),  # hash of the folded name; 0 is nobody in particular
        ("session", "<u8"),  # hash of the thread or document: neighbours share it
        ("place", "<u4"),  # order in the session
        ("said_at", "<f8"),  # seconds since 1970, UTC
    ]
)
KINDS: Final = ("recall", "item", "core", "knowledge")


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A text to be found, and what is known of it.

    Attributes:
        kind: One of KINDS.
        text: All of it that is searched.
        session: Id of the thread or document it stands in.
        place: Its order there.
        said_at: The time of what it says.
        role: The role it belongs to; empty for any.
        speaker: Who said it, where that is known.
    """

    kind: str
    text: str
    session: str
    place: int
    said_at: datetime
    role: str = ""
    speaker: str | None = None


def pack(described: Described) -> bytes:
    """Return the record of a text. Cost: linear in the text; about 0.1 ms for a short turn."""
    words = hashed(words_of(described.text))
    head = np.zeros(1, dtype=HEAD)
    head["words"] = len(words)
    head["kind"] = KINDS.index(described.kind)
    head["traits"] = traits_of(described.text)
    head["role"] = name_hash(described.role)
    head["speaker"] = name_hash(described.speaker or "")
    head["session"] = session_hash(described.session)
    head["place"] = described.place
    head["said_at"] = described.said_at.timestamp()
    return head.tobytes() + words.tobytes()


def name_hash(name: str) -> int:
    """Return the hash of a role or a person's name, folded; 0 for none."""
    key = folded(name).strip()
    return hash_of(key) if key else 0


def session_hash(session: str) -> int:
    """Return a 64-bit hash of a thread's or document's id."""
    return hash_of(session) << 32 | hash_of(session[::-1])
