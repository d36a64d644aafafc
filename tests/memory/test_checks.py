"""The check of the walls: silent when they stand, and naming each hole when one is made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connection, connections

from memory.checks import WallsDownError, refuse_unless_walled, wall_problems, walled_models
from memory.checks.server import MINIMUM_VERSIONS, version_problems
from memory.conf import database_roles

DUE = "credence_due_jobs(integer, integer, integer)"
POLICY = (
    "DROP POLICY credence_app ON threads_message;"
    " CREATE POLICY credence_app ON threads_message TO credence_app USING ({0}) WITH CHECK ({0})"
)
TENANTS = "string_to_array(nullif(current_setting('credence.tenants', true), ''), ',')"
USER = "nullif(current_setting('credence.user', true), '')"
RULE = (
    f"tenant_id = ANY ((SELECT {TENANTS})::text[])"
    f" AND ((SELECT {USER}) IS NULL OR end_user_id = (SELECT {USER}))"
)
RESTORED = POLICY.format(RULE)

# What somebody might do to a live server, how to undo it, the hole that must be named, and where.
HOLES = {
    "superuser": (
        "ALTER ROLE credence_app SUPERUSER",
        "ALTER ROLE credence_app NOSUPERUSER",
        {("role_too_strong", "role credence_app")},
    ),
    "bypass": (
        "ALTER ROLE credence_maint BYPASSRLS",
        "ALTER ROLE credence_maint NOBYPASSRLS",
        {("role_too_strong", "role credence_maint")},
    ),
    "create role": (
        "ALTER ROLE credence_app CREATEROLE",
        "ALTER ROLE credence_app NOCREATEROLE",
        {("role_too_strong", "role credence_app")},
    ),
    "lookup logs in": (
        "ALTER ROLE credence_lookup LOGIN",
        "ALTER ROLE credence_lookup NOLOGIN",
        {("role_too_strong", "role credence_lookup")},
    ),
    "app acts as maint": (
        "GRANT credence_maint TO credence_app",
        "REVOKE credence_maint FROM credence_app",
        {("role_reaches_further", "role credence_app")},
    ),
    "app owns a table": (
        "CREATE TABLE stray (id int); ALTER TABLE stray OWNER TO credence_app",
        "DROP TABLE stray",
        {("app_owns_tables", "role credence_app")},
    ),
    "security off": (
        "ALTER TABLE threads_run DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE threads_run ENABLE ROW LEVEL SECURITY",
        {("rls_off", "table threads_run")},
    ),
    "not forced": (
        "ALTER TABLE threads_run NO FORCE ROW LEVEL SECURITY",
        "ALTER TABLE threads_run FORCE ROW LEVEL SECURITY",
        {("rls_not_forced", "table threads_run")},
    ),
    "policy says true": (
        POLICY.format("true"),
        RESTORED,
        {("policy_edited", "table threads_message")},
    ),
    "policy without user": (
        POLICY.format(RULE.partition(" AND ")[0]),
        RESTORED,
        {("policy_edited", "table threads_message")},
    ),
    "policy with other brackets": (
        POLICY.format(RULE.replace("AND (", "AND ").removesuffix(")")),
        RESTORED,
        {("policy_edited", "table threads_message")},
    ),
    "policy that looks the user up for each row": (
        POLICY.format(RULE.replace(f"end_user_id = (SELECT {USER})", f"end_user_id = {USER}")),
        RESTORED,
        {("policy_edited", "table threads_message")},
    ),
    "policy gone": (
        "DROP POLICY credence_app ON threads_message",
        RESTORED.partition(";")[2],
        {("policy_missing", "table threads_message")},
    ),
    "policy for all": (
        "CREATE POLICY open_house ON threads_message USING (true)",
        "DROP POLICY open_house ON threads_message",
        {("policy_unknown", "table threads_message")},
    ),
    "policy for lookup elsewhere": (
        "CREATE POLICY credence_lookup ON threads_message TO credence_lookup USING (true)",
        "DROP POLICY credence_lookup ON threads_message",
        {("policy_unknown", "table threads_message")},
    ),
    "unwalled copy": (
        "CREATE TABLE backup AS SELECT * FROM threads_message WITH NO DATA",
        "DROP TABLE backup",
        {("rls_off", "table backup"), ("rls_not_forced", "table backup")},
    ),
    "fence gone": (
        "ALTER TABLE threads_message DROP CONSTRAINT message_run_id_same_tenant",
        (
            "ALTER TABLE threads_message ADD CONSTRAINT message_run_id_same_tenant FOREIGN KEY"
            " (tenant_id, run_id) REFERENCES threads_run (tenant_id, id) DEFERRABLE INITIALLY DEFERRED"
        ),
        {("fence_missing", "table threads_message")},
    ),
    "unique gone": (
        "ALTER TABLE threads_artifact DROP CONSTRAINT artifact_tenant_id_uniq",
        "ALTER TABLE threads_artifact ADD CONSTRAINT artifact_tenant_id_uniq UNIQUE (tenant_id, id)",
        {("unique_missing", "table threads_artifact")},
    ),
    "anybody looks up": (
        f"GRANT EXECUTE ON FUNCTION {DUE} TO PUBLIC",
        f"REVOKE ALL ON FUNCTION {DUE} FROM PUBLIC",
        {("lookup_function", f"function {DUE.replace(' ', '')}")},
    ),
    "open search path": (
        f"ALTER FUNCTION {DUE} RESET search_path",
        f"ALTER FUNCTION {DUE} SET search_path = pg_catalog, pg_temp",
        {("lookup_function", f"function {DUE.replace(' ', '')}")},
    ),
    "lookup of the owner's": (
        f"ALTER FUNCTION {DUE} OWNER TO credence_owner",
        f"ALTER FUNCTION {DUE} OWNER TO credence_lookup",
        {("lookup_function", f"function {DUE.replace(' ', '')}")},
    ),
    "lookup as its caller": (
        f"ALTER FUNCTION {DUE} SECURITY INVOKER",
        f"ALTER FUNCTION {DUE} SECURITY DEFINER",
        {("lookup_function", f"function {DUE.replace(' ', '')}")},
    ),
    "one more definer": (
        (
            "CREATE FUNCTION peek() RETURNS bigint LANGUAGE sql SECURITY DEFINER"
            " AS 'SELECT count(*) FROM threads_message'"
        ),
        "DROP FUNCTION peek()",
        {("lookup_function", "function peek()")},
    ),
    "view": (
        "CREATE VIEW everything AS SELECT * FROM threads_message",
        "DROP VIEW everything",
        {("view_past_walls", "view everything")},
    ),
    "stored view": (
        "CREATE MATERIALIZED VIEW kept AS SELECT * FROM threads_message",
        "DROP MATERIALIZED VIEW kept",
        {("view_past_walls", "view kept")},
    ),
    "state machine off": (
        "ALTER TABLE threads_run DISABLE TRIGGER threads_run_moves",
        "ALTER TABLE threads_run ENABLE TRIGGER threads_run_moves",
        {("trigger_off", "table threads_run")},
    ),
    "audit trigger off": (
        "ALTER TABLE governance_auditentry DISABLE TRIGGER governance_audit_rows",
        "ALTER TABLE governance_auditentry ENABLE TRIGGER governance_audit_rows",
        {
            ("trigger_off", "table governance_auditentry"),
            ("not_append_only", "table governance_auditentry"),
        },
    ),
    "audit truncate trigger gone": (
        "DROP TRIGGER governance_audit_table ON governance_auditentry",
        (
            "CREATE TRIGGER governance_audit_table BEFORE TRUNCATE ON governance_auditentry"
            " FOR EACH STATEMENT EXECUTE FUNCTION governance_audit_is_append_only()"
        ),
        {("not_append_only", "table governance_auditentry")},
    ),
    "audit may be edited": (
        "GRANT UPDATE (detail) ON governance_auditentry TO credence_app",
        "REVOKE UPDATE (detail) ON governance_auditentry FROM credence_app",
        {("right_too_wide", "table governance_auditentry")},
    ),
    "truncate": (
        "GRANT TRUNCATE ON threads_thread TO credence_maint",
        "REVOKE TRUNCATE ON threads_thread FROM credence_maint",
        {("right_too_wide", "table threads_thread")},
    ),
}


@pytest.fixture
def role_app(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Connections of the product's own role, outside any transaction."""
    with django_db_blocker.unblock():
        yield
        connections.close_all()


