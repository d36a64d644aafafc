"""Row-level security and composite keys of recall, knowledge and the index, and what recall demands."""

from __future__ import annotations

from django.db import migrations

from memory.rls import BuildWalls

RECALL_RULES = """
CREATE FUNCTION memory_recall_rules() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    run threads_run%ROWTYPE;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION 'a recall entry is never changed' USING ERRCODE = 'check_violation';
    END IF;
    -- By its key alone: with more to choose from, a table without statistics is searched by thread.
    SELECT * INTO run FROM threads_run WHERE id = NEW.run_id;
    IF run.id IS NULL OR run.tenant_id <> NEW.tenant_id OR run.thread_id <> NEW.thread_id
            OR run.end_user_id <> NEW.end_user_id OR run.status <> 'succeeded' THEN
        RAISE EXCEPTION 'only a succeeded run is recalled' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER memory_recall_rules BEFORE INSERT OR UPDATE ON memory_recallentry
    FOR EACH ROW EXECUTE FUNCTION memory_recall_rules();
"""


class Migration(migrations.Migration):
    dependencies = [("memory", "0005_recall"), ("threads", "0005_recall")]

    operations = [
        BuildWalls("recallentry", user="end_user_id"),
        BuildWalls("knowledgedocument", user="end_user_id", team="team_id"),
        BuildWalls("knowledgechunk", user="end_user_id", team="team_id"),
        BuildWalls("shelf", user="end_user_id", team="team_id"),
        BuildWalls("indexentry", user="end_user_id", team="team_id"),
        BuildWalls("embeddingmodel"),
        BuildWalls("embedding", user="end_user_id", team="team_id"),
        migrations.RunSQL(
            RECALL_RULES,
            "DROP TRIGGER memory_recall_rules ON memory_recallentry;"
            " DROP FUNCTION memory_recall_rules();",
        ),
    ]
