"""Workers that said that they are there."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0004_rank_files"),
    ]

    operations = [
        migrations.CreateModel(
            name="SeenWorker",
            fields=[
                ("id", models.CharField(max_length=255, primary_key=True, serialize=False)),
                ("host", models.CharField(max_length=255)),
                ("pid", models.BigIntegerField()),
                ("seen_at", models.DateTimeField()),
            ],
        ),
    ]
