"""A figure's input, whichever of its two kinds it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import pandas as pd

    # Only the type: the web server makes figures without loading pandas.
    Table: TypeAlias = "pd.DataFrame | Mapping[str, Sequence[Any]]"
else:
    Table: TypeAlias = Any


def column(table: Table, name: str) -> list[Any]:
    """Values of a column, unknown ones as None; all None if the table lacks it."""
    if name not in table:
        return [None] * row_count(table)
    values = table[name]
    plain = values.tolist() if hasattr(values, "tolist") else list(values)
    # pandas writes an unknown number as NaN, the one value that differs from itself.
    return [None if value is None or value != value else value for value in plain]  # noqa: PLR0124


def row_count(table: Table) -> int:
    """Rows of a table."""
    for name in table:
        return len(column(table, str(name)))
    return 0


def only_row(table: Table, *names: str) -> list[Any]:
    """Values of a table of one row; all None if it is empty."""
    values = [column(table, name) for name in names]
    return [found[0] if found else None for found in values]
