"""An index of the runs that gave no answer: lists of them alone need not read the others."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("threads", "0011_dayfigures_walls")]

    operations = [
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("status__in", ["failed", "cancelled", "rejected"])),
                fields=["tenant", "status", "-id"],
                name="run_unanswered_idx",
            ),
        ),
    ]
