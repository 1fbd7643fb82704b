"""The Django application of the viewer's own database."""

from __future__ import annotations

from django.apps import AppConfig


class StateConfig(AppConfig):
    """Rows of jobs, of workers, and of what is stored about profiles."""

    name = "viewer.state"
    label = "jobs"  # Part of the names of its tables.
