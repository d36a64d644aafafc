"""The ledger of erasures and holds: a file outside the database, which a restore can not turn back.

One JSON object a line, each bound to the line before by its hash. Appending is safe between
processes (a lock) and against a lost machine (flushed to disk before it returns). No personal data:
ids, HMACs, times.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from memory.conf import erasure_ledger_path
from memory.errors import CredenceError

_MODE: Final = 0o600
_TAIL_BYTES: Final = 64 * 1024


class LedgerDamagedError(CredenceError):
    """The ledger of erasures has a line that can not be read; put its copy back in place."""

    code = "ledger_damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One line.

    Attributes:
        id: Of the erasure, or of the hold.
        hmacs: Of the person's `user_id`, under every pepper; what finds a person after a restore.
        epoch: The person's, at that time.
        previous: SHA-256 of the line before; empty in the first, and filled by `append`.
    """

    kind: Literal["erased", "held", "released"]
    id: str
    tenant_id: str
    subject_id: str
    at: datetime
    hmacs: tuple[str, ...] = ()
    epoch: int = 1
    mode: str = "all"
    kinds: tuple[str, ...] = ()
    before_at: datetime | None = None
    receipt_sha256: str = ""
    previous: str = ""


def append(*, entry: LedgerEntry) -> None:
    """Write one entry, flushed to disk; the same kind and id again changes nothing.

    A last line that a crash tore off is taken away first: nobody was told that it was written.
    Cost: two flushes, about 1 to 20 ms.

    Raises:
        OSError: The disk does not take it.
    """
    path = erasure_ledger_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path) as descriptor:
        lines = _mended(descriptor)
        if any(_is_same(line, entry) for line in lines):
            return
        previous = _sha256(lines[-1]) if lines else ""
        row = asdict(entry) | {"previous": previous, "at": entry.at.isoformat()}
        row["before_at"] = entry.before_at.isoformat() if entry.before_at else None
        line = json.dumps(row, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        written = 0
        while written < len(line):
            written += os.write(descriptor, line[written:])
        os.fsync(descriptor)
    _flush_folder(path.parent)


def read(*, path: Path | None = None) -> list[LedgerEntry]:
    """Return all entries in order, none if there is no file; a torn last line is passed over.

    Raises:
        LedgerDamagedError: Another line can not be read.
    """
    return [_entry(line) for line in _lines(_content(path or erasure_ledger_path()))]


def read_last(*, count: int, path: Path | None = None) -> list[LedgerEntry]:
    """Return the last entries, at most `count` and at most 64 KiB of them."""
    path = path or erasure_ledger_path()
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            content = file.read()
    except FileNotFoundError:
        return []
    lines = _lines(content)
    whole = lines if size <= _TAIL_BYTES else lines[1:]
    return [_entry(line) for line in whole[-count:]]


def broken_links(*, path: Path | None = None) -> list[int]:
    """Return the numbers, from 1, of the lines that do not fit the line before."""
    lines = _lines(_content(path or erasure_ledger_path()))
    hashes = ["", *(_sha256(line) for line in lines)]
    entries = [_entry(line) for line in lines]
    return [
        number
        for number, (entry, before) in enumerate(zip(entries, hashes, strict=False), start=1)
        if entry.previous != before
    ]


def position_of(*, erasure_id: str) -> tuple[int, str] | None:
    """Return the line number, from 1, and the hash of an erasure's line, or None."""
    for number, line in enumerate(_lines(_content(erasure_ledger_path())), start=1):
        if erasure_id.encode() in line and _entry(line).id == erasure_id:
            return number, _sha256(line)
    return None


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _mended(descriptor: int) -> list[bytes]:
    """Return the whole lines, after cutting off what a crash left of the last one."""
    size = os.fstat(descriptor).st_size
    content = os.pread(descriptor, size, 0)
    end = content.rfind(b"\n") + 1
    if end != size:
        os.ftruncate(descriptor, end)
    return _lines(content[:end])


def _is_same(line: bytes, entry: LedgerEntry) -> bool:
    if entry.id.encode() not in line:
        return False
    known = _entry(line)
    return (known.kind, known.id) == (entry.kind, entry.id)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _lines(content: bytes) -> list[bytes]:
    return content[: content.rfind(b"\n") + 1].splitlines()


def _entry(line: bytes) -> LedgerEntry:
    try:
        row: dict[str, Any] = json.loads(line)
        row["at"] = datetime.fromisoformat(row["at"])
        row["before_at"] = datetime.fromisoformat(row["before_at"]) if row["before_at"] else None
        row["hmacs"], row["kinds"] = tuple(row["hmacs"]), tuple(row["kinds"])
        return LedgerEntry(**row)
    except (ValueError, KeyError, TypeError) as error:
        raise LedgerDamagedError from error


def _sha256(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _flush_folder(folder: Path) -> None:
    """Make the file's own name safe, too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
