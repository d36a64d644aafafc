"""Walls of what erased runs had cost."""

from __future__ import annotations

from django.db import migrations

from memory.rls import BuildWalls


class Migration(migrations.Migration):
    dependencies = [("threads", "0008_proved"), ("governance", "0009_proved_walls")]

    operations = [BuildWalls("keptusage")]
