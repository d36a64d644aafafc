"""An index of the items that wait for a person, so that pages count them without reading the others."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0010_proved")]

    operations = [
        migrations.AddIndex(
            model_name="memoryitem",
            index=models.Index(
                condition=models.Q(("status", "held")),
                fields=["tenant", "created_at"],
                name="memoryitem_held_idx",
            ),
        ),
    ]
