"""Policies that look the scope's settings up once a query and not once a row; they mean the same."""

from __future__ import annotations

from django.db import migrations

from memory.rls import RebuildPolicies


class Migration(migrations.Migration):
    dependencies = [("threads", "0005_recall")]

    operations = [
        RebuildPolicies("provider"),
        RebuildPolicies("agent"),
        RebuildPolicies("thread", user="end_user_id"),
        RebuildPolicies("threadsummary", user="end_user_id", session="thread_id"),
        RebuildPolicies("run", user="end_user_id"),
        RebuildPolicies("runtrace", user="end_user_id"),
        RebuildPolicies("message", user="end_user_id"),
        RebuildPolicies("idempotencyrecord"),
        RebuildPolicies("artifact", user="end_user_id"),
        RebuildPolicies("contexttrace", user="end_user_id"),
        RebuildPolicies("summarynode", user="end_user_id", session="thread_id"),
        RebuildPolicies("tokenfit"),
    ]
