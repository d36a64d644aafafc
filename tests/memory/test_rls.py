"""Row-level security: what the context manager does to a connection, and the SQL of the walls."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import ProgrammingError, connection, connections, models, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState

from memory.checks import wall_problems, walled_models
from memory.errors import ScopeError
from memory.models import EndUser, Job, Tenant
from memory.models.base import Walls
from memory.rls import (
    BuildWalls,
    RebuildPolicies,
    alter_policy_sql,
    composite_key_sql,
    composite_keys,
    drop_policy_sql,
    maintenance_transaction,
    narrow_open_scope,
    open_scope,
    policy_rule,
    policy_sql,
    scoped_transaction,
)
from memory.scope import Scope
from tests.factories import make_end_user, make_tenant, scope_of
from threads.models import Run, RunTrace

SCOPE = Scope(tenant_ids=("tn_a", "tn_b"), principal_id="staff:1")
PERSON = Scope(
    tenant_ids=("tn_a",),
    principal_id="k",
    user_id="usr_1",
    thread_id="th_1",
    team_ids=("team_1", "team_2"),
)

REBUILT = "settings_once_a_query"
SUBSELECT = re.compile(r'\(SELECT (.*?) AS (?:string_to_array\)::text\[\]|"nullif"\))')


def looked_up_each_row(walls: Walls) -> str:
    """The rule as it was before its settings were sub-selects."""
    return SUBSELECT.sub(r"\1", policy_rule(walls))


def settings_of_connection() -> tuple[str | None, ...]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('credence.tenants', true),"
            " current_setting('credence.user', true), current_setting('credence.session', true),"
            " current_setting('credence.teams', true)"
        )
        row: tuple[str | None, ...] = cursor.fetchone()
        return tuple(value or None for value in row)


@pytest.mark.req("B18")
def test_scope_set_inside_and_gone_after(db: None) -> None:
    assert settings_of_connection() == (None, None, None, None)
    with scoped_transaction(SCOPE):
        assert settings_of_connection() == ("tn_a,tn_b", None, None, None)
        assert open_scope() == SCOPE
        with scoped_transaction(PERSON):
            assert settings_of_connection() == ("tn_a", "usr_1", "th_1", "team_1,team_2")
        assert settings_of_connection() == ("tn_a,tn_b", None, None, None)
    assert settings_of_connection() == (None, None, None, None)
    assert open_scope() is None


@pytest.mark.req("B18")
def test_scope_that_fails_leaves_nothing_behind(db: None) -> None:
    with scoped_transaction(SCOPE):
        with pytest.raises(ZeroDivisionError), scoped_transaction(PERSON):
            raise ZeroDivisionError
        with (
            pytest.raises(ProgrammingError),
            scoped_transaction(PERSON),
            connection.cursor() as cursor,
        ):
            cursor.execute("SELECT no_such_column")
        assert settings_of_connection() == ("tn_a,tn_b", None, None, None)
        assert open_scope() == SCOPE
    assert open_scope() is None


@pytest.mark.req("B18")
def test_scope_marked_for_rollback_leaves_the_outer_one(db: None) -> None:
    with scoped_transaction(SCOPE):
        with scoped_transaction(PERSON):
            transaction.set_rollback(True)
        assert settings_of_connection() == ("tn_a,tn_b", None, None, None)
        assert open_scope() == SCOPE


@pytest.mark.req("B18")
def test_scope_costs_one_statement_and_one_more_to_restore(
    db: None, django_assert_num_queries: Any
) -> None:
    """Inside the test's own transaction each is nested: a savepoint, set, restored, released."""
    with django_assert_num_queries(4) as asked, scoped_transaction(SCOPE):
        pass
    kinds = [query["sql"].split(" ")[0] for query in asked.captured_queries]
    assert kinds == ["SAVEPOINT", "SELECT", "SELECT", "RELEASE"]


