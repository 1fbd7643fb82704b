"""Key figures for monitoring: Prometheus' text format and OpenTelemetry's JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aggregator.system.plain_text import escape_control_characters
from aggregator.tables.key_figures import KeyFigure

_PREFIX = "dlprof_"


def prometheus_text(figures: Sequence[KeyFigure], labels: Mapping[str, str]) -> str:
    """Gauges in Prometheus' text format, as the node exporter's textfile collector reads them."""
    return "".join(f"{line}\n" for line in _lines(figures, labels))


def _lines(figures: Sequence[KeyFigure], labels: Mapping[str, str]) -> Iterator[str]:
    for name in dict.fromkeys(figure.name for figure in figures):
        same = [figure for figure in figures if figure.name == name]
        yield f"# HELP {_PREFIX}{name} {_help(same[0].description)}"
        yield f"# TYPE {_PREFIX}{name} gauge"
        for figure in same:
            both = {**labels, **figure.labels}
            pairs = ",".join(f'{key}="{_label(value)}"' for key, value in both.items())
            yield f"{_PREFIX}{name}{{{pairs}}} {figure.value!r}"


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _label(text: str) -> str:
    return _help(escape_control_characters(text)).replace('"', '\\"')


def otlp_json(
    figures: Sequence[KeyFigure], resource: Mapping[str, str], time_ns: int, version: str
) -> str:
    """Return a request of OTLP over HTTP in JSON: what a collector takes at ``/v1/metrics``.

    Args:
        figures: What is known of the run.
        resource: Attributes of the resource.
        time_ns: When the run was profiled, since 1970.
        version: Version of this program.
    """
    metrics = []
    for name in dict.fromkeys(figure.name for figure in figures):
        same = [figure for figure in figures if figure.name == name]
        points = [
            {
                "timeUnixNano": str(time_ns),
                "asDouble": figure.value,
                "attributes": _attributes(figure.labels),
            }
            for figure in same
        ]
        described = {"description": same[0].description, "unit": same[0].unit}
        metrics.append({"name": f"dlprof.{name}", **described, "gauge": {"dataPoints": points}})
    scope = {"scope": {"name": "dlprof", "version": version}, "metrics": metrics}
    attributes = _attributes({"service.name": "dlprof", **resource})
    parts = [{"resource": {"attributes": attributes}, "scopeMetrics": [scope]}]
    return json.dumps({"resourceMetrics": parts}, ensure_ascii=False) + "\n"


def _attributes(labels: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in labels.items()]
