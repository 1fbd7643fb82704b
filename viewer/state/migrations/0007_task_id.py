"""The task of Celery that runs a job, in place of a worker's claim."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0006_delete_upload"),
    ]

    operations = [
        migrations.RemoveIndex(model_name="job", name="job_client_started"),
        migrations.RenameField(model_name="job", old_name="claim", new_name="task_id"),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["client", "profile_id", "sent_at"], name="job_client_sent"),
        ),
    ]