@pytest.mark.req("B18")
def test_narrowing_needs_an_open_scope_of_that_tenant(db: None) -> None:
    with pytest.raises(ScopeError):
        narrow_open_scope(PERSON)
    with transaction.atomic(), pytest.raises(ScopeError):
        narrow_open_scope(PERSON)
    with scoped_transaction(SCOPE):
        narrow_open_scope(PERSON)
        assert open_scope() == PERSON
        with pytest.raises(ScopeError):
            narrow_open_scope(SCOPE)
        assert settings_of_connection() == ("tn_a", "usr_1", "th_1", "team_1,team_2")


@pytest.mark.req("B18")
def test_value_with_quotes_is_data(db: None) -> None:
    nasty = "tn_'); DROP TABLE memory_tenant; --"
    with scoped_transaction(Scope(tenant_ids=(nasty,), principal_id="k")):
        assert settings_of_connection()[0] == nasty
        assert Tenant.objects.unscoped(reason="test").count() == 0


@pytest.mark.req("B18")
def test_maintenance_sees_every_tenant(committed_db: None) -> None:
    tenant = make_tenant()
    people = [make_end_user(tenant), make_end_user(make_tenant())]
    with maintenance_transaction() as alias:
        assert alias == "maint"
        seen = EndUser.objects.using(alias).unscoped(reason="test").values_list("id", flat=True)
        assert set(seen) == {person.id for person in people}
    with scoped_transaction(scope_of(tenant)):
        assert EndUser.objects.unscoped(reason="test").get().id == people[0].id


def test_rule_has_a_way_out_for_the_user_and_none_for_the_session() -> None:
    """Unset means no rows: each comparison is with null then, and the user's has its way out."""
    tenant = policy_rule(Walls())
    user = policy_rule(Walls(user="end_user_id"))
    session = policy_rule(Walls(user="end_user_id", session="thread_id"))
    assert tenant in user
    assert user[1:-1] in session
    assert "IS NULL) OR (end_user_id =" in user
    assert session.count("IS NULL") == 1
    assert session.count("nullif(") == 4
    for rule in (tenant, user, session):
        assert rule.count("(") == rule.count(")")


def test_rule_of_shared_rows_opens_them_to_the_tenant_and_to_the_scopes_teams() -> None:
    alone = policy_rule(Walls(user="end_user_id"))
    shared = policy_rule(Walls(user="end_user_id", team="team_id"))
    assert "team" not in alone
    assert "(end_user_id IS NULL) AND ((team_id IS NULL) OR (team_id = ANY (" in shared
    assert "credence.teams" in shared
    assert shared.count("(") == shared.count(")")


@pytest.mark.req("B18")
def test_settings_are_looked_up_once_a_query(db: None) -> None:
    """A plan whose condition calls current_setting calls it for every row."""
    with scoped_transaction(PERSON), connection.cursor() as cursor:
        for table in walled_models():
            cursor.execute(f'EXPLAIN SELECT * FROM "{table}"')
            plan = "\n".join(line for (line,) in cursor.fetchall())
            assert "InitPlan" in plan, plan
            assert "current_setting" not in plan, plan


def test_tenant_of_the_setting_is_a_condition_of_the_index(db: None) -> None:
    """The wall needs no help from the query to find its rows."""
    with scoped_transaction(PERSON), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("EXPLAIN SELECT * FROM threads_message")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert re.search(r"Index Cond: \(\(tenant_id\)::text = ANY \(\(?(\$0|InitPlan)", plan), plan


def test_statements_force_security_and_give_both_ways_a_rule() -> None:
    statements = policy_sql(table="t", walls=Walls())
    assert any("FORCE ROW LEVEL SECURITY" in line for line in statements)
    policies = [line for line in statements if line.startswith("CREATE POLICY")]
    assert len(policies) == 2
    assert all(" USING (" in line and " WITH CHECK (" in line for line in policies)
    assert not any("TRUNCATE" in line for line in statements)
    assert len(drop_policy_sql(table="t")) == 4


