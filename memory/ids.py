"""Identifiers: TypeIDs, a prefix that names the kind and a UUIDv7 that sorts by creation time.

Made in the application, so that any PostgreSQL serves and a row's id is known before its insert.
Source: the TypeID specification 0.3 (prefix, underscore, 26 characters of Crockford base32).
"""

from __future__ import annotations

from typing import Final

import re2
from typeid import TypeID

PREFIXES = frozenset(
    "tn usr team tmem key prov ag th run msg node art mem fact ccand ent ecand corr smp doc chunk "
    "rec job era aud op step idem ctx pol fit sum idx vec emb shelf mver eev emrg ext blk "
    "disc seal hold exp use day".split()
)
# What an id looks like inside other text, as an expression.
SHAPE: Final = r"[a-z]{2,8}_[0-7][0-9a-hjkmnp-tv-z]{25}"
_SHAPE = re2.compile(f"^{SHAPE}$")


def new_id(prefix: str) -> str:
    """Return a fresh id such as `run_01jd...`; ids made later in one process sort later.

    Raises:
        ValueError: `prefix` is not one of PREFIXES.
    """
    if prefix not in PREFIXES:
        raise ValueError(prefix)
    return str(TypeID(prefix=prefix))


def is_id(text: str, *, prefix: str | None = None) -> bool:
    """Say whether `text` has the shape of an id, of the kind `prefix` where one is named."""
    if not text.isascii() or not _SHAPE.match(text):
        return False
    kind = text.partition("_")[0]
    return kind in PREFIXES if prefix is None else kind == prefix
