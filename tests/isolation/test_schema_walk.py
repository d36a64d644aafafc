"""Walks over every model, table, index and definer function: unclassed means the build fails."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.db import models

from memory.checks import walled_models
from memory.checks.functions import LOOKUP_FUNCTIONS

OURS = ("memory", "governance", "threads")
# Models of ours without walls, each with the reason.
GLOBAL_MODELS = {
    "memory.Lane": "leases of queues; no tenant's data",
    "governance.TenantUserGrant": "grant: asked about on the way to a scope, so before there is one",
    "governance.TenantGroupGrant": "grant",
    "governance.AgentUserGrant": "grant",
    "governance.AgentGroupGrant": "grant",
    "governance.EndUserUserGrant": "grant",
    "governance.EndUserGroupGrant": "grant",
    "governance.TeamUserGrant": "grant",
    "governance.TeamGroupGrant": "grant",
    "governance.ThreadUserGrant": "grant",
    "governance.ThreadGroupGrant": "grant",
}
# Tables of the database that belong to no tenant, each with what keeps tenants' data out of it.
FRAMEWORK_TABLES = {
    "auth_group": "names are tenant id and role",
    "auth_group_permissions": "unused: roles are granted on objects",
    "auth_permission": "codenames",
    "auth_user": "staff and service accounts: no end user is one",
    "auth_user_groups": "who holds which role",
    "auth_user_user_permissions": "unused, and global permissions never count",
    "axes_accessattempt": "staff at the admin's door, addresses that sent wrong API keys",
    "axes_accessattemptexpiration": "staff at the admin's door",
    "axes_accessfailurelog": "staff at the admin's door",
    "axes_accesslog": "staff at the admin's door",
    "django_admin_log": "ids only: __str__ of a walled model is its id",
    "django_content_type": "names of models",
    "django_migrations": "names of migrations",
    "django_session": "staff sessions",
    "django_q_ormq": "the bell: payloads are ids",
    "django_q_schedule": "the bell",
    "django_q_task": "the bell: results are not kept",
    "guardian_groupobjectpermission": "unused: grants live in direct tables",
    "guardian_userobjectpermission": "unused: grants live in direct tables",
    "memory_lane": "leases of queues",
}
# Indexes that do not start with the tenant, each with the reason.
UNLED_INDEXES = {
    "governance_apikey_prefix_key": "a key is found by its prefix before a tenant is known",
    "erasure_open_idx": "the control queue asks for open erasures of all tenants",
    "job_due_idx": "the sweep asks for due jobs of all tenants",
    "run_unfinished_lease_idx": "the sweep asks for run out leases of all tenants",
    "memory_tenant_slug_key": "the tenant itself",
}
_INDEXES = """
    SELECT t.relname, i.relname, x.indisprimary, x.indisunique,
        (SELECT a.attname::text FROM pg_attribute a
         WHERE a.attrelid = t.oid AND a.attnum = x.indkey[0])
    FROM pg_index x JOIN pg_class t ON t.oid = x.indrelid JOIN pg_class i ON i.oid = x.indexrelid
    WHERE t.relnamespace = 'public'::regnamespace AND t.relname = ANY(%s)
