"""Log lines: for a person, or with ``DLPROF_LOG_FORMAT=json`` one JSON object each.

The same for the web server, the viewer and every worker, whichever library writes them.
"""

from __future__ import annotations

import json
import logging
import os
import re
import textwrap
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from aggregator.system.plain_text import escape_control_characters, on_one_line

#: In an address or in a header; malformed requests are quoted in the log.
_TOKEN = re.compile(r"(\btoken=|\bBearer\s+)[^\s&'\"]+", re.IGNORECASE)
_HIDDEN = "..."
#: Shorter tokens would match ordinary text, and are not secure anyway.
_SHORTEST = 6
#: Characters of a message that are logged.
_LONGEST = 2_000


def without_token(text: str, variables: Mapping[str, str] = os.environ) -> str:
    """Return a text without anything that may be the access token."""
    token = variables.get("DLPROF_TOKEN")
    plain = text.replace(token, _HIDDEN) if token and len(token) >= _SHORTEST else text
    return _TOKEN.sub(rf"\1{_HIDDEN}", plain)


def shortened(message: str) -> str:
    """Return a message without its middle, if it is long: it may quote a request."""
    half = _LONGEST // 2
    return message if len(message) <= _LONGEST else f"{message[:half]} ... {message[-half:]}"


class LineFormatter(logging.Formatter):
    """One line for each message; what a message holds cannot begin another or steer a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line without a trace."""
        return without_token(shortened(on_one_line(super().formatMessage(record))))

    def formatException(self, ei: Any) -> str:
        """Return a trace, further in than a message."""
        trace = without_token(escape_control_characters(super().formatException(ei)))
        return textwrap.indent(trace, "  ", lambda line: True)


class JsonFormatter(logging.Formatter):
    """``{"time", "level", "logger", "message", "trace"}`` on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; whatever a message holds, it cannot begin another."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, tz=UTC).isoformat(
                timespec="milliseconds"
            ),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "message": without_token(shortened(record.getMessage())),
        }
        if record.exc_info:
            entry["trace"] = without_token(self.formatException(record.exc_info))
        # Plain ASCII: other characters may end a line, or steer a terminal.
        return json.dumps(entry)


def logging_settings(kind: str, level: int | str) -> dict[str, Any]:
    """What ``logging.config.dictConfig`` takes: everything from a level on to standard error.

    ``kind`` is ``line`` or ``json``.
    """
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {
                "()": f"{__name__}.LineFormatter",
                "format": "%(asctime)s %(levelname)s %(name)s: %(message)s",
            },
            "json": {"()": f"{__name__}.JsonFormatter"},
        },
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "json" if kind == "json" else "line",
            }
        },
        "root": {"handlers": ["stderr"], "level": level},
    }
