"""Steps at the same time, and rows shared out among threads."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from aggregator.parallel import ahead, both, each
from aggregator.sources.nsys_slices import MIN_SLICE_ROWS, row_conditions


def test_both_gives_both_results_and_the_first_error() -> None:
    assert both(lambda: 1, lambda: "two") == (1, "two")
    with pytest.raises(ZeroDivisionError):
        both(lambda: 1 // 0, lambda: int("none"))
    with pytest.raises(ValueError, match="none"):
        both(lambda: 1, lambda: int("none"))


def test_each_keeps_the_order() -> None:
    assert each(lambda number: number * number, range(50)) == [n * n for n in range(50)]


def test_ahead_gives_every_item_and_passes_errors_on() -> None:
    def items() -> Iterator[int | None]:
        yield from (1, None, 3)
        raise OSError("the disk is full")

    found = ahead(items())
    assert [next(found) for _ in range(3)] == [1, None, 3]
    with pytest.raises(OSError, match="disk"):
        next(found)
    assert list(ahead([])) == []


@pytest.mark.parametrize("last", [0, 5, MIN_SLICE_ROWS - 1, MIN_SLICE_ROWS, 3 * MIN_SLICE_ROWS])
def test_conditions_leave_out_no_row_and_take_none_twice(last: int) -> None:
    rows = [-7, 0, 1, last // 2, last // 2 + 1, last, last + 1]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        connection.executemany("INSERT INTO t VALUES (?)", [(row,) for row in set(rows)])
        found = [
            row
            for condition in row_conditions(last)
            for (row,) in connection.execute(f"SELECT id FROM t WHERE {condition} ORDER BY id")
        ]
    assert found == sorted(set(rows))
