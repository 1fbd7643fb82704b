"""Columns of a report, and the format of their values in CSV and JSON.

CSV files are identical to those of DLProf 1.8.0: names are always quoted; directions, data types,
flags and numbers are not (unless they contain a comma); averages and percentages have one decimal.
JSON files have the same rows with unrounded numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from aggregator.system.plain_text import escape_formula

_NEEDS_QUOTES: Final = frozenset(',"\n\r')


class Format(Enum):
    """Kind of the values of a column."""

    NAME = auto()
    """Text that is always quoted."""
    WORD = auto()
    """Text that is quoted only if necessary."""
    FLAG = auto()
    """0 or 1, shown as no or yes."""
    NUMBER = auto()
    """A whole number."""
    DECIMAL = auto()
    """An average or a percentage: one decimal in CSV."""
    RAW = auto()
    """Any value of the database; only in JSON."""


@dataclass(frozen=True)
class Column:
    """One column of a report."""

    title: str  # Its header, unit included.
    source: str  # Column of the view.
    format: Format  # Kind of its values.
    pytorch_only: bool = False  # Whether it is omitted if ops have no directions and stack traces.
    # Whether it is only written with ``--extended=true``; DLProf did not have it.
    extended: bool = False


def time_columns(label: str, source: str, average: str) -> tuple[Column, ...]:
    """Return the columns for total, average, minimum and maximum of a time. Unit: ns.

    Args:
        label: Name of the time, for example ``GPU Time``.
        source: Prefix of its columns in the view.
        average: Spelling of the average in the report, ``Avg.`` or ``Avg``.
    """
    return (
        Column(f"Total {label} (ns)", f"{source}_sum", Format.NUMBER),
        Column(f"{average} {label} (ns)", f"{source}_avg", Format.DECIMAL),
        Column(f"Min {label} (ns)", f"{source}_min", Format.NUMBER),
        Column(f"Max {label} (ns)", f"{source}_max", Format.NUMBER),
    )


# The sixteen time columns of the reports on ops, op types and groups.
OP_TIMES: Final = (
    *time_columns("CPU Time", "cpu_time", "Avg."),
    *time_columns("GPU Time", "gpu_time", "Avg."),
    *time_columns("CPU Overhead", "cpu_overhead", "Avg."),
    *time_columns("GPU Idle", "gpu_idle", "Avg."),
)

# Costs and efficiency, for the reports on ops, op types and groups; DLProf did not have them.
EFFICIENCY: Final = (
    Column("FLOPs", "flops", Format.NUMBER, extended=True),
    Column("Bytes", "bytes", Format.NUMBER, extended=True),
    Column("TFLOP/s", "tflops_per_second", Format.NUMBER, extended=True),
    Column("GB/s", "gbytes_per_second", Format.NUMBER, extended=True),
    Column("Ideal Time (ns)", "ideal_time", Format.NUMBER, extended=True),
    Column("Left To Win (ns)", "left_time", Format.NUMBER, extended=True),
    Column("Share Of Peak %", "peak_pct", Format.DECIMAL, extended=True),
    Column("Arithmetic Intensity", "arithmetic_intensity", Format.NUMBER, extended=True),
    Column("Bound", "bound", Format.WORD, extended=True),
)

Renderer = Callable[[object], str]


class _Cached(dict[object, str]):
    """Cache of rendered values: the same names occur thousands of times in a report."""

    def __init__(self, render: Renderer) -> None:
        super().__init__()
        self._render = render

    def __missing__(self, value: object) -> str:
        text = self[value] = self._render(value)
        return text


def csv_renderer(kind: Format) -> Renderer:
    """Return a function from a value to its CSV field; NULL is an empty field."""
    match kind:
        case Format.NAME:
            return _Cached(_csv_name).__getitem__
        case Format.WORD:
            return _Cached(_csv_word).__getitem__
        case Format.FLAG:
            return _Cached(_yes_no).__getitem__
        case Format.NUMBER | Format.RAW:
            return _csv_number
        case Format.DECIMAL:
            return csv_decimal


def json_renderer(kind: Format) -> Renderer:
    """Return a function from a value to its JSON text; NULL is ``null``."""
    match kind:
        case Format.NAME | Format.WORD:
            return _Cached(_json_text).__getitem__
        case Format.FLAG:
            return _Cached(lambda value: _json_text(_yes_no(value) or None)).__getitem__
        case Format.NUMBER:
            return _json_number
        case Format.DECIMAL:
            return json_decimal
        case Format.RAW:
            return _json_any


def csv_decimal(value: object) -> str:
    """Format a number with one decimal."""
    return "" if value is None else f"{value:.1f}"


def json_decimal(value: object) -> str:
    """Format a number with all digits and a decimal point, so that it is read as a float."""
    if value is None:
        return "null"
    assert isinstance(value, int | float)
    return repr(float(value)) if math.isfinite(value) else "null"


def _csv_name(value: object) -> str:
    return '"' + _without_formula(value).replace('"', '""') + '"'


def _csv_word(value: object) -> str:
    text = _without_formula(value)
    return _csv_name(value) if not _NEEDS_QUOTES.isdisjoint(text) else text


def _without_formula(value: object) -> str:
    # Names come from the profiled program.
    return "" if value is None else escape_formula(str(value))


def _yes_no(value: object) -> str:
    if value is None:
        return ""
    return "yes" if value else "no"


def _csv_number(value: object) -> str:
    return "" if value is None else str(value)


def _json_text(value: object) -> str:
    return json.dumps(value if value is None else str(value), ensure_ascii=False)


def _json_any(value: object) -> str:
    if isinstance(value, float):
        return json_decimal(value)
    return str(value) if isinstance(value, int) else _json_text(value)


def _json_number(value: object) -> str:
    return "null" if value is None else str(value)