"""


def our_models() -> list[type[models.Model]]:
    return [model for label in OURS for model in apps.get_app_config(label).get_models()]


@pytest.fixture
def superuser(django_db_setup: None, superuser_url: str) -> Any:
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        yield connection


def is_walled(model: type[models.Model]) -> bool:
    return hasattr(model, "walls")


@pytest.mark.req("B18")
def test_every_model_is_walled_or_listed_with_a_reason() -> None:
    unclassed = {model._meta.label for model in our_models() if not is_walled(model)}
    assert unclassed == set(GLOBAL_MODELS)
    assert all(GLOBAL_MODELS.values())
    assert not [model for model in our_models() if model._meta.proxy]


@pytest.mark.req("B18")
def test_every_table_of_the_database_is_classed(superuser: Any) -> None:
    rows = superuser.execute(
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm', 'f')"
        " AND relnamespace = 'public'::regnamespace"
    ).fetchall()
    tables = {row[0] for row in rows}
    tenant = set(walled_models())
    grants = {model._meta.db_table for model in our_models() if model.__name__.endswith("Grant")}
    assert len(grants) == 10
    assert tenant.isdisjoint(grants)
    assert tables - tenant - grants == FRAMEWORK_TABLES.keys() & tables
    assert tenant | grants <= tables


@pytest.mark.req("B18")
def test_no_table_lies_in_another_schema(superuser: Any) -> None:
    rows = superuser.execute(
        "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN"
        " ('public', 'pg_catalog', 'information_schema', 'pg_toast')"
    ).fetchall()
    assert rows == []


@pytest.mark.parametrize("model", walled_models().values(), ids=lambda model: model._meta.label)
def test_every_field_is_personal_or_kept_and_both_name_fields(model: Any) -> None:
    fields = {field.name for field in model._meta.local_fields}
    assert model.personal | model.kept == fields
    assert model.personal & model.kept == set()


@pytest.mark.req("B18")
@pytest.mark.parametrize("model", walled_models().values(), ids=lambda model: model._meta.label)
def test_walls_name_columns_and_personal_rows_have_a_user_wall(model: Any) -> None:
    columns = {field.column for field in model._meta.local_fields}
    assert {c for c in (model.walls.tenant, model.walls.user, model.walls.session) if c} <= columns
    has_person = "end_user_id" in columns and not model._meta.get_field("end_user").null
    if has_person and model.personal:
        assert model.walls.user == "end_user_id"


@pytest.mark.req("A03")
@pytest.mark.req("B18")
def test_indexes_of_tenant_tables_start_with_the_tenant(superuser: Any) -> None:
    walled = walled_models()
    # Django's own index on a foreign key, for cascades: led by the reference, which is the
    # tenant's own row and fenced.
    references = {
        (table, field.column)
        for table, model in walled.items()
        for field in model._meta.local_fields
        if field.is_relation
    }
    unled = set()
    for table, index, is_primary, is_unique, first in superuser.execute(
        _INDEXES, [list(walled)]
    ).fetchall():
        is_led = first == walled[table].walls.tenant  # type: ignore[attr-defined]
        is_reference = not is_unique and (table, first) in references
        is_text_twin = not is_unique and index.endswith("_like")
        if not (is_primary or is_led or is_reference or is_text_twin):
            unled.add(index)
    assert {strip(index) for index in unled} == set(UNLED_INDEXES)


def strip(index: str) -> str:
    """The name of an index without the hash that Django puts between."""
    parts = index.split("_")
    is_hashed = len(parts) > 2 and len(parts[-2]) == 8 and parts[-1] in ("uniq", "key")
    return "_".join([*parts[:-2], "key"]) if is_hashed else index


@pytest.mark.req("A03")
def test_indexes_that_the_seed_asks_for_are_there(superuser: Any) -> None:
    rows = superuser.execute(
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
    ).fetchall()
    indexes = dict(rows)
    assert "(tenant_id, agent_id, updated_at DESC, id DESC)" in indexes["thread_agent_updated_idx"]
    assert "(tenant_id, thread_id, created_at)" in indexes["run_thread_created_idx"]


@pytest.mark.req("B18")
def test_only_the_two_lookups_run_as_their_definer(superuser: Any) -> None:
    rows = superuser.execute(
        "SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n"
        " ON n.oid = p.pronamespace WHERE p.prosecdef"
        " AND n.nspname NOT IN ('pg_catalog', 'information_schema')"
    ).fetchall()
    assert {row[0] for row in rows} == set(LOOKUP_FUNCTIONS)


@pytest.mark.req("B18")
def test_only_the_named_roles_may_call_the_lookups(superuser: Any) -> None:
    rows = superuser.execute(
        "SELECT p.proname, r.rolname FROM pg_proc p CROSS JOIN pg_roles r"
        " WHERE p.prosecdef AND p.pronamespace = 'public'::regnamespace AND NOT r.rolsuper"
        " AND has_function_privilege(r.rolname, p.oid, 'EXECUTE')"
    ).fetchall()
    assert set(rows) == {
        ("credence_due_jobs", "credence_app"),
        ("credence_due_jobs", "credence_maint"),
        ("credence_due_jobs", "credence_lookup"),
        ("credence_key_by_prefix", "credence_app"),
        ("credence_key_by_prefix", "credence_lookup"),
    }
