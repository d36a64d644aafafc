"""Walls of the chain, of erasures, holds and links; what is append-only; the sealer's list."""

from __future__ import annotations

from django.db import migrations

from memory.conf import database_roles
from memory.rls import BuildWalls

_APPEND_ONLY = ("governance_disclosure", "governance_auditseal", "governance_auditleaf")
_SEALED = ("governance_auditentry", "governance_disclosure")
# Every row that has to be sealed is on the sealer's list from the moment it is there, whoever
# writes it: one statement for all the rows of an INSERT.
PENDING = """
CREATE FUNCTION governance_note_unsealed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO governance_auditpending (id, tenant_id) SELECT id, tenant_id FROM fresh;
    RETURN NULL;
END $$;
"""


def _append_only(apps, schema_editor):
    roles = database_roles()
    for table in _APPEND_ONLY:
        for statement in (
            f"CREATE TRIGGER {table}_rows BEFORE UPDATE OR DELETE ON {table}"
            " FOR EACH ROW EXECUTE FUNCTION governance_audit_is_append_only()",
            f"CREATE TRIGGER {table}_table BEFORE TRUNCATE ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION governance_audit_is_append_only()",
            f'REVOKE UPDATE, DELETE, TRUNCATE ON {table} FROM "{roles.app}", "{roles.maint}"',
        ):
            schema_editor.execute(statement)


def _pending(apps, schema_editor):
    schema_editor.execute(PENDING)
    for table in _SEALED:
        schema_editor.execute(
            f"CREATE TRIGGER {table}_unsealed AFTER INSERT ON {table}"
            " REFERENCING NEW TABLE AS fresh"
            " FOR EACH STATEMENT EXECUTE FUNCTION governance_note_unsealed()"
        )


# What was written before there was a chain is sealed by its first link; as owner, policies of row
# level security would show nothing of it.
_OLD = (
    "ALTER TABLE governance_auditentry NO FORCE ROW LEVEL SECURITY",
    "ALTER TABLE governance_auditpending NO FORCE ROW LEVEL SECURITY",
    "INSERT INTO governance_auditpending (id, tenant_id)"
    " SELECT id, tenant_id FROM governance_auditentry",
    "ALTER TABLE governance_auditentry FORCE ROW LEVEL SECURITY",
    "ALTER TABLE governance_auditpending FORCE ROW LEVEL SECURITY",
)


def _list_old(apps, schema_editor):
    for statement in _OLD:
        schema_editor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [
        ("governance", "0008_proved"),
        ("memory", "0010_proved"),
        ("threads", "0008_proved"),
    ]

    operations = [
        BuildWalls("disclosure", user="subject_id"),
        BuildWalls("auditseal"),
        BuildWalls("auditleaf"),
        BuildWalls("auditpending"),
        BuildWalls("erasure"),
        BuildWalls("legalhold", user="subject_id"),
        BuildWalls("exportlink", user="end_user_id"),
        migrations.RunPython(_append_only, migrations.RunPython.noop),
        migrations.RunPython(_list_old, migrations.RunPython.noop),
        migrations.RunPython(_pending, migrations.RunPython.noop),
    ]
