"""Row-level security and composite keys of the context engine's tables and references."""

from __future__ import annotations

from django.db import migrations

from memory.rls import BuildWalls


def _fence(table: str, column: str, other: str) -> migrations.RunSQL:
    name = f"{table.removeprefix('threads_')}_{column}_same_tenant"
    return migrations.RunSQL(
        f'ALTER TABLE "{table}" ADD CONSTRAINT "{name}"'
        f' FOREIGN KEY (tenant_id, "{column}") REFERENCES "{other}" (tenant_id, "id")'
        " DEFERRABLE INITIALLY DEFERRED",
        f'ALTER TABLE "{table}" DROP CONSTRAINT IF EXISTS "{name}"',
    )


class Migration(migrations.Migration):
    dependencies = [
        ("threads", "0003_context_engine"),
        ("memory", "0004_context_engine"),
    ]

    operations = [
        BuildWalls("artifact", user="end_user_id"),
        BuildWalls("contexttrace", user="end_user_id"),
        BuildWalls("summarynode", user="end_user_id", session="thread_id"),
        BuildWalls("tokenfit"),
        _fence("threads_message", "summary_node_id", "threads_summarynode"),
        _fence("threads_run", "continues_id", "threads_run"),
    ]
