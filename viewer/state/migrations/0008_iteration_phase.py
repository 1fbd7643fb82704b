"""Aggregations of the iterations of one phase."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0007_task_id")]
    operations = [
        migrations.AddField(
            model_name="job",
            name="iteration_phase",
            field=models.CharField(blank=True, default="", max_length=200),
        )
    ]