def test_fences_cover_references_between_tenant_tables_only() -> None:
    assert composite_keys(RunTrace) == [
        ("runtrace_run_id_same_tenant", "run_id", "threads_run", "id"),
        ("runtrace_end_user_id_same_tenant", "end_user_id", "memory_enduser", "id"),
    ]
    assert composite_keys(Tenant) == []
    fenced = {"thread_id", "agent_id", "end_user_id", "continues_id"}
    assert {key[1] for key in composite_keys(Run)} == fenced
    assert len(composite_key_sql(Job)) == 3


@pytest.mark.req("B18")
def test_every_reference_of_every_walled_model_is_fenced() -> None:
    """A foreign key to a tenant table that composite_keys forgot would be a hole in wall three."""
    walled = set(walled_models().values())
    for model in walled:
        fenced = {column for _, column, _, _ in composite_keys(model)}
        for field in model._meta.local_fields:
            if isinstance(field, models.ForeignKey) and field.name != "tenant":
                assert (field.column in fenced) is (field.related_model in walled), field


def test_migration_operation_goes_both_ways_and_writes_itself(django_db_setup: None) -> None:
    operation = BuildWalls("run", user="end_user_id")
    name, args, kwargs = operation.deconstruct()
    assert (name, args, kwargs["user"], kwargs["tenant"]) == (
        "BuildWalls",
        ["run"],
        "end_user_id",
        "tenant_id",
    )
    assert operation.describe() == "Build the walls of run"
    state = ProjectState()
    operation.state_forwards("threads", state)
    assert state == ProjectState()


def test_rebuilding_goes_both_ways_and_writes_itself() -> None:
    operation = RebuildPolicies("summarynode", user="end_user_id", session="thread_id")
    name, args, kwargs = operation.deconstruct()
    assert (name, args, kwargs["session"]) == ("RebuildPolicies", ["summarynode"], "thread_id")
    assert operation.describe() == "Rebuild the policy of summarynode"
    assert operation.reversible
    statement = alter_policy_sql(table="t", walls=Walls(user="id"))
    assert statement.startswith('ALTER POLICY credence_app ON "t" USING (')
    assert statement.count(policy_rule(Walls(user="id"))) == 2


def test_every_table_walled_before_is_rebuilt_with_the_same_walls() -> None:
    loader = MigrationLoader(None, ignore_no_migrations=True)
    for app in ("memory", "threads", "governance"):
        names = sorted(name for label, name in loader.disk_migrations if label == app)
        (number,) = (place for place, name in enumerate(names) if name.endswith(REBUILT))
        operations = [
            operation
            for name in names[: number + 1]
            for operation in loader.disk_migrations[app, name].operations
        ]
        built = [op.deconstruct()[1:] for op in operations if isinstance(op, BuildWalls)]
        assert built
        rebuilt = [op.deconstruct()[1:] for op in operations if isinstance(op, RebuildPolicies)]
        assert rebuilt == built


@pytest.mark.req("B18")
def test_policies_of_before_are_named_and_rebuilt_by_the_migrations(committed_db: None) -> None:
    loader = MigrationLoader(None, ignore_no_migrations=True)
    state = loader.project_state()
    steps = [
        (app, operation)
        for (app, name), migration in loader.disk_migrations.items()
        if name.endswith(REBUILT)
        for operation in migration.operations
        if isinstance(operation, RebuildPolicies)
    ]
    tables = {state.apps.get_model(app, step.model_name)._meta.db_table for app, step in steps}
    owner = connections["owner"]
    with owner.schema_editor() as editor:
        for app, operation in steps:
            rule = looked_up_each_row(operation.walls)
            assert "SELECT" not in rule
            table = state.apps.get_model(app, operation.model_name)._meta.db_table
            editor.execute(
                f'ALTER POLICY credence_app ON "{table}" USING ({rule}) WITH CHECK ({rule})'
            )
            operation.database_backwards(app, editor, state, state)
    found = {(problem.code, problem.subject) for problem in wall_problems()}
    with owner.schema_editor() as editor:
        for app, operation in steps:
            operation.database_forwards(app, editor, state, state)
    assert found == {("policy_edited", f"table {table}") for table in tables}
    assert wall_problems() == ()
