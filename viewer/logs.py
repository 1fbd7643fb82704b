"""Log lines: for a person, or with ``DLPROF_LOG_FORMAT=json`` one JSON object each."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any


class JsonFormatter(logging.Formatter):
    """``{"time", "level", "logger", "message", "trace"}`` on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line; whatever a message holds, it cannot begin another."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, tz=UTC).isoformat(
                timespec="milliseconds"
            ),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def logging_settings(kind: str, level: str) -> dict[str, Any]:
    """Django's LOGGING."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"},
            "json": {"()": "viewer.logs.JsonFormatter"},
        },
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "json" if kind == "json" else "line",
            }
        },
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # 4xx are answers, not events.
            "django.request": {"level": "ERROR"},
            "django.security": {"level": "ERROR"},
        },
    }
