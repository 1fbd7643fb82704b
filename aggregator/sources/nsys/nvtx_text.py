"""Splits the text that PyTorch writes for a range into name, sequence number and sizes.

``emit_nvtx`` appends ``, seq = N, op_id = N, sizes = [...], input_op_ids = [...]`` to an op's name.
So every text of a run is different (300 MB for 2.5 million ranges); each batch is split as it is
read, and only distinct names and sizes are kept.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggregator.profile.arrays import Bool, Int64
from aggregator.sources.arrow_columns import integers
from aggregator.system.arrow_arrays import from_numpy, from_values, to_numpy
from aggregator.system.untrusted_json import read_count

_SEQ, _OP_ID = b"seq = ", b"op_id = "
_SIZES, _INPUTS = b", sizes = ", b", input_op_ids = "
_EMPTY: Final = from_values([b""]).cast(pa.binary())[0]
_FALSE: Final = from_numpy(np.array([False]))[0]
MAX_DIGITS = 19
"""Digits of the largest int64."""
MAX_SEQ = 1 << 40
"""No run counts that far: a larger number is not a sequence number."""


class RangeTexts(NamedTuple):
    """Parts of a batch of range texts."""

    name: pa.DictionaryArray  # Dictionary-encoded names.
    seq: Int64  # Autograd sequence numbers; -1: none.
    sizes: pa.DictionaryArray  # Dictionary-encoded input sizes as written; empty: none.


def split_texts(texts: pa.Array) -> RangeTexts:
    """Split a batch of texts; a text without PyTorch's attributes is a name only.

    Args:
        texts: Binary or string array without nulls.
    """
    raw = texts.cast(pa.binary())
    head, rest = _split_once(raw, b", ")
    has_seq = _starts_with(rest, _SEQ)
    attributed = has_seq | _starts_with(rest, _OP_ID)
    mask = from_numpy(attributed)
    name = pc.if_else(mask, head, raw)
    _, after_sizes = _split_once(rest, _SIZES)
    sizes, _ = _split_once(after_sizes, _INPUTS)
    usable = pc.if_else(mask, pc.coalesce(sizes, _EMPTY), _EMPTY)
    return RangeTexts(
        name=name.dictionary_encode(),
        seq=_sequence_numbers(rest, has_seq),
        sizes=usable.dictionary_encode(),
    )


def _split_once(texts: pa.Array, separator: bytes) -> tuple[pa.Array, pa.Array]:
    """Texts before and after the first separator (null without a separator)."""
    parts = pc.split_pattern(texts, pattern=separator, max_splits=1)
    offsets = to_numpy(parts.offsets)
    count = np.diff(offsets)
    values = parts.values
    first = values.take(from_numpy(offsets[:-1], count == 0))
    second = values.take(from_numpy(offsets[:-1] + 1, count < 2))
    return first, second


def _starts_with(texts: pa.Array, prefix: bytes) -> Bool:
    found = pc.starts_with(texts, pattern=prefix)
    result: Bool = to_numpy(pc.coalesce(found, _FALSE))
    return result


def _sequence_numbers(rest: pa.Array, has_seq: Bool) -> Int64:
    result = np.full(len(rest), -1, dtype=np.int64)
    rows = np.flatnonzero(has_seq)
    if not len(rows):
        return result
    start = len(_SEQ)
    digits = pc.binary_slice(rest.take(from_numpy(rows)), start, start + MAX_DIGITS)
    digits, _ = _split_once(digits, b",")
    texts = digits.cast(pa.string(), safe=False)
    try:
        result[rows] = integers(texts)
    except pa.ArrowInvalid:  # a user's own range of a similar text
        result[rows] = [_counter(text) for text in texts.to_pylist()]
    result[(result < 0) | (result > MAX_SEQ)] = -1
    return result


def _counter(text: str) -> int:
    number = read_count(text)
    return -1 if number is None or number > MAX_SEQ else number
