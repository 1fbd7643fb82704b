"""An order of a trace's events that depends on nothing but what they hold.

Rows are sorted by all their columns, and distinct values are numbered in the order of the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from aggregator.profile.arrays import Codes, first_rows, total_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aggregator.profile.arrays import Integers
    from aggregator.sources.kineto.events import Columns, TraceEvents

_CODED: Final = {
    "names": (("ranges", "name"), ("python", "name")),
    "work_names": (
        *(("api", "name"), ("api", "kernel")),
        *(("kernels", "name"), ("copies", "name"), ("sets", "name")),
    ),
    "shapes": (("ranges", "shapes"),),
    "stacks": (("ranges", "stack"),),
    "annotations": (("kernels", "annotation"), ("copies", "annotation"), ("sets", "annotation")),
    "lanes": (("ranges", "lane"), ("python", "lane"), ("api", "lane")),
}
"""Tables and columns of the codes of each numbering."""


def sort_events(events: TraceEvents) -> None:
    """Sort the rows by time, a range before those inside it, and number values by first use.

    Of ranges with the same times, PyTorch numbers the outer one first: the column ``index``, which
    is removed.
    """
    ranks: dict[tuple[str, str], Integers] = {}
    for numbering, columns in _CODED.items():
        rank = _ranks(getattr(events, numbering).values())
        ranks |= dict.fromkeys(columns, rank)
    for kind, table in events.tables.items():
        order = total_order(*_keys(kind, table, ranks))
        if order is not None:
            table.update({name: column[order] for name, column in table.items()})
        table.pop("index", None)
    for numbering, columns in _CODED.items():
        _number_by_use(events, numbering, columns)


def _ranks(values: tuple[Any, ...]) -> Integers:
    """Place of each value in the order of all; ids of processes and threads may be texts."""
    by_value = sorted(range(len(values)), key=lambda code: _sortable(values[code]))
    return np.argsort(by_value)


def _sortable(value: Any) -> Any:
    return value if isinstance(value, str) else [(type(item).__name__, item) for item in value]


def _keys(kind: str, table: Columns, ranks: dict[tuple[str, str], Integers]) -> Iterator[Integers]:
    yield table["start"]
    yield -table["end"]
    if "index" in table:
        yield table["index"]
    for name, column in table.items():
        rank = ranks.get((kind, name))
        yield from np.atleast_2d(column.T if rank is None else rank[column])


def _number_by_use(
    events: TraceEvents, numbering: str, columns: tuple[tuple[str, str], ...]
) -> None:
    used = np.concatenate([events.tables[kind][column] for kind, column in columns])
    by_use = np.argsort(first_rows(used))
    code = np.argsort(by_use).astype(np.int32)
    values, numbered = getattr(events, numbering).values(), Codes[Any]()
    numbered.codes(values[old] for old in by_use.tolist())
    setattr(events, numbering, numbered)
    for kind, column in columns:
        events.tables[kind][column] = code[events.tables[kind][column]]
