"""Format of values in the CSV and JSON files of reports, by the kind of their column.

CSV files are identical to those of DLProf 1.8.0: names are always quoted; directions, data types,
flags and numbers are not (unless they contain a comma); averages and percentages have one decimal.
JSON files have the same rows with unrounded numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aggregator.system.plain_text import escape_formula

if TYPE_CHECKING:
    from aggregator.tables.spec import Column

_NEEDS_QUOTES: Final = frozenset(',"\n\r')
_ONE_DECIMAL: Final = ("_avg_ns", "_pct")

Renderer = Callable[[object], str]


class _Cached(dict[object, str]):
    """Cache of rendered values: the same names occur thousands of times in a report."""

    def __init__(self, render: Renderer) -> None:
        super().__init__()
        self._render = render

    def __missing__(self, value: object) -> str:
        text = self[value] = self._render(value)
        return text


def csv_renderer(column: Column) -> Renderer:
    """Return a function from a value to its CSV field; NULL is an empty field."""
    match column.kind:
        case "boolean":
            return _Cached(_yes_no).__getitem__
        case "choice":
            return _Cached(_csv_word).__getitem__
        case _ if not is_number(column):
            return _Cached(_csv_name).__getitem__
    return csv_decimal if _is_decimal(column) else _csv_number


def json_renderer(column: Column) -> Renderer:
    """Return a function from a value to its JSON text; NULL is ``null``."""
    if column.kind == "boolean":
        return _Cached(lambda value: _json_text(_yes_no(value) or None)).__getitem__
    if not is_number(column):
        return _Cached(_json_text).__getitem__
    return json_decimal if _is_decimal(column) else _json_number


def csv_decimal(value: object) -> str:
    """Format a number with one decimal."""
    return "" if value is None else f"{value:.1f}"


def json_decimal(value: object) -> str:
    """Format a number with all digits and a decimal point, so that it is read as a float."""
    if value is None:
        return "null"
    assert isinstance(value, int | float)
    return repr(float(value)) if math.isfinite(value) else "null"


def json_value(value: object) -> str:
    """Format any value of the database."""
    if isinstance(value, float):
        return json_decimal(value)
    return str(value) if isinstance(value, int) else _json_text(value)


def is_number(column: Column) -> bool:
    """Return whether the values of a column are numbers, identifiers included."""
    return column.kind == "number" or (column.kind == "identifier" and column.integer)


def _is_decimal(column: Column) -> bool:
    return not column.integer and column.name.endswith(_ONE_DECIMAL)


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


def _json_number(value: object) -> str:
    return "null" if value is None else str(value)
