"""The jobs application."""

from __future__ import annotations

from django.apps import AppConfig


class JobsConfig(AppConfig):
    """Jobs: requests for a further aggregation, and what became of them."""

    name = "viewer.jobs"
    label = "jobs"
