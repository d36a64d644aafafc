"""Row-level security and composite keys of the thread tables, and the run state machine."""

from __future__ import annotations

from django.db import migrations

from memory.rls import BuildWalls

STATE_MACHINE = """
CREATE FUNCTION threads_run_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.origin = 'run' AND NEW.status NOT IN ('queued', 'running') THEN
            RAISE EXCEPTION 'a run starts queued or running' USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.tenant_id <> OLD.tenant_id OR NEW.thread_id <> OLD.thread_id OR NEW.seq <> OLD.seq
       OR NEW.end_user_id <> OLD.end_user_id OR NEW.origin <> OLD.origin THEN
        RAISE EXCEPTION 'a run keeps its place' USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.status <> OLD.status AND NOT (
        (OLD.status = 'queued' AND NEW.status IN ('running', 'failed', 'cancelled', 'rejected'))
        OR (OLD.status = 'running'
            AND NEW.status IN ('succeeded', 'failed', 'cancelled', 'rejected'))) THEN
        RAISE EXCEPTION 'a run can not go from % to %', OLD.status, NEW.status
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER threads_run_moves BEFORE INSERT OR UPDATE ON threads_run
    FOR EACH ROW EXECUTE FUNCTION threads_run_moves();
"""


class Migration(migrations.Migration):
    dependencies = [("threads", "0001_initial"), ("memory", "0003_walls")]

    operations = [
        BuildWalls("provider"),
        BuildWalls("agent"),
        BuildWalls("thread", user="end_user_id"),
        BuildWalls("threadsummary", user="end_user_id", session="thread_id"),
        BuildWalls("run", user="end_user_id"),
        BuildWalls("runtrace", user="end_user_id"),
        BuildWalls("message", user="end_user_id"),
        BuildWalls("idempotencyrecord"),
        migrations.RunSQL(
            STATE_MACHINE,
            "DROP TRIGGER threads_run_moves ON threads_run; DROP FUNCTION threads_run_moves();",
        ),
    ]
