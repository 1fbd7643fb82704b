"""Values of a figure's table, and the time unit to show them in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import pandas as pd

    # For its type only: the web server makes figures without loading pandas.
    Table: TypeAlias = "pd.DataFrame | Mapping[str, Sequence[Any]]"
else:
    Table: TypeAlias = Any


def column(table: Table, name: str) -> list[Any]:
    """Values of a column, None if unknown; all None if the table does not have the column."""
    if name not in table:
        return [None] * row_count(table)
    values = table[name]
    plain = values.tolist() if hasattr(values, "tolist") else list(values)
    # An unknown number is NaN in pandas, which does not equal itself.
    return [None if value is None or value != value else value for value in plain]  # noqa: PLR0124


def row_count(table: Table) -> int:
    """Return the number of rows of a table."""
    for name in table:
        return len(column(table, str(name)))
    return 0


def rows_of(table: Table, *names: str) -> list[tuple[Any, ...]]:
    """Return the values of some columns by row."""
    return list(zip(*(column(table, name) for name in names), strict=True))


def only_row(table: Table, *names: str) -> list[Any]:
    """Return the values of a table of one row; all None if it is empty."""
    return list(next(iter(rows_of(table, *names)), [None] * len(names)))


@dataclass(frozen=True)
class TimeUnit:
    """A unit of time."""

    symbol: str  # Symbol to show.
    ns: int  # Length. Unit: ns.

    def of(self, time_ns: float | None) -> float | None:
        """Return a time in this unit, or None if it is unknown."""
        return None if time_ns is None else time_ns / self.ns


_UNITS = (
    TimeUnit("min", 60_000_000_000),
    TimeUnit("s", 1_000_000_000),
    TimeUnit("ms", 1_000_000),
    TimeUnit("µs", 1_000),
    TimeUnit("ns", 1),
)


def choose_unit(largest_ns: float) -> TimeUnit:
    """Return the largest unit that is not longer than the largest value."""
    return next((unit for unit in _UNITS if largest_ns >= unit.ns), _UNITS[-1])
