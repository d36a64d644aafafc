"""An index that finds the traces past their retention, so that looking for some costs nothing."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("threads", "0006_settings_once_a_query")]

    operations = [
        migrations.AddIndex(
            model_name="runtrace",
            index=models.Index(fields=["tenant", "created_at"], name="runtrace_created_idx"),
        ),
    ]