def run_as_superuser(superuser_url: str, statement: str) -> None:
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(statement)


@pytest.mark.req("B18")
def test_walls_standing_nothing_found_and_start_allowed(role_app: None) -> None:
    assert [str(problem) for problem in wall_problems()] == []
    connection.close()
    refuse_unless_walled()
    assert connection.connection is None
    assert run_checks(tags=["database"], databases=["default"]) == []


@pytest.mark.req("B18")
@pytest.mark.parametrize("name", HOLES)
def test_hole_made_named_and_start_refused(role_app: None, superuser_url: str, name: str) -> None:
    """Attack case 31: superuser, bypass, owner, FORCE, policies; and what else opens the walls."""
    broken, undone, holes = HOLES[name]
    run_as_superuser(superuser_url, broken)
    try:
        found = wall_problems()
        with pytest.raises(WallsDownError) as refused:
            refuse_unless_walled()
    finally:
        run_as_superuser(superuser_url, undone)
    assert {(problem.code, problem.subject) for problem in found} == holes
    assert all(problem.detail and problem.remedy for problem in found)
    assert all(problem.subject in refused.value.detail for problem in found)
    assert wall_problems() == ()


@pytest.mark.req("B18")
def test_serving_as_another_role_named(role_app: None) -> None:
    """A server that is given the wrong URL by mistake would serve as that role."""
    codes = {problem.code for problem in wall_problems(using="owner")}
    assert codes == {"wrong_role"}


