"""Numbers of the ranks of several files, and how far each is."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0003_profiles_uploads_turns"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="ranks",
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name="job",
            name="parts",
            field=models.TextField(blank=True, default=""),
        ),
    ]
