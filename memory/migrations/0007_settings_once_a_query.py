"""Policies that look the scope's settings up once a query and not once a row; they mean the same."""

from __future__ import annotations

from django.db import migrations

from memory.rls import RebuildPolicies


class Migration(migrations.Migration):
    dependencies = [("memory", "0006_recall_walls")]

    operations = [
        RebuildPolicies("tenant", tenant="id"),
        RebuildPolicies("enduser", user="id"),
        RebuildPolicies("team"),
        RebuildPolicies("teammember", user="end_user_id"),
        RebuildPolicies("job", user="end_user_id"),
        RebuildPolicies("memoryop", user="end_user_id"),
        RebuildPolicies("recallentry", user="end_user_id"),
        RebuildPolicies("knowledgedocument", user="end_user_id", team="team_id"),
        RebuildPolicies("knowledgechunk", user="end_user_id", team="team_id"),
        RebuildPolicies("shelf", user="end_user_id", team="team_id"),
        RebuildPolicies("indexentry", user="end_user_id", team="team_id"),
        RebuildPolicies("embeddingmodel"),
        RebuildPolicies("embedding", user="end_user_id", team="team_id"),
    ]
