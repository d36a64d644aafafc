"""Row-level security: the scope inside the database, and the SQL that builds the walls.

The scope is set with `set_config(name, value, true)` inside a transaction by one context manager.
Never per session (a pooled connection would hand it on) and never by a middleware (authentication
happens later, and a stream's body runs outside the request's transaction).
Source: PostgreSQL documentation, "Row Security Policies"; findings/security, 1.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, LiteralString

from django.apps.registry import Apps
from django.db import DEFAULT_DB_ALIAS, connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

from memory.conf import database_roles
from memory.errors import ScopeError
from memory.models.base import Walls
from memory.scope import Scope

MAINT_ALIAS = "maint"
_SET = (
    "SELECT set_config('credence.tenants', %s, true), set_config('credence.user', %s, true),"
    " set_config('credence.session', %s, true), set_config('credence.teams', %s, true)"
)
_SET_NAMED = (
    "SELECT set_config('credence.tenants', %(tenants)s, true),"
    " set_config('credence.user', %(user)s, true),"
    " set_config('credence.session', %(session)s, true),"
    " set_config('credence.teams', %(teams)s, true)"
)
# Sub-selects, so that the server looks a setting up once a query (an InitPlan) and not once a row;
# with the names of columns that the server gives them when it prints a policy back.
_LIST = "(SELECT string_to_array(nullif(current_setting('{}', true), ''), ',') AS string_to_array)"
_TEXT = "(SELECT nullif(current_setting('{}', true), '') AS \"nullif\")"
# The cast says that the array inside is meant: ANY of a bare sub-select would take rows.
_TENANTS = _LIST.format("credence.tenants") + "::text[]"
_USER = _TEXT.format("credence.user")
_SESSION = _TEXT.format("credence.session")
_TEAMS = _LIST.format("credence.teams") + "::text[]"


def _values(scope: Scope | None) -> tuple[str, str, str, str]:
    if scope is None:
        return "", "", "", ""
    tenants, teams = ",".join(scope.tenant_ids), ",".join(scope.team_ids)
    return tenants, scope.user_id or "", scope.thread_id or "", teams


@contextmanager
def scoped_transaction(scope: Scope, *, using: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """Open a transaction whose rows are limited to `scope`; nested ones narrow and restore.

    Cost: one statement at entry, one more at exit when nested inside another transaction.
    """
    connection = connections[using]
    outer: Scope | None = getattr(connection, "credence_scope", None)
    is_nested = connection.in_atomic_block
    with transaction.atomic(using=using):
        _apply(connection, scope)
        try:
            yield
        finally:
            connection.credence_scope = outer  # type: ignore[attr-defined]
        # A rollback to the savepoint takes the setting back by itself.
        if is_nested and not connection.needs_rollback:
            _apply(connection, outer)


def _apply(connection: BaseDatabaseWrapper, scope: Scope | None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_SET, _values(scope))
    connection.credence_scope = scope  # type: ignore[attr-defined]


def fetch_in_scope(
    scope: Scope, statement: LiteralString, parameters: Mapping[str, str | int]
) -> tuple[Any, ...] | None:
    """Return the first row of one statement in a transaction of its own, in one round trip.

    Scope and statement are sent together and are one implicit transaction, so the setting ends with
    it; inside a transaction that is already open, its own scope is put back. For what every request
    waits for.
    """
    connection = connections[DEFAULT_DB_ALIAS]
    names = dict(zip(("tenants", "user", "session", "teams"), _values(scope), strict=True))
    with connection.cursor() as cursor:
        cursor.execute(f"{_SET_NAMED}; {statement}", {**parameters, **names})
        cursor.nextset()
        row: tuple[Any, ...] | None = cursor.fetchone()
    if connection.in_atomic_block:
        _apply(connection, getattr(connection, "credence_scope", None))
    return row


def open_scope(*, using: str = DEFAULT_DB_ALIAS) -> Scope | None:
    """Return the scope of the transaction this thread has open, if any."""
    scope: Scope | None = getattr(connections[using], "credence_scope", None)
    return scope


def narrow_open_scope(scope: Scope, *, using: str = DEFAULT_DB_ALIAS) -> None:
    """Turn the open scoped transaction to `scope` until it ends. Cost: one statement.

    For the edge, which learns user and thread only after reading them under the tenant's scope.

    Raises:
        ScopeError: No scoped transaction is open, or `scope` has a tenant that it has not.
    """
    opened = open_scope(using=using)
    if opened is None or not set(scope.tenant_ids) <= set(opened.tenant_ids):
        raise ScopeError
    _apply(connections[using], scope)


@contextmanager
def maintenance_transaction() -> Iterator[str]:
    """Open a transaction as role `maint` and yield its alias, for sweeps, purges and checks.

    The role has its own policies that show every row, so each query still says why it is unscoped.
    """
    with transaction.atomic(using=MAINT_ALIAS):
        yield MAINT_ALIAS


def policy_rule(walls: Walls) -> str:
    """Return the condition a row must meet for role `app`, to be read and to be written.

    The user clause lets a scope without a user see the whole tenant; the session clause has no such
    way out. Written as the server prints it back, so that `memory.checks` can compare. Cost: a
    comparison a row and a look at each setting a query, an index condition where the planner can.
    """
    clauses = [f"({walls.tenant} = ANY ({_TENANTS}))"]
    if walls.user:
        clauses.append(_user_clause(walls))
    if walls.session:
        clauses.append(f"({walls.session} = {_SESSION})")
    return clauses[0] if len(clauses) == 1 else "(" + " AND ".join(clauses) + ")"


def _user_clause(walls: Walls) -> str:
    own = f"({_USER} IS NULL) OR ({walls.user} = {_USER})"
    if not walls.team:
        return f"({own})"
    shared = f"(({walls.team} IS NULL) OR ({walls.team} = ANY ({_TEAMS})))"
    return f"({own} OR (({walls.user} IS NULL) AND {shared}))"


def policy_sql(*, table: str, walls: Walls) -> list[str]:
    """Return the statements that put one table behind row-level security."""
    roles = database_roles()
    rule = policy_rule(walls)
    return [
        f'ALTER TABLE "{table}" ENABLE ROW LEVEL SECURITY',
        f'ALTER TABLE "{table}" FORCE ROW LEVEL SECURITY',
        (
            f'CREATE POLICY credence_app ON "{table}" TO "{roles.app}"'
            f" USING ({rule}) WITH CHECK ({rule})"
        ),
        (
            f'CREATE POLICY credence_maint ON "{table}" TO "{roles.maint}"'
            " USING (true) WITH CHECK (true)"
        ),
        f'GRANT SELECT, INSERT, UPDATE, DELETE ON "{table}" TO "{roles.app}", "{roles.maint}"',
    ]


def alter_policy_sql(*, table: str, walls: Walls) -> str:
    """Return the statement that puts an existing policy of role `app` in the words of today."""
    rule = policy_rule(walls)
    return f'ALTER POLICY credence_app ON "{table}" USING ({rule}) WITH CHECK ({rule})'


def drop_policy_sql(*, table: str) -> list[str]:
    """Return the statements that undo `policy_sql`."""
    return [
        f'DROP POLICY IF EXISTS credence_app ON "{table}"',
        f'DROP POLICY IF EXISTS credence_maint ON "{table}"',
        f'ALTER TABLE "{table}" NO FORCE ROW LEVEL SECURITY',
        f'ALTER TABLE "{table}" DISABLE ROW LEVEL SECURITY',
    ]


def composite_keys(model: type[models.Model]) -> list[tuple[str, str, str, str]]:
    """Return (constraint, column, other table, other column) for references to tenant tables."""
    found = []
    for field in model._meta.local_fields:
        target: Any = field.related_model
        if target is None or isinstance(target, str) or field.name == "tenant":
            continue
        if any(other.name == "tenant" for other in target._meta.local_fields):
            name = f"{model._meta.model_name}_{field.column}_same_tenant"
            found.append((name, field.column, target._meta.db_table, target._meta.pk.column))
    return [(name, str(column), table, str(other)) for name, column, table, other in found]


def composite_key_sql(model: type[models.Model]) -> list[str]:
    """Return the statements adding (tenant_id, x_id) foreign keys beside Django's own.

    The third wall: the database refuses a row that points into another tenant, whoever writes it.
    """
    return [
        f'ALTER TABLE "{model._meta.db_table}" ADD CONSTRAINT "{name}"'
        f' FOREIGN KEY (tenant_id, "{column}") REFERENCES "{table}" (tenant_id, "{other}")'
        " DEFERRABLE INITIALLY DEFERRED"
        for name, column, table, other in composite_keys(model)
    ]


class _WallsOperation(Operation):
    """What the migration operations on the walls of one model have in common."""

    reduces_to_sql = True
    reversible = True

    def __init__(
        self,
        model_name: str,
        *,
        tenant: str = "tenant_id",
        user: str | None = None,
        session: str | None = None,
        team: str | None = None,
    ) -> None:
        """Take the columns of `memory.models.base.Walls` as plain values, frozen in time."""
        self.model_name = model_name
        self.walls = Walls(tenant=tenant, user=user, session=session, team=team)

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        """Return what the migration writer needs."""
        walls = {"tenant": self.walls.tenant, "user": self.walls.user}
        walls |= {"session": self.walls.session, "team": self.walls.team}
        return type(self).__name__, [self.model_name], walls

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Change nothing of Django's state."""


