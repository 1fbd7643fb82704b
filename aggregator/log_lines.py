"""Log lines: for a person, or with ``DLPROF_LOG_FORMAT=json`` one JSON object each.

The same for the web server, the viewer and every worker, whichever library speaks.
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

from aggregator.plain_text import on_one_line, shown

#: In an address, in a header; whoever sends a request that makes no sense has it quoted.
_TOKEN = re.compile(r"(\btoken=|\bBearer\s+)[^\s&'\"]+", re.IGNORECASE)
_HIDDEN = "..."
#: Shorter ones are found in any text; nobody who wants a secret has such a token.
_SHORTEST = 6


def without_token(text: str, variables: Mapping[str, str] = os.environ) -> str:
    """A text with whatever may be the access token left out."""
    token = variables.get("DLPROF_TOKEN")
    plain = text.replace(token, _HIDDEN) if token and len(token) >= _SHORTEST else text
    return _TOKEN.sub(rf"\1{_HIDDEN}", plain)


class LineFormatter(logging.Formatter):
    """One line for each message; what a message holds cannot begin another or steer a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line without a trace."""
        return without_token(on_one_line(super().formatMessage(record)))

    def formatException(self, ei: Any) -> str:
        """A trace, further in than a message."""
        trace = without_token(shown(super().formatException(ei)))
        return textwrap.indent(trace, "  ", lambda line: True)


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
            "message": without_token(record.getMessage()),
        }
        if record.exc_info:
            entry["trace"] = without_token(self.formatException(record.exc_info))
        # Plain ASCII: other characters may end a line, or steer a terminal.
        return json.dumps(entry)


def logging_settings(kind: str, level: int | str) -> dict[str, Any]:
    """What ``logging.config.dictConfig`` takes: everything to standard error.

    Args:
        kind: ``line`` or ``json``.
        level: Least important lines.
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
