from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("jobs", "0001_state")]

    operations: ClassVar = [
        migrations.AddField("job", "window", models.JSONField(default=dict)),
    ]
