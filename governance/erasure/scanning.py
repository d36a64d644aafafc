"""The search through everything: each value of each table, for all open erasures in one pass."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from django.db import DatabaseError, connections, transaction

from governance.erasure.catalogue import Table, tables
from governance.erasure.finding import OTHER_END, TEXT_END, Finder, Hit, Value
from memory import conf

_BATCH_CHARS: Final = 1_000_000
_ROWS_A_FETCH: Final = 100
_BLOCKS_A_STEP: Final = 2048
_FILE_CHARS: Final = 1_000_000
_LIFE_SECONDS: Final = 1.0
_FILE_OVERLAP: Final = 4096
_LAST_BLOCK: Final = 0xFFFF_FFFE
_FILE_KINDS: Final = frozenset({".jsonl", ".json", ".log", ".txt"})
_LARGE_OBJECT_BYTES: Final = 16 * 1024 * 1024

Row = Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Whose erasure is searched for, to tell whose a row is."""

    erasure_id: str
    tenant_id: str
    subject_id: str


@dataclass(slots=True, kw_only=True)
class Searched:
    """What was looked at, in numbers.

    Attributes:
        unread: Tables or columns that role maint may not read.
        cut_values: Values with more readings than are looked at.
    """

    tables: int = 0
    columns: int = 0
    rows: int = 0
    bytes: int = 0
    files: int = 0
    large_objects: int = 0
    cut_values: int = 0
    seconds: float = 0.0
    unread: list[str] = field(default_factory=list)


# By erasure, then by (table, column, whose): rows in all, and by kind of needle.
Found = dict[str, dict[tuple[str, str, str], Counter[str]]]


@dataclass(slots=True, kw_only=True)
class Pass:
    """One search through everything, which may take several calls.

    Attributes:
        at: The table and its block that come next; None for the beginning.
        is_done: Everything was looked at.
    """

    searched: Searched = field(default_factory=Searched)
    found: Found = field(default_factory=dict)
    at: tuple[str, int] | None = None
    is_done: bool = False


def scan(
    *,
    alias: str,
    finder: Finder,
    subjects: Mapping[str, Subject],
    until: float,
    done: Pass,
    between: Callable[[], None] = lambda: None,
) -> None:
    """Go on with a pass until it is done, or `until` of the monotonic clock; `done` is written to.

    Inside a transaction of role maint. Reads with a cursor of the server, about 1 MB at a time.
    `between` is called about every second, to show life. Cost: 3 to 6 MB of text a second on one
    core; the pass ends between two steps of 16 MB.
    """
    started = time.monotonic()
    search = _Search(alias=alias, finder=finder, subjects=subjects, done=done, between=between)
    try:
        for table in tables(alias=alias):
            if done.at is not None and table.label < done.at[0]:
                continue
            if not search.table(table, until=until):
                return
        search.large_objects()
        search.files()
        done.is_done = True
    finally:
        done.searched.seconds = round(done.searched.seconds + time.monotonic() - started, 3)


