"""Uploads are files, without rows."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0005_seen_workers"),
    ]

    operations = [
        migrations.DeleteModel(name="Upload"),
    ]
