"""Columns of integers: dense codes, narrow types, parts joined without a second copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from aggregator.profile import Bool, Int32, Int64, Integers

MAX_SPAN = 1 << 16
"""Ranges of values up to this are counted in a table, however few the rows are."""
SPAN_PER_ROW = 4
"""Larger ranges are, while the table has at most so many entries per row."""


def dense_codes(values: Integers) -> tuple[Int64, Int32]:
    """Distinct values in order, and which of them each row has; as ``numpy.unique`` gives them.

    Much quicker where the values lie close together or stay the same for many rows, as threads,
    names and other codes do. Truth values count as 0 and 1.
    """
    if not len(values):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
    if values.dtype == np.bool_:
        values = values.astype(np.int8)
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


def row_codes(*columns: Integers) -> tuple[Int64, Int32]:
    """First row of each distinct row of some columns, in their order, and which each row is."""
    code = dense_codes(columns[0])[1]
    for column in columns[1:]:
        unique, dense = dense_codes(column)
        code = dense_codes(code.astype(np.int64) * max(len(unique), 1) + dense)[1]
    return first_rows(code), code


def first_rows(codes: Int32) -> Int64:
    """First row of each dense code."""
    first = np.empty(int(codes.max(initial=-1)) + 1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return first


def run_heads(values: Integers) -> Int64:
    """Rows at which a value differs from the row before; the first row is one."""
    changed: Bool = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return np.flatnonzero(changed)


def ordered(*keys: Integers) -> Int64:
    """Rows in the order of some keys, the first one first; equal rows as they stand.

    At once where they are in order, by merging where they are long runs that are in order, and by
    radix where the values span 32 bits or fewer.
    """
    rows = sorting(*keys)
    return np.arange(len(keys[0])) if rows is None else rows


def sorting(*keys: Integers) -> Int64 | None:
    """The same; None: they are in order already, and nothing need be copied."""
    rows: Int64 | None = None
    for key in keys[::-1]:
        by_key = _sorting_by(key if rows is None else key[rows])
        if by_key is not None:
            rows = by_key if rows is None else rows[by_key]
    return rows


_RUN_ROWS = 64
"""Runs of so many rows on average are merged: from a few hundred thousand rows on, sorting by radix
jumps about in more memory than the cache holds, and merging does not."""


def _sorting_by(values: Integers) -> Int64 | None:
    falls = int(np.count_nonzero(values[1:] < values[:-1]))
    if not falls:
        return None
    # A run may also fall: NumPy's merge sort turns it round.
    runs = min(falls, len(values) - falls)
    # NumPy sorts 8 and 16 bits by radix, and wider ones by merging.
    if values.dtype.itemsize <= 2 or runs * _RUN_ROWS <= len(values):
        return np.argsort(values, kind="stable")
    low = int(values.min())
    span = int(values.max()) - low
    if span >= 1 << 32:
        return np.argsort(values, kind="stable")
    offset = (values.astype(np.int64) - low).astype(np.uint32)
    rows = np.argsort(offset.astype(np.uint16), kind="stable")
    if span >= 1 << 16:
        rows = rows[np.argsort((offset[rows] >> 16).astype(np.uint16), kind="stable")]
    return rows


def narrow(values: Integers) -> Integers:
    """The same values as int32 where they fit: half the memory."""
    if values.dtype == np.int32 or not len(values):
        return values
    limits = np.iinfo(np.int32)
    if values.min() < limits.min or values.max() > limits.max:
        return values
    return values.astype(np.int32)


def narrowest(values: Integers) -> Any:
    """The same values in the smallest type that also holds one more."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0)) + 1
    for dtype in (np.int8, np.int16, np.int32):
        limits = np.iinfo(dtype)
        if limits.min <= low and high <= limits.max:
            return values.astype(dtype)
    return values


def distinct(values: Integers) -> Int64:
    """Distinct values in order."""
    return dense_codes(values)[0] if len(values) else np.empty(0, dtype=np.int64)


PART_ROWS = 1 << 18
"""Rows whose temporary columns fit the cache, and memory that the C library uses again."""


def parts_of(first: int, stop: int) -> list[slice]:
    """Rows in parts, for what makes temporary columns."""
    bounds = range(first, stop, PART_ROWS)
    return [slice(low, min(low + PART_ROWS, stop)) for low in bounds]


def drained(parts: list[Integers]) -> Integers:
    """Join the parts of a column; the list is empty afterwards, so that no part is kept twice."""
    joined = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    parts.clear()
    return joined
