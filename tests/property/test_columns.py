"""Quick ways over columns give what the plain ones give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
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
from aggregator.system.arrow_arrays import from_numpy, from_values, to_numpy

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
def test_dense_codes_give_the_values_back(values: list[int]) -> None:
    unique, codes = dense_codes(_array(values).astype(np.int8))
    assert unique[codes].tolist() == values


@given(COLUMNS)
def test_order_is_stable(values: list[int]) -> None:
    assert ordered(_array(values)).tolist() == np.argsort(_array(values), kind="stable").tolist()


@given(st.lists(st.tuples(SMALL, st.one_of(SMALL, st.integers(0, 2**33)), LARGE), max_size=40))
def test_rows_are_ordered_by_several_keys(rows: list[tuple[int, int, int]]) -> None:
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


KINDS = ("int8", "int32", "int64", "uint8", "uint64", "float32", "float64", "bool")
INTEGERS = st.integers(-(2**63), 2**63 - 1)
VALUES = st.one_of(
    st.lists(st.none() | INTEGERS),
    st.lists(st.none() | st.floats(allow_nan=False)),
    st.lists(st.none() | st.text()),
    st.lists(st.none() | st.binary()),
)


@given(st.sampled_from(KINDS), st.lists(st.tuples(st.integers(0, 100), st.booleans())))
def test_numbers_become_the_same_arrow_array(kind: str, rows: list[tuple[int, bool]]) -> None:
    values = np.array([value for value, _ in rows], dtype=kind)
    null = np.array([is_null for _, is_null in rows], dtype=bool)
    assert from_numpy(values).equals(pa.array(values))
    assert from_numpy(values, null).equals(pa.array(values, mask=null))
    assert from_numpy(np.ma.array(values, mask=null)).equals(pa.array(values, mask=null))
    assert from_numpy(values[::2]).equals(pa.array(values[::2]))


@given(VALUES)
def test_python_values_become_the_same_arrow_array(values: list[Any]) -> None:
    expected = pa.array(values)
    assert from_values(values).cast(expected.type).equals(expected)


@pytest.mark.parametrize("values", [["a", 1], [b"a", "b"], ["a", b"b"]])
def test_values_of_several_kinds_are_refused(values: list[Any]) -> None:
    with pytest.raises(TypeError):
        from_values(values)


@given(st.sampled_from(KINDS), st.lists(st.none() | st.integers(0, 100)), st.integers(0, 9))
def test_arrow_arrays_become_the_same_numbers(
    kind: str, values: list[int | None], offset: int
) -> None:
    given_values: list[Any] = [bool(v) if kind == "bool" and v is not None else v for v in values]
    column = pa.array(given_values, type=pa.from_numpy_dtype(np.dtype(kind)))[offset:]
    expected = column.to_numpy(zero_copy_only=False)
    np.testing.assert_array_equal(to_numpy(column).astype(expected.dtype), expected)
    assert to_numpy(column).dtype == expected.dtype


def test_texts_become_objects() -> None:
    column = pa.array(["a", None])
    assert to_numpy(column).tolist() == ["a", None]