@dataclass(slots=True, kw_only=True)
class _Search:
    alias: str
    finder: Finder
    subjects: Mapping[str, Subject]
    done: Pass
    between: Callable[[], None]
    shown_at: float = 0.0

    def table(self, table: Table, *, until: float) -> bool:
        """Search one table from where the pass stands; say whether there is time for more."""
        searched = self.done.searched
        at, block = self.done.at or ("", 0)
        block = block if at == table.label else 0
        if block == 0:
            names = [table.label if one == "*" else f"{table.label}.{one}" for one in table.unread]
            searched.unread += names
            searched.tables += bool(table.columns)
            searched.columns += len(table.columns)
        while table.columns and block <= table.blocks:
            is_last = block + _BLOCKS_A_STEP > table.blocks
            self._blocks(table, block, _LAST_BLOCK if is_last else block + _BLOCKS_A_STEP)
            block += _BLOCKS_A_STEP
            if time.monotonic() >= until:
                self.done.at = (table.label, block)
                return False
        # A space sorts before whatever a longer name goes on with.
        self.done.at = (f"{table.label} ", 0)
        return time.monotonic() < until

    def _blocks(self, table: Table, first: int, end: int) -> None:
        with connections[self.alias].chunked_cursor() as cursor:
            cursor.execute(table.statement(), (f"({first},0)", f"({end},0)"))
            for batch in _batches(cursor):
                self._show_life()
                self._batch(table, batch)

    def _show_life(self) -> None:
        if time.monotonic() - self.shown_at >= _LIFE_SECONDS:
            self.between()
            self.shown_at = time.monotonic()

    def _batch(self, table: Table, rows: list[Row]) -> None:
        searched = self.done.searched
        searched.rows += len(rows)
        ends = [TEXT_END if column.is_text else OTHER_END for column in table.columns]
        has_lexemes = any(column.is_tsvector for column in table.columns)
        texts = [_joined(row, ends) for row in rows]
        whole = "".join(texts)
        searched.bytes += len(whole.encode())
        if not has_lexemes and not self.finder.is_suspect(whole):
            return
        for row, text in zip(rows, texts, strict=True):
            if has_lexemes or self.finder.is_suspect(text):
                self._row(table, row)

    def _row(self, table: Table, row: Row) -> None:
        for column, text in zip(table.columns, row[2:], strict=True):
            if not text:
                continue
            value = Value(
                text=text,
                is_text=column.is_text,
                can_name=column.can_name,
                is_tsvector=column.is_tsvector,
            )
            self._value(value, place=(table.label, column.name), owner=row[0], tenant=row[1])

    def _value(
        self, value: Value, *, place: tuple[str, str], owner: str | None, tenant: str | None
    ) -> None:
        hits, is_cut = self.finder.hits(value)
        self.done.searched.cut_values += is_cut
        by_erasure: dict[str, list[Hit]] = {}
        for hit in hits:
            by_erasure.setdefault(hit.erasure_id, []).append(hit)
        for erasure_id, mine in by_erasure.items():
            whose = _whose(self.subjects[erasure_id], owner=owner, tenant=tenant)
            counts = self.done.found.setdefault(erasure_id, {}).setdefault(
                (*place, whose), Counter()
            )
            counts.update(["rows", *{hit.kind for hit in mine}])

    def large_objects(self) -> None:
        """Search PostgreSQL's large objects, which the product does not use."""
        with connections[self.alias].cursor() as cursor:
            cursor.execute("SELECT oid FROM pg_largeobject_metadata ORDER BY oid")
            numbers = [row[0] for row in cursor.fetchall()]
        for number in numbers:
            try:
                with transaction.atomic(using=self.alias):
                    raw = self._large_object(number)
            except DatabaseError:
                self.done.searched.unread.append(f"large object {number}")
                continue
            self.done.searched.large_objects += 1
            self._blob(raw, place=("large object", str(number)))

    def _large_object(self, number: int) -> bytes:
        with connections[self.alias].cursor() as cursor:
            cursor.execute("SELECT lo_get(%s, 0, %s)", (number, _LARGE_OBJECT_BYTES))
            return bytes(cursor.fetchone()[0])

    def files(self) -> None:
        """Search the files that the product itself writes outside the database."""
        for path in own_files():
            try:
                raw = path.read_bytes()
            except OSError:
                self.done.searched.unread.append(f"file {path.name}")
                continue
            self.done.searched.files += 1
            self._blob(raw, place=("file", path.name))

    def _blob(self, raw: bytes, *, place: tuple[str, str]) -> None:
        self.done.searched.bytes += len(raw)
        text = raw.decode(errors="replace")
        for start in range(0, len(text), _FILE_CHARS):
            piece = text[max(0, start - _FILE_OVERLAP) : start + _FILE_CHARS]
            if self.finder.is_suspect(piece):
                self._value(Value(text=piece), place=place, owner=None, tenant=None)


def own_files() -> list[Path]:
    """Return the files that the product writes: ledger, audit heads, and logs of its folder."""
    folder = conf.var_folder()
    named = {conf.erasure_ledger_path(), conf.audit_heads_path()}
    for pattern in ("*", "*/*"):
        named |= {path for path in folder.glob(pattern) if path.suffix in _FILE_KINDS}
    static = folder / "static"
    return sorted(path for path in named if path.is_file() and static not in path.parents)


def _batches(cursor: Any) -> Iterator[list[Row]]:
    """Yield rows together, about a million characters at a time."""
    batch: list[Row] = []
    size = 0
    while rows := cursor.fetchmany(_ROWS_A_FETCH):
        for row in rows:
            batch.append(row)
            size += sum(len(value) for value in row if value)
            if size >= _BATCH_CHARS:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch


def _joined(row: Row, ends: Sequence[str]) -> str:
    values = (f"{end}{text}{end}" for text, end in zip(row[2:], ends, strict=True) if text)
    return "".join(values) + "\n"


def _whose(subject: Subject, *, owner: str | None, tenant: str | None) -> str:
    """Say whose a row is: the person's, another one's, another tenant's, or nobody's."""
    if tenant is not None and tenant != subject.tenant_id:
        return "elsewhere"
    if owner is None:
        return "nobody"
    return "person" if owner == subject.subject_id else "others"
