"""Row-level security and composite foreign keys of the kernel's tables, and the due-job lookup."""

from __future__ import annotations

from django.db import migrations

from memory.conf import database_roles
from memory.rls import BuildWalls


def _due_jobs(apps, schema_editor):
    roles = database_roles()
    schema_editor.execute(
        """
        CREATE FUNCTION credence_due_jobs(lane integer, lanes integer, most integer)
        RETURNS TABLE (job_id text, tenant_id text)
        LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
            SELECT j.id, j.tenant_id FROM public.memory_job j
            WHERE j.status IN ('ready', 'running') AND j.not_before <= now()
              AND (j.status = 'ready' OR j.lease_until < now())
              AND mod(j.lane_key, lanes) = lane
              AND NOT EXISTS (
                SELECT 1 FROM public.memory_job earlier
                WHERE earlier.tenant_id = j.tenant_id AND earlier.thread_id = j.thread_id
                  AND earlier.status IN ('ready', 'running') AND earlier.id < j.id)
            ORDER BY j.id LIMIT most
        $$
        """
    )
    for statement in (
        f'GRANT SELECT ON memory_job TO "{roles.lookup}"',
        f'CREATE POLICY credence_lookup ON memory_job FOR SELECT TO "{roles.lookup}" USING (true)',
        "REVOKE ALL ON FUNCTION credence_due_jobs(integer, integer, integer) FROM PUBLIC",
        "GRANT EXECUTE ON FUNCTION credence_due_jobs(integer, integer, integer)"
        f' TO "{roles.app}", "{roles.maint}"',
        # Last: once it is another role's, the migrating role's REVOKE and GRANT only warn.
        f'ALTER FUNCTION credence_due_jobs(integer, integer, integer) OWNER TO "{roles.lookup}"',
    ):
        schema_editor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [("memory", "0002_initial"), ("threads", "0001_initial")]

    operations = [
        BuildWalls("tenant", tenant="id"),
        BuildWalls("enduser", user="id"),
        BuildWalls("team"),
        BuildWalls("teammember", user="end_user_id"),
        BuildWalls("job", user="end_user_id"),
        BuildWalls("memoryop", user="end_user_id"),
        migrations.RunPython(_due_jobs, migrations.RunPython.noop),
    ]
