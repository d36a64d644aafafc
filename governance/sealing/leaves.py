"""What exactly is sealed of a row, as bytes that no version of a database or library changes."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from governance.models import AuditEntry, AuditSeal, Disclosure
from governance.sealing.merkle import leaf_hash


def entry_leaf(entry: AuditEntry) -> str:
    """Return the leaf of a row of the audit log."""
    return _leaf(
        "entry",
        entry.pk,
        entry.tenant_id,
        _time(entry.at),
        entry.actor,
        entry.action,
        entry.target_kind,
        entry.target_id,
        entry.detail,
    )


def disclosure_leaf(shown: Disclosure) -> str:
    """Return the leaf of a disclosure."""
    return _leaf(
        "disclosure",
        shown.pk,
        shown.tenant_id,
        _time(shown.at),
        shown.kind,
        shown.subject_id,
        shown.run_id,
        shown.thread_id,
        shown.agent_id,
        shown.key_id,
        shown.provider_id,
        shown.model,
        list(shown.item_ids),
    )


def seal_hash(seal: AuditSeal) -> str:
    """Return the hash of one link, over all of it and so over the link before."""
    parts = (
        "seal",
        seal.tenant_id,
        seal.seq,
        seal.entries,
        seal.root,
        seal.previous_hash,
        _time(seal.sealed_at),
    )
    return hashlib.sha256(_bytes(parts)).hexdigest()


def _leaf(*parts: Any) -> str:
    return leaf_hash(_bytes(parts))


def _bytes(parts: tuple[Any, ...]) -> bytes:
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.encode()


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
