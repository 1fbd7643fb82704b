"""Quick ways over columns give what the plain ones give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.metrics.efficiency import cost_pairs
from aggregator.metrics.statistics import Groups
from aggregator.profile import arrays as columns
from aggregator.profile.arrays import (
    Int64,
    concatenate_and_clear,
    dense_codes,
    distinct,
    narrow,
    narrowest,
    ordered,
    row_codes,
)

SMALL = st.integers(-5, 5)
LARGE = st.sampled_from((-(2**63), -(2**31) - 1, -1, 0, 7, 2**31, 2**40, 2**63 - 2))
COLUMNS = st.lists(st.one_of(SMALL, LARGE), max_size=40)


def _array(values: list[int]) -> Int64:
    return np.array(values, dtype=np.int64)


@given(COLUMNS, st.integers(1, 6))
def test_dense_codes_are_those_of_unique(values: list[int], repeats: int) -> None:
    column = np.repeat(_array(values), repeats)
    unique, codes = dense_codes(column)
    expected, inverse = np.unique(column, return_inverse=True)
    assert unique.tolist() == expected.tolist() == distinct(column).tolist()
    assert codes.tolist() == inverse.tolist()


@given(st.lists(st.integers(-100, 100), max_size=40))
def test_dense_codes_of_narrow_columns(values: list[int]) -> None:
    unique, codes = dense_codes(_array(values).astype(np.int8))
    assert unique[codes].tolist() == values


@given(COLUMNS)
def test_order_is_stable(values: list[int]) -> None:
    assert ordered(_array(values)).tolist() == np.argsort(_array(values), kind="stable").tolist()


@given(st.lists(st.tuples(SMALL, st.one_of(SMALL, st.integers(0, 2**33)), LARGE), max_size=40))
def test_order_of_several_keys(rows: list[tuple[int, int, int]]) -> None:
    keys = [_array([row[position] for row in rows]) for position in range(3)]
    assert ordered(*keys).tolist() == sorted(range(len(rows)), key=lambda row: rows[row])


@given(st.lists(st.tuples(LARGE, st.sampled_from((-1, 0, 1))), min_size=1, max_size=4))
def test_long_runs_are_ordered(runs: list[tuple[int, int]]) -> None:
    steps = np.arange(200) // 2
    values = np.concatenate([(start >> 1) + step * steps for start, step in runs])
    for column in (values, values.astype(np.int32)):
        assert ordered(column).tolist() == np.argsort(column, kind="stable").tolist()


@given(st.lists(st.integers(-3, 3), max_size=40), st.integers(1, 5))
def test_groups_add_up_whatever_the_parts(group: list[int], part_rows: int) -> None:
    column, values = _array(group), np.arange(len(group)) ** 3 - 500
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "PART_ROWS", part_rows)
        found = Groups(column)
        sums = found.statistics("time", values)
        total = found.sum(values)
    members = {one: values[column == one] for one in sorted(set(group))}
    assert found.groups.tolist() == list(members)
    assert found.counts.tolist() == [len(one) for one in members.values()]
    assert total.tolist() == sums["time_sum"].tolist() == [one.sum() for one in members.values()]
    assert sums["time_min"].tolist() == [one.min() for one in members.values()]
    assert sums["time_max"].tolist() == [one.max() for one in members.values()]


@given(st.lists(st.tuples(SMALL, LARGE), min_size=1, max_size=40))
def test_row_codes_are_ranks(rows: list[tuple[int, int]]) -> None:
    first, codes = row_codes(*(_array([row[position] for row in rows]) for position in range(2)))
    distinct_rows = sorted(set(rows))
    assert codes.tolist() == [distinct_rows.index(row) for row in rows]
    assert first.tolist() == [rows.index(row) for row in distinct_rows]


@given(COLUMNS)
def test_narrow_columns_hold_the_same(values: list[int]) -> None:
    assert narrow(_array(values)).tolist() == values


@pytest.mark.parametrize("largest", [0, 126, 127, 32767, 2**31 - 2, 2**40])
def test_narrowest_leaves_room_for_one_more(largest: int) -> None:
    column = narrowest(_array([0, largest]))
    assert (column + 1).tolist() == [1, largest + 1]


def test_drained_parts_are_released() -> None:
    parts: list[Any] = [_array([1, 2]), _array([3]).astype(np.int32)]
    assert concatenate_and_clear(parts).tolist() == [1, 2, 3]
    assert parts == []


@given(st.lists(st.booleans(), max_size=20))
def test_truth_values_are_ordered_and_counted(values: list[bool]) -> None:
    column = np.array(values, dtype=bool)
    assert ordered(column).tolist() == sorted(range(len(values)), key=lambda row: values[row])
    unique, codes = dense_codes(column)
    assert unique[codes].tolist() == [int(value) for value in values]


_INSTANCES = st.tuples(
    st.integers(0, 4), st.integers(0, 3), st.integers(-1, 3), st.integers(0, 2**40)
)


@given(st.lists(_INSTANCES, max_size=40))
def test_instances_are_joined_by_group_flags_and_cost(
    instances: list[tuple[int, int, int, int]],
) -> None:
    expected: dict[tuple[int, int, int], tuple[int, int]] = {}
    for *key, time_ns in instances:
        if key[2] >= 0:
            group, flags, cost = key
            calls, total_ns = expected.get((group, flags, cost), (0, 0))
            expected[group, flags, cost] = calls + 1, total_ns + time_ns

    found = cost_pairs(*(_array([one[place] for one in instances]) for place in range(4)))

    keys = zip(found.group.tolist(), found.flags.tolist(), found.cost.tolist(), strict=True)
    values = zip(found.calls.tolist(), found.gpu_time_ns.tolist(), strict=True)
    assert list(zip(keys, values, strict=True)) == sorted(expected.items())
