"""Heads: how far each tenant's chain had come, kept in a file outside the database.

JSON lines, only ever appended to. Copy the file to another machine: a chain that was cut or
rewritten afterwards no longer fits it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC
from pathlib import Path

from governance.models import AuditSeal
from memory.conf import audit_heads_path
from memory.ids import is_id
from memory.rls import maintenance_transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The last link of a tenant's chain at some time; `sealed_at` is ISO 8601 in UTC."""

    tenant_id: str
    seq: int
    hash: str
    sealed_at: str


def heads_of(*, tenant_id: str | None = None) -> list[Head]:
    """Return the head of each tenant's chain, or of one. Cost: one query, as role maint."""
    with maintenance_transaction() as alias:
        rows = AuditSeal.objects.using(alias).unscoped(reason="heads are ids, numbers and hashes")
        rows = rows.filter(tenant_id=tenant_id) if tenant_id else rows
        last = rows.order_by("tenant_id", "-seq").distinct("tenant_id")
        return [_head(seal) for seal in last]


def export_heads(*, path: Path | None = None) -> int:
    """Append the heads that the file does not have yet, flushed to disk; return how many.

    The file is made readable by its owner only.

    Raises:
        OSError: The file can not be written.
    """
    path = path or audit_heads_path()
    known = set(read_heads(path=path))
    fresh = [head for head in heads_of() if head not in known]
    if fresh:
        _append(path, (json.dumps(asdict(head)) for head in fresh))
    return len(fresh)


def read_heads(*, path: Path | None = None) -> list[Head]:
    """Return all heads of the file, oldest first; none where there is no file.

    A last line that was cut off while it was written is passed over.

    Raises:
        ValueError: Another line is no head.
        OSError: The file can not be read.
    """
    path = path or audit_heads_path()
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    # What follows the last line end was not finished.
    return list(_parsed(lines[:-1]))


def _parsed(lines: Iterable[str]) -> Iterator[Head]:
    for number, line in enumerate(lines, start=1):
        try:
            if line:
                yield _checked(Head(**json.loads(line)))
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"line {number} is no head") from error


def _checked(head: Head) -> Head:
    """Return a head whose values are of their kinds: the file may have been written by anybody."""
    texts = (head.tenant_id, head.hash, head.sealed_at)
    if type(head.seq) is not int or not all(isinstance(text, str) for text in texts):
        raise TypeError(head)
    if not is_id(head.tenant_id, prefix="tn"):
        raise ValueError(head)
    return head


def _append(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        size = os.fstat(handle).st_size
        # A torn line of before is ended, so that it can not swallow the next one.
        torn = size and os.pread(handle, 1, size - 1) != b"\n"
        if torn:
            os.ftruncate(handle, _whole(path))
        _write_all(handle, "".join(f"{line}\n" for line in lines).encode())
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_all(handle: int, content: bytes) -> None:
    """Write all of it: a system may take a part at a time."""
    while content:
        content = content[os.write(handle, content) :]


def _whole(path: Path) -> int:
    """Return how many bytes of the file are whole lines."""
    return path.read_bytes().rfind(b"\n") + 1


def _head(seal: AuditSeal) -> Head:
    at = seal.sealed_at.astimezone(UTC).isoformat()
    return Head(tenant_id=seal.tenant_id, seq=seal.seq, hash=seal.hash, sealed_at=at)
