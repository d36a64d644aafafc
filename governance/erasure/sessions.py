"""Threads, with what is readable only inside each: its summary and its nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from django.db import connection

from governance.erasure.subjects import Subject
from memory.rls import scoped_transaction

_BATCH: Final = 50
_THREADS: Final = """
    SELECT id FROM threads_thread WHERE tenant_id = %(tenant)s AND end_user_id = %(person)s
    ORDER BY id LIMIT %(most)s
"""
_OF_THREAD: Final = "WHERE tenant_id = %(tenant)s AND thread_id = %(thread)s"
_PRIVATE: Final = {
    "nodes": f"FROM threads_summarynode {_OF_THREAD}",
    "summaries": f"FROM threads_threadsummary {_OF_THREAD}",
}
_ERASE: Final = {name: f"DELETE {rows}" for name, rows in _PRIVATE.items()}
_COUNT: Final = {name: f"SELECT count(*) {rows}" for name, rows in _PRIVATE.items()}
_ERASE_THREADS: Final = """
    DELETE FROM threads_thread WHERE tenant_id = %(tenant)s AND end_user_id = %(person)s
        AND id = ANY (%(ids)s::text[])
"""


def erase_threads(subject: Subject) -> Mapping[str, int]:
    """Delete a batch of threads, each with its summary and its nodes. Cost: four statements each."""
    ids = _threads(subject, _BATCH)
    gone: Counter[str] = Counter()
    for thread_id in ids:
        with scoped_transaction(subject.own.narrowed(thread_id=thread_id)):
            gone += _of_thread(_ERASE, subject, thread_id)
    with connection.cursor() as cursor:
        cursor.execute(_ERASE_THREADS, {**subject.values, "ids": ids})
        gone["threads"] += cursor.rowcount
    return gone


def count_threads(subject: Subject) -> Mapping[str, int]:
    """Count threads, summaries and nodes. Cost: four statements a thread."""
    ids = _threads(subject, None)
    found: Counter[str] = Counter(threads=len(ids))
    for thread_id in ids:
        with scoped_transaction(subject.own.narrowed(thread_id=thread_id)):
            found += _of_thread(_COUNT, subject, thread_id)
    return found


def _threads(subject: Subject, most: int | None) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(_THREADS, {**subject.values, "most": most})
        return [row[0] for row in cursor.fetchall()]


def _of_thread(statements: Mapping[str, str], subject: Subject, thread_id: str) -> Counter[str]:
    found: Counter[str] = Counter()
    with connection.cursor() as cursor:
        for name, statement in statements.items():
            cursor.execute(statement, {"tenant": subject.tenant_id, "thread": thread_id})
            is_count = cursor.description is not None
            found[name] += cursor.fetchone()[0] if is_count else cursor.rowcount
    return found