class BuildWalls(_WallsOperation):
    """Migration operation: row-level security and composite foreign keys of one model."""

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Build the walls."""
        model = _model(to_state.apps, app_label, self.model_name)
        for statement in policy_sql(table=model._meta.db_table, walls=self.walls):
            schema_editor.execute(statement)
        for statement in composite_key_sql(model):
            schema_editor.execute(statement)

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Take the walls down."""
        model = _model(from_state.apps, app_label, self.model_name)
        table = model._meta.db_table
        for name, *_ in composite_keys(model):
            schema_editor.execute(f'ALTER TABLE "{table}" DROP CONSTRAINT IF EXISTS "{name}"')
        for statement in drop_policy_sql(table=table):
            schema_editor.execute(statement)

    def describe(self) -> str:
        """Say what the operation does."""
        return f"Build the walls of {self.model_name}"


class RebuildPolicies(_WallsOperation):
    """Migration operation: the policy of role `app` on one model, in today's words.

    For databases whose walls were built when `policy_rule` put the same meaning otherwise.
    """

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Replace the policy's conditions; its roles and its command stay."""
        table = _model(to_state.apps, app_label, self.model_name)._meta.db_table
        schema_editor.execute(alter_policy_sql(table=table, walls=self.walls))

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Leave the policy: it means what it meant before."""

    def describe(self) -> str:
        """Say what the operation does."""
        return f"Rebuild the policy of {self.model_name}"


def _model(apps: Apps, app_label: str, name: str) -> type[models.Model]:
    return apps.get_model(app_label, name)
