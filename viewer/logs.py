"""What of the viewer gets into the log."""

from __future__ import annotations

from typing import Any

from aggregator import log_lines


def logging_settings(kind: str, level: str) -> dict[str, Any]:
    """Django's LOGGING."""
    return {
        **log_lines.logging_settings(kind, level),
        "loggers": {
            # 4xx are answers, not events.
            "django.request": {"level": "ERROR"},
            "django.security": {"level": "ERROR"},
        },
    }


def server_logging_settings(kind: str, level: str) -> dict[str, Any]:
    """Those of gunicorn, which has a logger of its own."""
    server = {"handlers": ["stderr"], "level": level, "propagate": False}
    return {**log_lines.logging_settings(kind, level), "loggers": {"gunicorn.error": server}}
