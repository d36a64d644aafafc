"""Walls of what is remembered for long, and what the database itself demands of it."""

from __future__ import annotations

from django.db import migrations

from memory.rls import BuildWalls

LEARNED_RULES = """
CREATE FUNCTION memory_learned_rules() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    run threads_run%ROWTYPE;
BEGIN
    IF NEW.run_id IS NULL THEN
        RETURN NEW;
    END IF;
    IF TG_OP = 'UPDATE' AND OLD.run_id IS NOT DISTINCT FROM NEW.run_id THEN
        RETURN NEW;
    END IF;
    SELECT * INTO run FROM threads_run WHERE id = NEW.run_id;
    IF run.id IS NULL OR run.tenant_id <> NEW.tenant_id
            OR (NEW.end_user_id IS NOT NULL AND run.end_user_id <> NEW.end_user_id)
            OR run.status <> 'succeeded' THEN
        RAISE EXCEPTION 'only a succeeded run teaches' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER memory_learned_rules BEFORE INSERT OR UPDATE ON memory_memoryitem
    FOR EACH ROW EXECUTE FUNCTION memory_learned_rules();
CREATE TRIGGER memory_learned_rules BEFORE INSERT OR UPDATE ON memory_memoryitemversion
    FOR EACH ROW EXECUTE FUNCTION memory_learned_rules();
CREATE TRIGGER memory_learned_rules BEFORE INSERT OR UPDATE ON memory_corefact
    FOR EACH ROW EXECUTE FUNCTION memory_learned_rules();
CREATE TRIGGER memory_learned_rules BEFORE INSERT OR UPDATE ON governance_corecandidate
    FOR EACH ROW EXECUTE FUNCTION memory_learned_rules();
"""
# A fact comes from a candidate that somebody confirmed, and an entity from one that was approved.
APPROVED_RULES = """
CREATE FUNCTION memory_fact_is_confirmed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM governance_corecandidate candidate
            WHERE candidate.id = NEW.candidate_id AND candidate.tenant_id = NEW.tenant_id
            AND candidate.end_user_id = NEW.end_user_id AND candidate.status = 'confirmed') THEN
        RAISE EXCEPTION 'a fact needs a confirmed candidate' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER memory_fact_is_confirmed BEFORE INSERT ON memory_corefact
    FOR EACH ROW EXECUTE FUNCTION memory_fact_is_confirmed();
CREATE FUNCTION memory_entity_is_approved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM governance_entitycandidate candidate
            WHERE candidate.id = NEW.candidate_id AND candidate.tenant_id = NEW.tenant_id
            AND candidate.status = 'approved') THEN
        RAISE EXCEPTION 'an entity needs an approved candidate' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER memory_entity_is_approved BEFORE INSERT ON memory_entity
    FOR EACH ROW EXECUTE FUNCTION memory_entity_is_approved();
"""
INDEX_KEYS = """
ALTER TABLE memory_indexentry ADD CONSTRAINT indexentry_item_id_same_tenant
    FOREIGN KEY (tenant_id, item_id) REFERENCES memory_memoryitem (tenant_id, id)
    DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE memory_indexentry ADD CONSTRAINT indexentry_fact_id_same_tenant
    FOREIGN KEY (tenant_id, fact_id) REFERENCES memory_corefact (tenant_id, id)
    DEFERRABLE INITIALLY DEFERRED;
"""
UNDO_INDEX_KEYS = """
ALTER TABLE memory_indexentry DROP CONSTRAINT indexentry_item_id_same_tenant;
ALTER TABLE memory_indexentry DROP CONSTRAINT indexentry_fact_id_same_tenant;
"""
UNDO_APPROVED = """
DROP TRIGGER memory_fact_is_confirmed ON memory_corefact;
DROP FUNCTION memory_fact_is_confirmed();
DROP TRIGGER memory_entity_is_approved ON memory_entity;
DROP FUNCTION memory_entity_is_approved();
"""
UNDO = """
DROP TRIGGER memory_learned_rules ON memory_memoryitem;
DROP TRIGGER memory_learned_rules ON memory_memoryitemversion;
DROP TRIGGER memory_learned_rules ON memory_corefact;
DROP TRIGGER memory_learned_rules ON governance_corecandidate;
DROP FUNCTION memory_learned_rules();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0008_governed_memory"),
        ("governance", "0006_governed_memory_references"),
    ]

    operations = [
        BuildWalls("memoryitem", user="end_user_id", team="team_id"),
        BuildWalls("memoryitemversion", user="end_user_id", team="team_id"),
        BuildWalls("corefact", user="end_user_id"),
        BuildWalls("entity"),
        BuildWalls("entityevent", user="end_user_id"),
        BuildWalls("entitymerge"),
        BuildWalls("behavioursample"),
        migrations.RunSQL(INDEX_KEYS, UNDO_INDEX_KEYS),
        migrations.RunSQL(LEARNED_RULES, UNDO),
        migrations.RunSQL(APPROVED_RULES, UNDO_APPROVED),
    ]
