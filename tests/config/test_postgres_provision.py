"""The roles and the database: what each role is, may do and may not, on both versions."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

from config.local.postgres import EmbeddedPostgres
from config.local.provision import (
    APP_ROLE,
    LOOKUP_ROLE,
    MAINT_ROLE,
    OWNER_ROLE,
    DatabaseUrls,
    provision,
)

ServerMaker = Callable[..., EmbeddedPostgres]


@pytest.fixture
def admin_url(shared_server: EmbeddedPostgres) -> str:
    return shared_server.start().admin_url()


@pytest.fixture
def dbname(admin_url: str) -> Iterator[str]:
    name = f"credence {secrets.token_hex(4)}"
    yield name
    with psycopg.connect(admin_url, autocommit=True) as admin:
        admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def urls(admin_url: str, dbname: str) -> DatabaseUrls:
    return provision(admin_url=admin_url, dbname=dbname)


def rows(url: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(query.encode()).fetchall()


def test_roles_have_no_power_over_the_server(admin_url: str, urls: DatabaseUrls) -> None:
    found = rows(
        admin_url,
        "SELECT rolname, rolcanlogin, rolsuper OR rolbypassrls OR rolcreatedb OR rolcreaterole "
        "OR rolreplication FROM pg_roles WHERE rolname LIKE 'credence\\_%' ORDER BY rolname",
    )
    assert found == [
        (APP_ROLE, True, False),
        (LOOKUP_ROLE, False, False),
        (MAINT_ROLE, True, False),
        (OWNER_ROLE, True, False),
    ]


@pytest.mark.parametrize("role", ["app", "owner", "maint"])
def test_urls_log_in_as_their_role(urls: DatabaseUrls, dbname: str, role: str) -> None:
    assert rows(getattr(urls, role), "SELECT current_user, current_database()") == [
        (f"credence_{role}", dbname)
    ]


def test_database_is_utf8_owned_by_the_owner_with_pgvector(urls: DatabaseUrls) -> None:
    assert rows(
        urls.owner,
        "SELECT pg_get_userbyid(datdba), pg_encoding_to_char(encoding), "
        "(SELECT count(*) FROM pg_extension WHERE extname = 'vector') "
        "FROM pg_database WHERE datname = current_database()",
    ) == [(OWNER_ROLE, "UTF8", 1)]


@pytest.mark.parametrize("role", ["app", "maint"])
@pytest.mark.parametrize(
    "command", ["CREATE TABLE t (n int)", "CREATE TEMP TABLE t (n int)", "CREATE SCHEMA s"]
)
def test_app_and_maint_cannot_create_anything(urls: DatabaseUrls, role: str, command: str) -> None:
    with (
        psycopg.connect(getattr(urls, role)) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(command.encode())


@pytest.mark.parametrize("target", [OWNER_ROLE, MAINT_ROLE, LOOKUP_ROLE, "postgres"])
def test_app_cannot_become_another_role(urls: DatabaseUrls, target: str) -> None:
    with (
        psycopg.connect(urls.app) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(target)))


def test_app_cannot_enter_another_database_of_ours_unasked(
    admin_url: str, urls: DatabaseUrls
) -> None:
    """A role that is no party to this database is kept out of it altogether."""
    with psycopg.connect(admin_url, autocommit=True) as admin:
        admin.execute("DROP ROLE IF EXISTS stranger")
        admin.execute("CREATE ROLE stranger LOGIN")
    stranger_url = urls.app.replace(APP_ROLE, "stranger")
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(stranger_url)


def test_owner_gives_a_function_to_lookup_and_app_sees_only_its_answer(urls: DatabaseUrls) -> None:
    """What a look-up before any scope is known needs; the owner inherits nothing by it."""
    with psycopg.connect(urls.owner, autocommit=True) as owner:
        owner.execute("CREATE TABLE keys (prefix text, tenant text)")
        owner.execute("INSERT INTO keys VALUES ('k1', 'school')")
        owner.execute("ALTER TABLE keys ENABLE ROW LEVEL SECURITY")
        owner.execute("ALTER TABLE keys FORCE ROW LEVEL SECURITY")
        owner.execute("GRANT SELECT ON keys TO credence_app, credence_lookup")
        owner.execute("CREATE POLICY p ON keys FOR SELECT TO credence_lookup USING (true)")
        owner.execute(
            "CREATE FUNCTION find_tenant(wanted text) RETURNS text LANGUAGE sql SECURITY DEFINER "
            "SET search_path = pg_catalog, public AS "
            "'SELECT tenant FROM public.keys WHERE prefix = wanted'"
        )
        owner.execute("ALTER FUNCTION find_tenant(text) OWNER TO credence_lookup")
        assert owner.execute("SELECT count(*) FROM keys").fetchone() == (0,)
    assert rows(urls.app, "SELECT find_tenant('k1')") == [("school",)]
    assert rows(urls.app, "SELECT count(*) FROM keys") == [(0,)]


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("app", ("30s", "10s", "1min")),
        ("maint", ("15min", "30s", "5min")),
        ("owner", ("0", "30s", "0")),
    ],
)
def test_limits_hold_for_each_role(
    urls: DatabaseUrls, role: str, expected: tuple[str, str, str]
) -> None:
    assert rows(
        getattr(urls, role),
        "SELECT current_setting('statement_timeout'), current_setting('lock_timeout'), "
        "current_setting('idle_in_transaction_session_timeout')",
    ) == [expected]


def test_provision_again_keeps_the_data_and_takes_back_powers(
    admin_url: str, dbname: str, urls: DatabaseUrls
) -> None:
    with psycopg.connect(urls.owner, autocommit=True) as owner:
        owner.execute("CREATE TABLE kept AS SELECT 7 AS n")
    with psycopg.connect(admin_url, autocommit=True) as admin:
        admin.execute("ALTER ROLE credence_app SUPERUSER BYPASSRLS CREATEDB NOLOGIN")
    assert provision(admin_url=admin_url, dbname=dbname) == urls
    assert rows(urls.owner, "SELECT n FROM kept") == [(7,)]
    assert rows(
        admin_url,
        "SELECT rolsuper, rolbypassrls, rolcreatedb, rolcanlogin FROM pg_roles "
        "WHERE rolname = 'credence_app'",
    ) == [(False, False, False, True)]


def test_provision_at_the_same_time_gives_each_its_database(admin_url: str, dbname: str) -> None:
    """Two test workers begin together: roles belong to the server, so they must take turns."""
    names = [f"{dbname} {number}" for number in range(4)]
    found: list[DatabaseUrls] = []

    def work(name: str) -> None:
        found.append(provision(admin_url=admin_url, dbname=name))

    threads = [threading.Thread(target=work, args=[name]) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(found) == len(names)
    with psycopg.connect(admin_url, autocommit=True) as admin:
        for name in names:
            admin.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))


def test_provision_by_an_admin_who_is_no_superuser_works_twice(
    shared_server: EmbeddedPostgres, admin_url: str, dbname: str
) -> None:
    """As on a managed server: CREATEROLE and CREATEDB, and the extension made by the provider."""
    with psycopg.connect(admin_url, autocommit=True) as admin:
        for (name,) in admin.execute(
            "SELECT datname FROM pg_database WHERE datname LIKE 'credence %'"
        ).fetchall():
            admin.execute(sql.SQL("DROP DATABASE {} (FORCE)").format(sql.Identifier(name)))
        admin.execute(
            "DROP ROLE IF EXISTS credence_app, credence_maint, credence_owner, credence_lookup, "
            "manager"
        )
        admin.execute("CREATE ROLE manager LOGIN CREATEROLE CREATEDB")
        admin.execute(sql.SQL("CREATE DATABASE {} OWNER manager").format(sql.Identifier(dbname)))
    manager_url = admin_url.replace("postgres@", "manager@")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="vector"):
        provision(admin_url=manager_url, dbname=dbname)
    with psycopg.connect(shared_server.start().admin_url(dbname=dbname)) as superuser:
        superuser.execute("CREATE EXTENSION vector")
    first = provision(admin_url=manager_url, dbname=dbname)
    assert provision(admin_url=manager_url, dbname=dbname) == first
    assert rows(first.owner, "SELECT '[1,2]'::vector <-> '[1,3]'::vector") == [(1.0,)]
    with psycopg.connect(admin_url, autocommit=True) as admin:
        admin.execute(sql.SQL("DROP DATABASE {} (FORCE)").format(sql.Identifier(dbname)))
        admin.execute(
            "DROP ROLE credence_app, credence_maint, credence_owner, credence_lookup, manager"
        )


@pytest.mark.parametrize("version", [18, 16])
def test_provision_over_tcp_sets_passwords_that_are_needed_and_never_logged(
    make_server: ServerMaker, version: int
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = make_server(
        version=version, tcp_port=port, password="root word", settings={"log_statement": "all"}
    )
    passwords = {APP_ROLE: "p@ss/äpp", OWNER_ROLE: "owner word", MAINT_ROLE: "maint word"}
    urls = provision(admin_url=server.start().admin_url(), dbname="credence", passwords=passwords)
    assert rows(urls.app, "SELECT current_user, inet_server_port()") == [(APP_ROLE, port)]
    assert rows(urls.owner, "SELECT current_user") == [(OWNER_ROLE,)]
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(urls.app.replace("p%40ss", "guess"))
    log = (server._data_dir.resolve() / "server.log").read_text(encoding="utf-8")
    assert "CREATE ROLE" in log
    for password in (*passwords.values(), "root word"):
        assert password not in log
