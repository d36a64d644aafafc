"""Row-level security of governance's tables, the key lookup, the append-only audit log, grants."""

from __future__ import annotations

from django.db import migrations

from memory.conf import database_roles
from memory.rls import BuildWalls

APPEND_ONLY = """
CREATE FUNCTION governance_audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER governance_audit_rows BEFORE UPDATE OR DELETE ON governance_auditentry
    FOR EACH ROW EXECUTE FUNCTION governance_audit_is_append_only();
CREATE TRIGGER governance_audit_table BEFORE TRUNCATE ON governance_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION governance_audit_is_append_only();
"""


def _grants(apps, schema_editor):
    roles = database_roles()
    everyone = f'"{roles.app}", "{roles.maint}"'
    for statement in (
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {everyone}",
        f"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {everyone}",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA public"
        f" GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {everyone}",
        f"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO {everyone}",
        f"REVOKE UPDATE, DELETE, TRUNCATE ON governance_auditentry FROM {everyone}",
        f"REVOKE INSERT, UPDATE, DELETE ON django_migrations FROM {everyone}",
    ):
        schema_editor.execute(statement)


def _key_lookup(apps, schema_editor):
    roles = database_roles()
    schema_editor.execute(
        """
        CREATE FUNCTION credence_key_by_prefix(wanted text)
        RETURNS TABLE (id text, tenant_id text, digest text, pepper_version integer,
            scopes text[], principal_id integer, agent_id text, end_user_id text,
            expires_at timestamptz, revoked_at timestamptz, last_used_at timestamptz)
        LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
            SELECT k.id, k.tenant_id, k.digest, k.pepper_version, k.scopes::text[], k.principal_id,
                k.agent_id, k.end_user_id, k.expires_at, k.revoked_at, k.last_used_at
            FROM public.governance_apikey k WHERE k.prefix = wanted
        $$
        """
    )
    for statement in (
        f'GRANT SELECT ON governance_apikey TO "{roles.lookup}"',
        "CREATE POLICY credence_lookup ON governance_apikey FOR SELECT"
        f' TO "{roles.lookup}" USING (true)',
        "REVOKE ALL ON FUNCTION credence_key_by_prefix(text) FROM PUBLIC",
        f'GRANT EXECUTE ON FUNCTION credence_key_by_prefix(text) TO "{roles.app}"',
        # Last: once it is another role's, the migrating role's REVOKE and GRANT only warn.
        f'ALTER FUNCTION credence_key_by_prefix(text) OWNER TO "{roles.lookup}"',
    ):
        schema_editor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [
        ("governance", "0002_initial"),
        ("memory", "0003_walls"),
        ("threads", "0002_walls"),
    ]

    operations = [
        BuildWalls("apikey"),
        BuildWalls("tenantpolicy"),
        BuildWalls("auditentry"),
        migrations.RunSQL(APPEND_ONLY, migrations.RunSQL.noop),
        migrations.RunPython(_grants, migrations.RunPython.noop),
        migrations.RunPython(_key_lookup, migrations.RunPython.noop),
    ]
