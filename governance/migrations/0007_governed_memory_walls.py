"""Walls of candidates, corrections and what is decided about many of them."""

from __future__ import annotations

from django.db import migrations

from memory.rls import BuildWalls


class Migration(migrations.Migration):
    dependencies = [
        ("governance", "0006_governed_memory_references"),
        ("memory", "0009_governed_memory_walls"),
    ]

    operations = [
        BuildWalls("correction", user="end_user_id"),
        BuildWalls("corecandidate", user="end_user_id"),
        BuildWalls("extraction", user="end_user_id"),
        BuildWalls("entitycandidate"),
        BuildWalls("bulkdecision"),
    ]
