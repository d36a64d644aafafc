"""Walls of the sums of days."""

from __future__ import annotations

from django.db import migrations

from memory.rls import BuildWalls


class Migration(migrations.Migration):
    dependencies = [("threads", "0010_dayfigures")]

    operations = [BuildWalls("dayfigures")]
