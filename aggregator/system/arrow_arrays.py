"""NumPy arrays and Python values as Arrow arrays, and back.

Arrow's own conversions (``to_numpy``, ``pa.array``, ``pa.scalar``) import pandas where it is
installed, which takes a fifth of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def from_numpy(values: npt.NDArray[Any], null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return an Arrow array over the memory of a NumPy array of numbers or bools.

    Masked values become NULL, as do the rows in ``null``.
    """
    if isinstance(values, np.ma.MaskedArray):
        values, null = values.data, np.ma.getmaskarray(values)
    if values.dtype == np.bool_:
        kind, data = pa.bool_(), np.packbits(values, bitorder="little")
    else:
        kind, data = pa.from_numpy_dtype(values.dtype), np.ascontiguousarray(values)
    return pa.Array.from_buffers(kind, len(values), [_validity(null), pa.py_buffer(data)])


def from_values(values: Sequence[str | float | bytes | None]) -> pa.Array:
    """Return an Arrow array of texts, of byte strings or of numbers; None becomes NULL.

    Raises:
        TypeError: The values are of several kinds.
    """
    null = np.array([value is None for value in values], dtype=np.bool_)
    kinds = {_kind(cls) for cls in set(map(type, values)) - {type(None)}}
    if len(kinds) > 1:
        raise TypeError(f"{len(kinds)} kinds of values in one column")
    if not kinds:
        return pa.nulls(len(values))
    if kinds == {float}:
        return from_numpy(np.array([0 if value is None else value for value in values]), null)
    kind = pa.large_string() if kinds == {str} else pa.large_binary()
    parts = [
        value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else b""
        for value in values
    ]
    ends = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    data = [_validity(null), pa.py_buffer(ends), pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(kind, len(values), data)


def to_numpy(column: pa.Array) -> npt.NDArray[Any]:
    """Return the values of an Arrow array of numbers; with NULL among them, as fractions with NaN.

    Other kinds of arrays become arrays of Python objects.
    """
    kind = column.type
    if pa.types.is_boolean(kind) and not column.null_count:
        return _bits(column, 1)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return np.array(column.to_pylist(), dtype=object)
    letter = "f" if pa.types.is_floating(kind) else "i" if pa.types.is_signed_integer(kind) else "u"
    dtype = np.dtype(f"{letter}{kind.bit_width // 8}")
    if not len(column):
        return np.empty(0, dtype)
    end = column.offset + len(column)
    values = np.frombuffer(column.buffers()[1], dtype, count=end)[column.offset :]
    if column.null_count:
        fractions = values if letter == "f" else values.astype(np.float64)
        values = np.where(_bits(column, 0), fractions, fractions.dtype.type(np.nan))
    return values


def _bits(column: pa.Array, buffer: int) -> npt.NDArray[np.bool_]:
    if not len(column):
        return np.empty(0, dtype=np.bool_)
    packed = np.frombuffer(column.buffers()[buffer], dtype=np.uint8)
    end = column.offset + len(column)
    bits = np.unpackbits(packed, count=end, bitorder="little")
    return bits[column.offset :].astype(np.bool_)


def _validity(null: npt.NDArray[np.bool_] | None) -> pa.Buffer | None:
    if null is None or not null.any():
        return None
    return pa.py_buffer(np.packbits(~null, bitorder="little"))


def _kind(of: type) -> type:
    """Return how a type is stored: as texts, as byte strings, and all else as numbers."""
    return next((kind for kind in (str, bytes) if issubclass(of, kind)), float)
