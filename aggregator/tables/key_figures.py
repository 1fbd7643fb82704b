"""The key figures of an aggregation in base units, as monitoring systems take them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.declared.advice import ADVICE
from aggregator.tables.declared.efficiency import EFFICIENCY
from aggregator.tables.declared.iterations import GPUS
from aggregator.tables.declared.ops import OP_TYPES
from aggregator.tables.declared.summaries import PERFORMANCE_SUMMARY, RESOURCE_USAGE

_UNITS: Final = {"_ns": ("_seconds", "s", 1e-9), "_pct": ("_ratio", "1", 1e-2)}
"""By the end of a name: the end in base units, the unit's symbol (UCUM), and the factor."""
_OBJECTS: Final = (PERFORMANCE_SUMMARY, RESOURCE_USAGE, EFFICIENCY)


@dataclass(frozen=True)
class KeyFigure:
    """One number of a run."""

    name: str  # ``iter_median_seconds``.
    unit: str  # Symbol of the unit; 1 for shares, empty for counts.
    description: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


def read_key_figures(data: AggregationData) -> list[KeyFigure]:
    """What is known of the step, its shares, its efficiency, its GPUs, op types and advice."""
    found = list(_of_objects(data))
    for row in data.rows(GPUS):
        labels = {"gpu": str(row["device_id"]), "gpu_name": str(row["gpu_name"])}
        meaning = "Time with a kernel running on the GPU."
        found += _figure("device_utilization_pct", meaning, row["gpu_utilization_pct"], labels)
    for row in data.rows(OP_TYPES):
        labels = {"op_type": row["op_type"]}
        meaning = "Time in which the GPU worked for the ops of a type."
        found += _figure("op_type_gpu_time_ns", meaning, row["gpu_time_ns"], labels)
    for row in data.rows(ADVICE, {"status__in": "found"}):
        labels = {"advice": row["advice"], "severity": str(row["severity"])}
        meaning = "Share of the step that the advice could save."
        found += _figure("advice_gain_pct", meaning, row["gain_pct"], labels)
    return found


def _of_objects(data: AggregationData) -> Iterator[KeyFigure]:
    seen: set[str] = set()
    for spec in _OBJECTS:
        values = data.read_object(spec)
        for figure in spec.fields:
            # Some objects share a field.
            if figure.type in {"integer", "number"} and figure.name not in seen:
                seen.add(figure.name)
                value = _at(values, figure.name)
                yield from _figure(figure.name.replace(".", "_"), figure.description, value, {})


def _at(values: Any, path: str) -> Any:
    for part in path.split("."):
        values = values[part]
    return values


def _figure(
    name: str, description: str, value: float | None, labels: Mapping[str, str]
) -> list[KeyFigure]:
    """Return the figure in base units; nothing if it is unknown."""
    if value is None:
        return []
    for end, (base_end, unit, factor) in _UNITS.items():
        if name.endswith(end):
            based = f"{name.removesuffix(end)}{base_end}"
            return [KeyFigure(based, unit, description, value * factor, labels)]
    return [KeyFigure(name, "", description, float(value), labels)]