@pytest.mark.req("B18")
def test_one_role_for_two_named(role_app: None, settings: Any) -> None:
    """Without DATABASE_MAINT_URL the application would get maint's policies, which show all."""
    settings.CREDENCE_DATABASE_ROLES = {
        **settings.CREDENCE_DATABASE_ROLES,
        "maint": database_roles().app,
    }
    assert "roles_shared" in {problem.code for problem in wall_problems()}


@pytest.mark.req("B18")
def test_role_missing_named_without_a_crash(role_app: None, settings: Any) -> None:
    settings.CREDENCE_DATABASE_ROLES = {
        **settings.CREDENCE_DATABASE_ROLES,
        "lookup": "nobody_at_all",
    }
    assert [p.code for p in wall_problems()] == ["role_missing"]


@pytest.mark.req("B18")
def test_manage_check_fails_on_a_hole_and_passes_without(
    role_app: None, superuser_url: str
) -> None:
    call_command("check", databases=["default"])
    run_as_superuser(superuser_url, HOLES["security off"][0])
    try:
        with pytest.raises(SystemCheckError, match="threads_run"):
            call_command("check", databases=["default"])
        call_command("check")
        call_command("check", databases=["owner"])
    finally:
        run_as_superuser(superuser_url, HOLES["security off"][1])


@pytest.mark.parametrize(
    ("version", "vector", "codes"),
    [
        (160010, "0.8.0", []),
        (160009, "0.8.0", ["server_too_old"]),
        (170006, "0.8.5", []),
        (170005, "0.8.5", ["server_too_old"]),
        (180000, "0.10.1", []),
        (190000, "1.0", []),
        (150014, "0.8.0", ["server_too_old"]),
        (180004, "0.7.4", ["vector_missing"]),
        (180004, None, ["vector_missing"]),
    ],
)
def test_server_version_old_named(version: int, vector: str | None, codes: list[str]) -> None:
    assert [problem.code for problem in version_problems(version, vector)] == codes


def test_check_looks_at_every_walled_model() -> None:
    """A check that lost sight of its tables would find no problem in them."""
    tables = set(walled_models())
    assert {"memory_tenant", "threads_message", "governance_auditentry"} <= tables
    assert len(tables) >= 17
    assert sorted(MINIMUM_VERSIONS) == [16, 17, 18]
