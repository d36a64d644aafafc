"""Policies that look the scope's settings up once a query and not once a row; they mean the same."""

from __future__ import annotations

from django.db import migrations

from memory.rls import RebuildPolicies


class Migration(migrations.Migration):
    dependencies = [("governance", "0003_walls")]

    operations = [
        RebuildPolicies("apikey"),
        RebuildPolicies("tenantpolicy"),
        RebuildPolicies("auditentry"),
    ]
