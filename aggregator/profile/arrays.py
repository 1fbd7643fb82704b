"""Columns of integers: dense codes, narrow types, parts joined without a second copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Int64: TypeAlias = npt.NDArray[np.int64]
Float64: TypeAlias = npt.NDArray[np.float64]
Int32: TypeAlias = npt.NDArray[np.int32]
Bool: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Integers: TypeAlias = npt.NDArray[Any]
"""Whole numbers of any width."""
Value = TypeVar("Value")

NO_ROW: Final = -1
"""Stands for no row, position or code where a column refers to another table."""
MAX_SPAN = 1 << 16
"""Ranges of values up to this are counted in a table, however few the rows are."""
SPAN_PER_ROW = 4
"""Larger ranges are, while the table has at most so many entries per row."""


def empty_i64() -> Int64:
    """Return an int64 column without rows."""
    return np.empty(0, dtype=np.int64)


def empty_i32() -> Int32:
    """Return an int32 column without rows."""
    return np.empty(0, dtype=np.int32)


def dense_codes(values: Integers) -> tuple[Int64, Int32]:
    """Distinct values in order, and which of them each row has; as ``numpy.unique`` gives them.

    Much faster than that if values are close together or stay the same for many rows, as threads,
    names and other codes do. Booleans count as 0 and 1.
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
    """Return the first row of each dense code."""
    first = np.empty(int(codes.max(initial=-1)) + 1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return first


def rows_of(ids: Integers, wanted: Integers) -> Int32:
    """Row of each wanted id in a column of ids, the first if several rows have it; -1: no row."""
    if not len(ids):
        return np.full(len(wanted), -1, dtype=np.int32)
    order = ordered(ids)
    row = order[np.minimum(np.searchsorted(ids[order], wanted), len(ids) - 1)]
    return np.where(ids[row] == wanted, row, -1).astype(np.int32)


def run_heads(values: Integers) -> Int64:
    """Return the rows at which a value differs from the row before; the first row is one."""
    changed: Bool = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return np.flatnonzero(changed)


def row_shift(reference_ns: Int64, times_ns: Int64) -> int:
    """Return the row of a series at which another series of the same events begins.

    It is negative if the other series begins earlier. Events of both are matched by time, and the
    median counts: single events may be nearer to a neighbor of their own.

    Args:
        reference_ns: Times of the first series, ascending, at least one. Unit: ns.
        times_ns: Times of the other, at least one. Unit: ns.
    """
    between_ns = (reference_ns[1:] + reference_ns[:-1]) // 2
    nearest = np.searchsorted(between_ns, times_ns)
    return round(float(np.median(nearest - np.arange(len(times_ns)))))


def ordered(*keys: Integers) -> Int64:
    """Return the stable order of rows by some keys, most significant first.

    Keys in order already cost one pass; long ordered runs are merged, and values that span 32 bits
    or fewer are sorted by radix.
    """
    rows = sorting(*keys)
    return np.arange(len(keys[0])) if rows is None else rows


def sorting(*keys: Integers) -> Int64 | None:
    """Order rows as ``ordered`` does, or return None if they are in order already."""
    rows: Int64 | None = None
    for key in keys[::-1]:
        by_key = _sorting_by(key if rows is None else key[rows])
        if by_key is not None:
            rows = by_key if rows is None else rows[by_key]
    return rows


def total_order(*keys: Integers) -> Int64 | None:
    """Order rows as ``sorting`` does, quickly where the first key rarely repeats."""
    first = keys[0]
    if (first[1:] > first[:-1]).all():
        return None
    order = sorting(first)
    rows = np.arange(len(first)) if order is None else order
    tied = np.flatnonzero(first[rows[1:]] == first[rows[:-1]])
    places = np.union1d(tied, tied + 1)
    among = np.lexsort([key[rows[places]] for key in keys[::-1]])
    if order is None and np.array_equal(among, np.arange(len(places))):
        return None
    rows[places] = rows[places[among]]
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
    """Return the same values as int32 if they fit: half the memory."""
    if values.dtype == np.int32 or not len(values):
        return values
    limits = np.iinfo(np.int32)
    if values.min() < limits.min or values.max() > limits.max:
        return values
    return values.astype(np.int32)


def narrowest(values: Integers) -> Any:
    """Return the same values in the smallest type that also holds one more."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0)) + 1
    for dtype in (np.int8, np.int16, np.int32):
        limits = np.iinfo(dtype)
        if limits.min <= low and high <= limits.max:
            return values.astype(dtype)
    return values


def distinct(values: Integers) -> Int64:
    """Return the distinct values in order."""
    return dense_codes(values)[0] if len(values) else np.empty(0, dtype=np.int64)


PART_ROWS = 1 << 18
"""Rows whose temporary columns fit the cache, and memory that the C library uses again."""


def before_known(group: Integers, known: Bool, start_ns: Int64) -> Bool:
    """Return whether each row is not known and starts before the first known one of its group."""
    result = np.zeros(len(group), dtype=bool)
    for value in np.unique(group[known]).tolist():
        own = group == value
        result |= own & ~known & (start_ns < start_ns[own & known].min())
    return result


def parts_of(first: int, stop: int, size: int | None = None) -> list[slice]:
    """Return the rows in parts (of ``PART_ROWS`` unless said), for what makes temporary columns."""
    size = size or PART_ROWS
    return [slice(low, min(low + size, stop)) for low in range(first, stop, size)]


def concatenate_and_clear(parts: list[Integers]) -> Integers:
    """Join the parts of a column; the list is empty afterwards, so that no part is kept twice."""
    joined = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    parts.clear()
    return joined


class Codes(Generic[Value]):
    """Numbers distinct values in order of first use."""

    def __init__(self) -> None:
        self._code_of: dict[Value, int] = {}

    def __len__(self) -> int:
        return len(self._code_of)

    def code(self, value: Value) -> int:
        """Return the code of a value, new or known."""
        return self._code_of.setdefault(value, len(self._code_of))

    def codes(self, values: Iterable[Value]) -> Int32:
        """Return the code of each of some values, new or known."""
        code_of = self._code_of
        found = [code_of.setdefault(value, len(code_of)) for value in values]
        return np.array(found, dtype=np.int32)

    def merge_into(self, target: Codes[Value]) -> Int32:
        """Add the values to another numbering; returns the code there of each value of this one."""
        return target.codes(self._code_of)

    def values(self) -> tuple[Value, ...]:
        """Return all values in the order of their codes."""
        return tuple(self._code_of)


class NameCodes(Codes[str]):
    """Numbers the names in use of a source's table of strings, which are known by id."""

    def __init__(self, strings: Mapping[int, str]) -> None:
        super().__init__()
        self._strings = strings

    def codes_of_ids(self, ids: Integers) -> Int32:
        """Return the codes of ids; an id without a string becomes ``unknown name ID``."""
        unique, code = dense_codes(ids)
        names = [self._strings.get(i, f"unknown name {i}") for i in unique.tolist()]
        return self.codes(names)[code]
