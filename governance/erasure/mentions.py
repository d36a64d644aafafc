"""Rows of nobody's that name a person's things: kept answers, sessions, the queue, the admin log.

They hold ids in texts, some of them encoded; nothing is unpickled. A row that names one id of the
person's goes whole.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import re2
from django.db import connection
from psycopg import sql

from governance.erasure.subjects import Subject

_PAGE: Final = 2000
_MOST_IDS: Final = 5000
# As the ids of our own rows look, in any text.
_ID: Final = re2.compile(rb"[a-z]{2,8}_[0-7][0-9abcdefghjkmnpqrstvwxyz]{25}")
# A stretch of base64 of either alphabet, as signed and pickled values are kept.
_ENCODED: Final = re2.compile(rb"[A-Za-z0-9+/_-]{16,}={0,2}")
_MOST_DECODED_BYTES: Final = 4_000_000
_NAMES_OF_PERSONS: Final = frozenset({"user_id", "user_ids", "members", "users"})
_OF_PERSON: Final = " UNION ALL ".join(
    f"SELECT id FROM {table} WHERE tenant_id = %(tenant)s AND end_user_id = %(person)s"  # noqa: S608
    " AND id = ANY (%(ids)s::text[])"
    for table in (
        "threads_thread",
        "threads_run",
        "threads_message",
        "threads_artifact",
        "threads_contexttrace",
        "memory_job",
        "memory_recallentry",
        "memory_memoryitem",
        "memory_corefact",
        "memory_knowledgedocument",
        "memory_knowledgechunk",
        "memory_indexentry",
        "memory_shelf",
        "memory_teammember",
        "governance_corecandidate",
        "governance_correction",
        "governance_exportlink",
        "governance_apikey",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where such rows are: a table, its key, and the columns that may name something."""

    table: str
    counted_as: str
    key: str
    columns: tuple[str, ...]
    whose: str = "true"
    is_answer: bool = False


_PLACES: Final = (
    _Place(
        table="threads_idempotencyrecord",
        counted_as="idempotency_answers",
        key="id",
        columns=("body", "run_id", "end_user_id", "idempotency_key"),
        whose="tenant_id = %(tenant)s",
        is_answer=True,
    ),
    _Place(
        table="django_session",
        counted_as="admin_sessions",
        key="session_key",
        columns=("session_data",),
    ),
    _Place(table="django_q_ormq", counted_as="queue_bells", key="id", columns=("key", "payload")),
    _Place(
        table="django_q_task",
        counted_as="queue_results",
        key="id",
        columns=("name", "func", "hook", "args", "kwargs", "result", "group"),
    ),
    _Place(
        table="django_admin_log",
        counted_as="admin_log",
        key="id",
        columns=("object_id", "object_repr", "change_message"),
    ),
    _Place(
        table="guardian_userobjectpermission",
        counted_as="grants",
        key="id",
        columns=("object_pk",),
    ),
    _Place(
        table="guardian_groupobjectpermission",
        counted_as="grants",
        key="id",
        columns=("object_pk",),
    ),
)
TABLES: Final = tuple(place.table for place in _PLACES)
_READ: Final = sql.SQL(
    "SELECT {key}::text, concat_ws(' ', {columns}) FROM {table}"
    " WHERE {whose} AND {key}::text > %(after)s ORDER BY {key}::text LIMIT %(most)s"
)
_ERASE: Final = sql.SQL("DELETE FROM {table} WHERE {key}::text = ANY (%(keys)s::text[])")


def erase(subject: Subject) -> Mapping[str, int]:
    """Delete the rows that name the person or something of theirs. Cost: a pass over the tables."""
    return _each(subject, is_dry_run=False)


def count(subject: Subject) -> Mapping[str, int]:
    """Count the rows that name the person or something of theirs."""
    return _each(subject, is_dry_run=True)


def ids_in(text: str) -> set[str]:
    """Return what looks like an id of ours in a text, and in what is encoded in it. Pure."""
    raw = text.encode(errors="replace")
    found = {match.decode() for match in _ID.findall(raw)}
    for decoded in _decoded(raw):
        found.update(match.decode() for match in _ID.findall(decoded))
    return found


def _decoded(raw: bytes) -> Iterator[bytes]:
    for part in _ENCODED.findall(raw):
        plain = part.rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
        try:
            decoded = base64.b64decode(plain + b"=" * (-len(plain) % 4), validate=True)
        except binascii.Error:
            continue
        yield decoded
        if decoded[:1] == b"x":  # how compressed values begin
            unpacked = _unpacked(decoded)
            if unpacked is not None:
                yield unpacked


def _unpacked(packed: bytes) -> bytes | None:
    try:
        return zlib.decompressobj().decompress(packed, _MOST_DECODED_BYTES)
    except zlib.error:
        return None


def _each(subject: Subject, *, is_dry_run: bool) -> dict[str, int]:
    found: dict[str, int] = {}
    for place in _PLACES:
        keys = list(_naming(place, subject))
        if keys and not is_dry_run:
            _delete(place, keys)
        found[place.counted_as] = found.get(place.counted_as, 0) + len(keys)
    return found


def _naming(place: _Place, subject: Subject) -> Iterator[str]:
    """Yield the keys of the rows of a place that name something of the person's."""
    statement = _READ.format(
        table=sql.Identifier(place.table),
        key=sql.Identifier(place.key),
        columns=sql.SQL(", ").join(sql.Identifier(name) for name in place.columns),
        whose=sql.SQL(place.whose),
    )
    after = ""
    while True:
        with connection.cursor() as cursor:
            cursor.execute(statement, {**subject.values, "after": after, "most": _PAGE})
            rows: list[tuple[str, str]] = cursor.fetchall()
        if not rows:
            return
        after = rows[-1][0]
        ids = {key: ids_in(text) for key, text in rows}
        theirs = _theirs(subject, set().union(*ids.values()))
        for key, text in rows:
            if ids[key] & theirs or (place.is_answer and _tells_of(text, subject.user_id)):
                yield key


def _tells_of(text: str, user_id: str | None) -> bool:
    """Say whether an answer of ours, read as JSON, names a person by the tenant's own name."""
    if user_id is None:
        return False
    try:
        told, _end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return False
    waiting: list[tuple[str, Any]] = [("", told)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(value.items())
        elif isinstance(value, list):
            waiting.extend((name, one) for one in value)
        elif value == user_id and name in _NAMES_OF_PERSONS:
            return True
    return False


def _theirs(subject: Subject, ids: Iterable[str]) -> set[str]:
    """Return which of these ids are the person's, or of something of theirs."""
    wanted = sorted(ids)
    theirs = {one for one in wanted if one == subject.person_id}
    for start in range(0, len(wanted), _MOST_IDS):
        some = wanted[start : start + _MOST_IDS]
        with connection.cursor() as cursor:
            cursor.execute(_OF_PERSON, {**subject.values, "ids": some})
            theirs.update(row[0] for row in cursor.fetchall())
    return theirs


def _delete(place: _Place, keys: list[str]) -> None:
    statement = _ERASE.format(table=sql.Identifier(place.table), key=sql.Identifier(place.key))
    with connection.cursor() as cursor:
        cursor.execute(statement, {"keys": keys})
