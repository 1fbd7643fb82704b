"""Our conversions between NumPy and Arrow give what Arrow's own give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.system.arrow_arrays import from_numpy, from_values, to_numpy

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
