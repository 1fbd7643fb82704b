"""How the values of a report column become text, in CSV and in JSON.

CSV follows DLProf 1.8.0 byte for byte: names are always quoted, directions, data types, flags and
numbers never are (unless they hold a comma), averages and percentages have one decimal.
JSON holds the same rows with unrounded numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from aggregator.plain_text import defused

_NEEDS_QUOTES: Final = frozenset(',"\n\r')


class Format(Enum):
    """What the values of a column are."""

    NAME = auto()
    """Text that is always quoted."""
    WORD = auto()
    """Text that is quoted only when it must be."""
    FLAG = auto()
    """0 or 1, shown as no or yes."""
    NUMBER = auto()
    """A whole number."""
    DECIMAL = auto()
    """An average or a percentage: one decimal in CSV."""
    RAW = auto()
    """Whatever the database holds; in JSON only."""


@dataclass(frozen=True)
class Column:
    """One column of a report.

    Attributes:
        title: Its header, unit included.
        source: Its column in the view.
        format: What its values are.
        pytorch_only: Left out unless the ops have directions and stack traces.
        extended: Only with ``--extended=true``; DLProf had no such column.
    """

    title: str
    source: str
    format: Format
    pytorch_only: bool = False
    extended: bool = False


def time_columns(label: str, source: str, average: str) -> tuple[Column, ...]:
    """Total, average, minimum and maximum of one time, in ns.

    Args:
        label: The time in words, for example ``GPU Time``.
        source: First part of the names of its columns in the view.
        average: How the report spells the average, ``Avg.`` or ``Avg``.
    """
    return (
        Column(f"Total {label} (ns)", f"{source}_sum", Format.NUMBER),
        Column(f"{average} {label} (ns)", f"{source}_avg", Format.DECIMAL),
        Column(f"Min {label} (ns)", f"{source}_min", Format.NUMBER),
        Column(f"Max {label} (ns)", f"{source}_max", Format.NUMBER),
    )


# The sixteen time columns that the reports on ops, op types and groups share.
OP_TIMES: Final = (
    *time_columns("CPU Time", "cpu_time", "Avg."),
    *time_columns("GPU Time", "gpu_time", "Avg."),
    *time_columns("CPU Overhead", "cpu_overhead", "Avg."),
    *time_columns("GPU Idle", "gpu_idle", "Avg."),
)

# What ops should have cost and did: ours, for the reports on ops, op types and groups.
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


class _Remembered(dict[object, str]):
    """Texts of the values seen so far: names repeat a thousandfold in a report."""

    def __init__(self, render: Renderer) -> None:
        super().__init__()
        self._render = render

    def __missing__(self, value: object) -> str:
        text = self[value] = self._render(value)
        return text


def csv_renderer(kind: Format) -> Renderer:
    """A function from a value to its CSV field; an unknown value is an empty field."""
    match kind:
        case Format.NAME:
            return _Remembered(_csv_name).__getitem__
        case Format.WORD:
            return _Remembered(_csv_word).__getitem__
        case Format.FLAG:
            return _Remembered(_yes_no).__getitem__
        case Format.NUMBER | Format.RAW:
            return _csv_number
        case Format.DECIMAL:
            return csv_decimal


def json_renderer(kind: Format) -> Renderer:
    """A function from a value to its JSON text; an unknown value is ``null``."""
    match kind:
        case Format.NAME | Format.WORD:
            return _Remembered(_json_text).__getitem__
        case Format.FLAG:
            return _Remembered(lambda value: _json_text(_yes_no(value) or None)).__getitem__
        case Format.NUMBER:
            return _json_number
        case Format.DECIMAL:
            return json_decimal
        case Format.RAW:
            return _json_any


def csv_decimal(value: object) -> str:
    """A number with one decimal."""
    return "" if value is None else f"{value:.1f}"


def json_decimal(value: object) -> str:
    """A number with all its digits, and a decimal point so that readers see a float."""
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
    return "" if value is None else defused(str(value))


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
