"""Columns of integers: dense codes, narrow types, parts joined without a second copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aggregator.profile import Bool, Int32, Int64

    Integers = NDArray[Any]

MAX_SPAN = 1 << 16
"""Ranges of values up to this are counted in a table, however few the rows are."""
SPAN_PER_ROW = 4
"""Larger ranges are, while the table has at most so many entries per row."""


def dense_codes(values: Integers) -> tuple[Int64, Int32]:
    """Distinct values in order, and which of them each row has; as ``numpy.unique`` gives them.

    Much quicker where the values lie close together or stay the same for many rows, as threads,
    names and other codes do.
    """
    if not len(values):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
    low, high = int(values.min()), int(values.max())
    if high - low < max(MAX_SPAN, SPAN_PER_ROW * len(values)):
        return _codes_by_table(values, low, high)
    heads = run_heads(values)
    if len(heads) * 2 > len(values):
        unique, codes = np.unique(values, return_inverse=True)
        return unique.astype(np.int64), codes.ravel().astype(np.int32)
    unique, codes = np.unique(values[heads], return_inverse=True)
    lengths = np.diff(np.append(heads, len(values)))
    return unique.astype(np.int64), np.repeat(codes.ravel().astype(np.int32), lengths)


def _codes_by_table(values: Integers, low: int, high: int) -> tuple[Int64, Int32]:
    # Differences of 8 or 16 bits would not fit into as many.
    wide = values if values.dtype.itemsize >= 4 else values.astype(np.int32)
    offset = wide - wide.dtype.type(low) if low else values
    present = np.zeros(high - low + 1, dtype=bool)
    present[offset] = True
    code_of = np.cumsum(present, dtype=np.int32)
    code_of -= 1
    return np.flatnonzero(present) + low, code_of[offset]


def run_heads(values: Integers) -> Int64:
    """Rows at which a value differs from the row before; the first row is one."""
    changed: Bool = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return np.flatnonzero(changed)


def ordered(values: Integers) -> Int64:
    """Rows in order of their values, equal ones as they stand; at once where they are in order."""
    if not len(values) or bool((values[1:] >= values[:-1]).all()):
        return np.arange(len(values))
    return np.argsort(values, kind="stable")


def narrow(values: Integers) -> Integers:
    """The same values as int32 where they fit: half the memory."""
    if values.dtype == np.int32 or not len(values):
        return values
    limits = np.iinfo(np.int32)
    if values.min() < limits.min or values.max() > limits.max:
        return values
    return values.astype(np.int32)


def narrowest(values: Integers) -> Any:
    """The same values, none of them negative, in the smallest type that also holds one more."""
    largest = int(values.max(initial=0)) + 1
    for dtype in (np.int8, np.int16, np.int32):
        if largest <= np.iinfo(dtype).max:
            return values.astype(dtype)
    return values


def distinct(values: Integers) -> Int64:
    """Distinct values in order."""
    return dense_codes(values)[0] if len(values) else np.empty(0, dtype=np.int64)


def drained(parts: list[Integers]) -> Integers:
    """Join the parts of a column; the list is empty afterwards, so that no part is kept twice."""
    joined = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    parts.clear()
    return joined
