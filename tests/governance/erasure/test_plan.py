"""The map of an erasure names every model and every table there is."""

from __future__ import annotations

import psycopg
import pytest
from django.apps import apps
from django.db import models

from governance.erasure import mentions, plan
from governance.erasure.plan import ByStep, Kept, Rows
from memory.checks import walled_models
from tests.governance.erasure.scenes import every_table

# Until the package is among the installed ones, none of its models is there.
OPTIONAL = "axes."


def concrete_models() -> list[type[models.Model]]:
    found = apps.get_models(include_auto_created=True)
    return [model for model in found if model._meta.managed and not model._meta.proxy]


@pytest.mark.req("B19")
@pytest.mark.req("E06")
def test_map_names_every_model_and_no_other() -> None:
    """Bug report I7: a new table fails here until somebody has said what becomes of its rows."""
    labels = {model._meta.label for model in concrete_models()}
    mapped = {label for label in plan.MODELS if not label.startswith(OPTIONAL)}
    assert labels - mapped - {one for one in labels if one.startswith(OPTIONAL)} == set()
    assert mapped - labels == set()
    assert {one for one in labels if one.startswith(OPTIONAL)} <= set(plan.MODELS)


@pytest.mark.usefixtures("committed_db")
def test_map_names_every_table_of_the_database(superuser_url: str) -> None:
    with psycopg.connect(superuser_url) as connection:
        rows = connection.execute(
            "SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n"
            " ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'm', 'f')"
            " AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"
        )
        tables = {row[0] for row in rows}
    assert set(every_table(superuser_url)) <= tables
    mapped = {model._meta.db_table for model in concrete_models()} | set(plan.TABLES)
    assert tables - mapped == set()


def test_every_personal_column_belongs_to_a_table_that_goes() -> None:
    for table, model in walled_models().items():
        fate = plan.MODELS[model._meta.label]
        personal = set(model.personal)  # type: ignore[attr-defined]
        if isinstance(fate, Kept) and personal:
            # The needles of the search, which go with it.
            assert (table, personal) == ("governance_erasure", {"sealed_needles"})


def test_every_table_with_a_person_goes_or_says_why_it_stays() -> None:
    """What refers to a person, a thread or a run is not kept."""
    roots = {"memory_enduser", "threads_thread", "threads_run", "threads_message"}
    for model in concrete_models():
        targets = {
            field.related_model._meta.db_table
            for field in model._meta.concrete_fields
            if isinstance(field.related_model, type)
        }
        if targets & roots:
            assert not isinstance(plan.MODELS[model._meta.label], Kept), model._meta.label


def test_every_fate_is_a_step_of_the_order() -> None:
    for label, fate in plan.MODELS.items():
        if isinstance(fate, Rows):
            assert plan.STEPS.count(fate.table) == 1, label
            assert plan.rows_of(fate.table) is fate
        elif isinstance(fate, ByStep):
            assert fate.step in (*plan.STEPS, plan.LAST), label
        else:
            assert fate.reason, label


def test_tables_that_mention_persons_are_mapped_to_that_step() -> None:
    mapped = {
        apps.get_model(label)._meta.db_table
        for label, fate in plan.MODELS.items()
        if fate == ByStep(step=plan.MENTIONS)
    }
    assert mapped == set(mentions.TABLES)


def test_what_refers_to_rows_goes_before_them() -> None:
    """Each batch commits by itself, so nothing may be left that names what is gone."""
    place = {table: number for number, table in enumerate(plan.STEPS)}
    steps = {
        apps.get_model(label)._meta.db_table: fate.table if isinstance(fate, Rows) else fate.step
        for label, fate in plan.MODELS.items()
        if not isinstance(fate, Kept)
    }
    for label, fate in plan.MODELS.items():
        if isinstance(fate, Kept):
            continue
        model = apps.get_model(label)
        own = steps[model._meta.db_table]
        for field in model._meta.concrete_fields:
            target = field.related_model
            if not (isinstance(target, type) and issubclass(target, models.Model)):
                continue
            if target._meta.db_table not in steps:
                continue
            other = steps[target._meta.db_table]
            # Rows of one table are unlinked; what a job cost is freed of it before; and an entity
            # takes its events along.
            freed = {(plan.OPERATIONS, "memory_job"), ("memory_entityevent", plan.VOCABULARY)}
            is_free = own == other or (own, other) in freed
            if is_free or plan.LAST in (own, other):
                continue
            assert place[own] < place[other], (label, field.name)
