"""Ways in which something of a person can be left where nobody looks."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from collections.abc import Callable
from typing import Any

import psycopg
from django.core import signing

from tests.governance.erasure.talks import SAID, SAID_ZH, USER_ID


def _admin_log(superuser_url: str, scene: dict[str, Any]) -> None:
    message = json.dumps([{"changed": {"fields": [SAID]}}])
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO auth_user (id, password, is_superuser, username, first_name, last_name,"
            " email, is_staff, is_active, date_joined)"
            " VALUES (77, '', false, 'staff-77', '', '', '', true, true, now())"
        )
        connection.execute(
            "INSERT INTO django_admin_log (action_time, object_id, object_repr, action_flag,"
            " change_message, user_id) VALUES (now(), '1', 'x', 2, %s, 77)",
            [message],
        )


def run_sql(statement: str, value: Callable[[], object]) -> Callable[[str, dict[str, Any]], None]:
    def plant(superuser_url: str, scene: dict[str, Any]) -> None:
        with psycopg.connect(superuser_url, autocommit=True) as connection:
            connection.execute("SET session_replication_role = replica")
            for part in statement.split(";")[:-1]:
                connection.execute(part)
            connection.execute(statement.rsplit(";", maxsplit=1)[-1], [value()])

    return plant


def _session() -> str:
    data = {"note": [SAID_ZH] * 4}
    return signing.dumps(data, salt="django.contrib.sessions.SessionStore", compress=True)


def _task() -> str:
    return base64.b64encode(pickle.dumps({"args": (SAID,), "kwargs": {"n": 1}})).decode()


PLANTS: dict[str, tuple[str, str, Callable[[str, dict[str, Any]], None]]] = {
    "admin log": ("django_admin_log", "change_message", _admin_log),
    "task arguments": (
        "django_q_task",
        "args",
        run_sql(
            "INSERT INTO django_q_task (id, name, func, args, started, stopped, success,"
            " attempt_count) VALUES ('t1', 'n', 'f', %s, now(), now(), true, 1)",
            _task,
        ),
    ),
    "queued payload": (
        "django_q_ormq",
        "payload",
        run_sql(
            "INSERT INTO django_q_ormq (key, payload, lock) VALUES ('k', %s, now())",
            lambda: signing.dumps({"a": [SAID] * 3}, compress=True),
        ),
    ),
    "session": (
        "django_session",
        "session_data",
        run_sql(
            "INSERT INTO django_session (session_key, session_data, expire_date)"
            " VALUES ('s1', %s, now())",
            _session,
        ),
    ),
    "words of a search index": (
        "extra_search",
        "words",
        run_sql(
            "CREATE TABLE extra_search (id int, words tsvector);"
            "GRANT SELECT ON extra_search TO credence_maint;"
            "INSERT INTO extra_search VALUES (1, to_tsvector('english', %s))",
            lambda: SAID,
        ),
    ),
    "unknown table": (
        "extra_notes",
        "who",
        run_sql(
            "CREATE TABLE extra_notes (id int, who text);"
            "GRANT SELECT ON extra_notes TO credence_maint;"
            "INSERT INTO extra_notes VALUES (1, %s)",
            lambda: USER_ID,
        ),
    ),
    "unknown schema": (
        "attic.extra_box",
        "raw",
        run_sql(
            "CREATE SCHEMA attic;"
            "CREATE TABLE attic.extra_box (raw bytea);"
            "GRANT USAGE ON SCHEMA attic TO credence_maint;"
            "GRANT SELECT ON attic.extra_box TO credence_maint;"
            "INSERT INTO attic.extra_box VALUES (%s)",
            lambda: zlib.compress(SAID_ZH.encode()),
        ),
    ),
    "escaped JSON": (
        "extra_json",
        "body",
        run_sql(
            "CREATE TABLE extra_json (body text);"
            "GRANT SELECT ON extra_json TO credence_maint;"
            "INSERT INTO extra_json VALUES (%s)",
            lambda: json.dumps({"said": SAID_ZH}),
        ),
    ),
    "number written otherwise": (
        "extra_phone",
        "tel",
        run_sql(
            "CREATE TABLE extra_phone (tel text);"
            "GRANT SELECT ON extra_phone TO credence_maint;"
            "INSERT INTO extra_phone VALUES (%s)",
            lambda: "+86 138-0013-8000",
        ),
    ),
    "audit detail": (
        "governance_auditentry",
        "detail",
        run_sql(
            "INSERT INTO governance_auditentry (id, tenant_id, at, actor, action, target_kind,"
            " target_id, detail) VALUES ('aud_x', 'tn_x', now(), 'a', 'b', 'c', 'd', %s)",
            lambda: json.dumps({"user": USER_ID}),
        ),
    ),
}


def sweep(superuser_url: str) -> None:
    """Take the extra tables away."""
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS attic CASCADE")
        for name in ("search", "notes", "json", "phone", "secret"):
            connection.execute(f"DROP TABLE IF EXISTS extra_{name}")
