"""A real PostgreSQL for every test: one embedded server a test process, stopped at the end.

`db` runs a test inside one rolled-back transaction as role app. `committed_db` commits for real
(threads, processes, the role maint) and empties the tables afterwards.
PG_VERSION=16 runs the suite on the other server the wheel carries.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dj_database_url
import psycopg
import pytest
from django.core.management import call_command
from django.db import connections
from django.utils import translation
from psycopg import sql

from config.local.postgres import EmbeddedPostgres
from config.local.provision import DatabaseUrls, provision

KEPT_TABLES = ("django_migrations", "django_content_type", "auth_permission")


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """The server of this test process."""
    folder = Path(tempfile.mkdtemp(prefix="credence-suite-"))
    folder.chmod(0o755)
    version = int(os.environ.get("PG_VERSION", "18"))
    server = EmbeddedPostgres(data_dir=folder / "pg", version=version, is_durable=False)
    server.start()
    yield server
    server.stop(mode="immediate")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def database_urls(postgres: EmbeddedPostgres) -> DatabaseUrls:
    """The three roles' URLs of the suite's database, not yet migrated."""
    return provision(admin_url=postgres.start().admin_url(), dbname="credence_suite")


@pytest.fixture(scope="session")
def superuser_url(postgres: EmbeddedPostgres, database_urls: DatabaseUrls) -> str:
    """The superuser's URL of the suite's database, for looking behind the walls."""
    return postgres.start().admin_url(dbname="credence_suite")


@pytest.fixture(scope="session")
def django_db_setup(database_urls: DatabaseUrls, django_db_blocker: Any) -> Iterator[None]:
    """Point Django at the suite's database and migrate it as the owner."""
    for alias in ("default", "maint", "owner"):
        url = getattr(database_urls, "app" if alias == "default" else alias)
        parsed = dj_database_url.parse(url)
        connections.settings[alias].update(
            {name: parsed[name] for name in ("NAME", "USER", "PASSWORD", "HOST", "PORT")}
        )
        if alias in connections:
            connections[alias].settings_dict.update(connections.settings[alias])
    with django_db_blocker.unblock():
        call_command("migrate", database="owner", verbosity=0)
        connections["owner"].close()
    yield
    with django_db_blocker.unblock():
        connections.close_all()


@pytest.fixture(autouse=True)
def _files_outside(settings: Any, tmp_path: Path) -> None:
    """A ledger of erasures, a file of audit heads and a folder of static files of each test's own."""
    settings.CREDENCE_ERASURE_LEDGER = str(tmp_path / "erasures.jsonl")
    settings.CREDENCE_AUDIT_HEADS = str(tmp_path / "audit_heads.jsonl")
    # `make run` makes this folder; a fresh clone has none, and whitenoise would warn.
    settings.STATIC_ROOT = tmp_path


@pytest.fixture
def committed_db(
    django_db_setup: None, django_db_blocker: Any, superuser_url: str
) -> Iterator[None]:
    """Real commits on every alias; afterwards every table of the product is emptied."""
    with django_db_blocker.unblock():
        yield
        connections.close_all()
    empty_tables(superuser_url)


def empty_tables(superuser_url: str) -> None:
    """Empty every table but Django's own books, past triggers and walls."""
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> ALL(%s)",
            [list(KEPT_TABLES)],
        ).fetchall()
        connection.execute("SET session_replication_role = replica")
        names = sql.SQL(", ").join(sql.Identifier(row[0]) for row in rows)
        connection.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY").format(names))


@pytest.fixture(autouse=True)
def _no_language_left() -> Iterator[None]:
    """A page asked for in Chinese leaves that language to the thread; the next test begins anew."""
    yield
    translation.deactivate()
