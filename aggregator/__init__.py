"""The engine. ``celery -A aggregator worker`` finds the Celery application here."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    # Celery is loaded by workers and by the first job only; commands start without it.
    if name in {"app", "celery"}:
        from aggregator.jobs.celery_app import app  # noqa: PLC0415

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
