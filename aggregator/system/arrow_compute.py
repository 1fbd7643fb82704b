"""Arrow's functions on columns, without those that write a docstring for each of them.

``pyarrow.compute`` and the methods that use it, such as ``Array.take``, take 50 ms at their first
use: a fiftieth of an import of half a gigabyte.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aggregator.system.arrow_arrays import from_numpy

try:
    from pyarrow._compute import CastOptions, MatchSubstringOptions, call_function
except ImportError:  # another version keeps them elsewhere
    from pyarrow.compute import CastOptions, MatchSubstringOptions, call_function


def as_bytes(texts: pa.Array) -> pa.Array:
    """Texts as byte strings."""
    is_same = pa.types.is_string(texts.type) or pa.types.is_binary(texts.type)
    return texts.view(pa.binary()) if is_same else cast(texts, pa.binary())


def cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column as another type.

    Raises:
        pyarrow.ArrowInvalid: A value does not fit.
    """
    return call_function("cast", [column], CastOptions.safe(kind))


def take(column: pa.Array, rows: npt.NDArray[np.integer[Any]]) -> pa.Array:
    """Some rows of a column."""
    return call_function("take", [column, from_numpy(rows)])


def dictionary_encode(column: pa.Array) -> pa.DictionaryArray:
    """A column as codes into its distinct values."""
    return call_function("dictionary_encode", [column])


def find_substring(column: pa.Array, text: bytes) -> pa.Array:
    """Where each value has a text first; -1: nowhere."""
    return call_function("find_substring", [column], MatchSubstringOptions(text))


def are_digits(texts: pa.Array) -> pa.Array:
    """Whether each text has nothing but digits, and at least one."""
    return call_function("ascii_is_decimal", [texts])
