"""What really stands in an instance's database, and how to stop a transaction of it on the spot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.instance import Instance
from tests.journeys.crash_processes import wait_until

_SEQ = """
    SELECT t.id, t.next_seq, t.run_count, count(r.id) AS runs,
        coalesce(min(r.seq), 1) AS first, coalesce(max(r.seq), 0) AS last
    FROM threads_thread t LEFT JOIN threads_run r ON r.thread_id = t.id
    GROUP BY t.id, t.next_seq, t.run_count
    HAVING count(r.id) <> coalesce(max(r.seq), 0) OR t.next_seq <> coalesce(max(r.seq), 0) + 1
        OR coalesce(min(r.seq), 1) <> 1 OR count(DISTINCT r.seq) <> count(r.id)
        OR t.run_count <> count(r.id)
"""
_MESSAGES = """
    SELECT r.id, r.status, array_agg(m.position || ':' || m.role ORDER BY m.position) AS messages
    FROM threads_run r LEFT JOIN threads_message m ON m.run_id = r.id
    WHERE r.origin = 'run'
    GROUP BY r.id, r.status
    HAVING array_agg(m.position || ':' || m.role ORDER BY m.position) <> CASE
        WHEN r.status = 'succeeded' THEN ARRAY['0:user', '1:assistant'] ELSE ARRAY['0:user'] END
"""
_CURSORS = """
    SELECT s.thread_id, s.summary_upto_seq, s.covered_turns FROM threads_threadsummary s
    WHERE s.covered_turns <> (SELECT count(*) FROM threads_run r WHERE r.thread_id = s.thread_id
            AND r.seq <= s.summary_upto_seq AND r.status IN ('succeeded', 'failed'))
        OR EXISTS (SELECT 1 FROM threads_run r WHERE r.thread_id = s.thread_id
            AND r.seq <= s.summary_upto_seq AND r.status IN ('queued', 'running'))
"""
_ENDS = """
    SELECT id, status, error_code FROM threads_run
    WHERE finished_at IS NULL OR status IN ('queued', 'running') OR lease_until IS NOT NULL
        OR (status = 'failed') <> (error_code IS NOT NULL)
"""
_JOBS = """
    SELECT id, status, error_code FROM memory_job
    WHERE status NOT IN ('done', 'dead') OR finished_at IS NULL
        OR (status = 'dead' AND error_code = '')
"""
_LANES = """
    SELECT a.id, b.id FROM memory_job a JOIN memory_job b ON a.thread_id = b.thread_id AND a.id < b.id
    WHERE a.status = 'running' AND b.status = 'running'
"""
RULES = {
    "sequence numbers are dense": _SEQ,
    "each position has one message": _MESSAGES,
    "cursors cover each finished turn once": _CURSORS,
    "each run has one end": _ENDS,
    "each job is done, or dead with its reason": _JOBS,
    "no two jobs of a thread run at once": _LANES,
}


class Book:
    """The database as its superuser sees it, past every wall."""

    def __init__(self, instance: Instance) -> None:
        """Look at the embedded server of `instance`."""
        self._folder = instance.var / "postgres"

    def connect(self) -> psycopg.Connection[dict[str, Any]]:
        """A connection of its own, made as soon as the server takes it."""

        def attempt() -> psycopg.Connection[dict[str, Any]] | None:
            try:
                # Line 4 is the port, line 5 the folder of the socket.
                lines = (self._folder / "postmaster.pid").read_text(encoding="utf-8").splitlines()
                return psycopg.connect(
                    host=lines[4].strip(),
                    port=int(lines[3]),
                    user="postgres",
                    dbname="credence",
                    autocommit=True,
                    row_factory=dict_row,
                )
            except (OSError, IndexError, ValueError, psycopg.OperationalError):
                return None

        connection: psycopg.Connection[dict[str, Any]] = wait_until(
            attempt, what="the database answers", seconds=60
        )
        return connection

    def rows(self, query: Any, *values: Any) -> list[dict[str, Any]]:
        """Read."""
        connection = self.connect()
        try:
            return connection.execute(query, values or None).fetchall()
        finally:
            connection.close()

    def one(self, query: Any, *values: Any) -> Any:
        """The first column of the first row; None if there is no row."""
        rows = self.rows(query, *values)
        return next(iter(rows[0].values())) if rows else None

    @contextmanager
    def locked(self, table: str, mode: str) -> Iterator[None]:
        """Hold a lock on a table (or, as mode "ROWS", on its rows) inside; outlives a dead server."""
        connection = self.connect()
        try:
            connection.execute("BEGIN")
            if mode == "ROWS":
                connection.execute(f"SELECT 1 FROM {table} FOR UPDATE")
            else:
                connection.execute(f"LOCK TABLE {table} IN {mode} MODE")
            yield
        finally:
            with suppress(psycopg.Error):
                connection.execute("ROLLBACK")
            connection.close()

    def is_blocked(self, statement: str) -> bool:
        """Whether a statement that contains these words waits for a lock."""
        return bool(
            self.rows(
                "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND query LIKE '%%' || %s || '%%' AND pid <> pg_backend_pid()",
                statement,
            )
        )

    def holder(self, lane: str = "memory0") -> int | None:
        """The process that serves a lane."""
        holder = self.one("SELECT holder FROM memory_lane WHERE name = %s", lane)
        return int(holder.split(":")[1]) if holder else None

    def empty_queue(self) -> None:
        """Throw every bell away, as somebody who knows the queue but not the book."""
        with self.connect() as connection:
            connection.execute("DELETE FROM django_q_ormq")

    def runs(self, text: str) -> list[tuple[str, str | None]]:
        """(status, error code) of the runs with this input, oldest first."""
        rows = self.rows(
            "SELECT status, error_code FROM threads_run WHERE input = %s ORDER BY seq", text
        )
        return [(row["status"], row["error_code"]) for row in rows]

    def summary(self, thread_id: str) -> dict[str, Any]:
        """A thread's summary, empty before the first."""
        rows = self.rows(
            "SELECT summary_upto_seq AS upto, covered_turns AS covered, rolling_summary AS text,"
            " version FROM threads_threadsummary WHERE thread_id = %s",
            thread_id,
        )
        return rows[0] if rows else {"upto": 0, "covered": 0, "text": "", "version": 0}

    def unsettled(self) -> list[dict[str, Any]]:
        """Runs and jobs that have not ended."""
        return self.rows(_ENDS) + self.rows(_JOBS)

    def check(self) -> None:
        """Fail if a rule of the book is broken anywhere."""
        broken = {name: rows for name, query in RULES.items() if (rows := self.rows(query))}
        assert not broken, broken
