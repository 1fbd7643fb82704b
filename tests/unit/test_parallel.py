"""Steps at the same time, and rows shared out among threads."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from aggregator.sources.nsys.reader import MIN_SLICE_ROWS, row_conditions
from aggregator.system.resources import map_threads, prefetch, run_both


def test_run_both_returns_both_results_or_raises_the_first_error() -> None:
    assert run_both(lambda: 1, lambda: "two") == (1, "two")
    with pytest.raises(ZeroDivisionError):
        run_both(lambda: 1 // 0, lambda: int("none"))
    with pytest.raises(ValueError, match="none"):
        run_both(lambda: 1, lambda: int("none"))


def test_map_threads_keeps_the_order() -> None:
    assert map_threads(lambda number: number * number, range(50)) == [n * n for n in range(50)]


def test_prefetch_yields_every_item_and_passes_errors_on() -> None:
    def items() -> Iterator[int | None]:
        yield from (1, None, 3)
        raise OSError("the disk is full")

    found = prefetch(items())
    assert [next(found) for _ in range(3)] == [1, None, 3]
    with pytest.raises(OSError, match="disk"):
        next(found)
    assert list(prefetch([])) == []


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
