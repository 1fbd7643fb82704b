"""Aggregations with a step without profiling that the user gave."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0008_iteration_phase")]
    operations = [
        migrations.AddField(
            model_name="job", name="bare_step_ns", field=models.BigIntegerField(default=0)
        )
    ]
