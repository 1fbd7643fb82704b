"""The tables of the state; in place of nine migrations from before the first release."""

from __future__ import annotations

import django.utils.timezone
from django.db import migrations, models

import viewer.state.models


class Migration(migrations.Migration):
    initial = True
    replaces = [
        ("jobs", "0001_initial"),
        ("jobs", "0002_result"),
        ("jobs", "0003_profiles_uploads_turns"),
        ("jobs", "0004_rank_files"),
        ("jobs", "0005_seen_workers"),
        ("jobs", "0006_delete_upload"),
        ("jobs", "0007_task_id"),
        ("jobs", "0008_iteration_phase"),
        ("jobs", "0009_bare_step"),
    ]
    dependencies = []

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
        migrations.CreateModel(
            name="StoredProfile",
            fields=[
                ("id", models.CharField(max_length=80, primary_key=True, serialize=False)),
                ("path", models.CharField(max_length=4096)),
                ("name", models.TextField(blank=True, default="")),
                ("is_added", models.BooleanField(default=False)),
                ("folder", models.CharField(blank=True, default="", max_length=4096)),
                ("hidden_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=viewer.state.models._new_id,
                        editable=False,
                        max_length=32,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("aggregation", "Aggregation"), ("import", "Import")],
                        default="aggregation",
                        max_length=12,
                    ),
                ),
                ("profile_id", models.CharField(max_length=80)),
                ("database", models.CharField(max_length=4096)),
                ("client", models.CharField(blank=True, default="", max_length=64)),
                ("key_node", models.TextField(blank=True, default="")),
                ("iter_start", models.BigIntegerField(null=True)),
                ("iter_stop", models.BigIntegerField(null=True)),
                ("iteration_phase", models.CharField(blank=True, default="", max_length=200)),
                ("bare_step_ns", models.BigIntegerField(default=0)),
                ("sources", models.JSONField(default=list)),
                ("ranks", models.JSONField(default=list)),
                ("parts", models.TextField(blank=True, default="")),
                ("profile_name", models.TextField(blank=True, default="")),
                ("mode", models.CharField(default="auto", max_length=20)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("done", "Done"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="queued",
                        max_length=10,
                    ),
                ),
                ("phase", models.CharField(blank=True, default="", max_length=40)),
                ("progress_pct", models.FloatField(default=0.0)),
                ("rows_per_s", models.FloatField(null=True)),
                ("eta_s", models.FloatField(null=True)),
                ("message", models.TextField(blank=True, default="")),
                ("error", models.JSONField(null=True)),
                ("aggregation_id", models.BigIntegerField(null=True)),
                ("result", models.CharField(blank=True, default="", max_length=4096)),
                ("cancel_requested", models.BooleanField(default=False)),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("task_id", models.CharField(blank=True, default="", max_length=32)),
                ("worker_host", models.CharField(blank=True, default="", max_length=255)),
                ("worker_pid", models.BigIntegerField(null=True)),
                ("worker_scope", models.CharField(blank=True, default="", max_length=255)),
                ("heartbeat_at", models.DateTimeField(null=True)),
                ("sent_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["state", "client", "profile_id"], name="job_state_client"),
                    models.Index(
                        fields=["client", "profile_id", "sent_at"], name="job_client_sent"
                    ),
                    models.Index(fields=["profile_id", "created_at"], name="job_profile_created"),
                    models.Index(fields=["created_at"], name="job_created"),
                ],
            },
        ),
    ]
