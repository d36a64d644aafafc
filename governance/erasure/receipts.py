"""The receipt of an erasure: what was done and searched, in numbers and ids; its hash proves it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from governance import ledger
from governance.erasure.decoding import DECODINGS, DEPTH
from governance.models.erasure import Erasure

VERSION: Final = 1
REMAINS: Final = (
    "ids, counts and times, the audit log, disclosures and this receipt (no text of the person)",
    "the HMAC of the person's user_id, by which a return is noticed",
    "until VACUUM dead rows and freed pages, until ANALYZE the planner's statistics",
    "write-ahead log until it is recycled",
    "backups and replicas made before; after a restore the ledger has it erased again",
)
_REWRITTEN: Final = "no dead rows nor freed pages: the tables were rewritten"


def receipt_of(erasure: Erasure, *, search: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the receipt as plain data, without anything of the person but an HMAC.

    Args:
        erasure: As it stands; a verified one's stored receipt says what was searched.
        search: What the search that has just ended looked at. Cost: a read of the ledger.
    """
    if search is None:
        search = erasure.receipt.get("search", {})
    place = ledger.position_of(erasure_id=erasure.pk)
    remains = list(REMAINS)
    if erasure.is_physical:
        remains[2] = _REWRITTEN
    return {
        "version": VERSION,
        "erasure": erasure.pk,
        "tenant": erasure.tenant_id,
        "subject": {"hmac": erasure.subject_hmac, "epoch": erasure.subject_epoch},
        "basis": str(erasure.origin),
        "mode": str(erasure.mode),
        "kinds": list(erasure.kinds),
        "before_at": _time(erasure.before_at),
        "is_physical": erasure.is_physical,
        "requested_by": erasure.requested_by,
        "requested_at": _time(erasure.created_at),
        "started_at": _time(erasure.started_at),
        "erased_at": _time(erasure.erased_at),
        "finished_at": _time(erasure.finished_at),
        "verified_at": _time(erasure.verified_at),
        "attempts": erasure.attempts,
        "counts": dict(erasure.counts),
        "verified": str(erasure.verified),
        "search": {**search, "decodings": list(DECODINGS), "nested": DEPTH},
        "findings": list(erasure.findings),
        "remains": remains,
        "ledger": {"line": place[0], "sha256": place[1]} if place else None,
    }


def canonical(receipt: Mapping[str, Any]) -> bytes:
    """Return the bytes that are hashed: JSON with sorted names, without spaces, in ASCII."""
    return json.dumps(receipt, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def sha256_of(receipt: Mapping[str, Any]) -> str:
    """Return the receipt's hash; anybody can compute it from the receipt alone."""
    return hashlib.sha256(canonical(receipt)).hexdigest()


def _time(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
