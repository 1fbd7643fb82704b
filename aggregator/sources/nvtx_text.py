"""Takes apart what PyTorch writes into a range's text: name, sequence number and sizes.

``emit_nvtx`` appends ``, seq = N, op_id = N, sizes = [...], input_op_ids = [...]`` to an op's name.
With it every text of a run is different (300 MB for 2.5 million ranges), so each batch is taken
apart as it is read, and only distinct names and sizes are kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggregator.profile import Bool, Int64

_SEQ, _OP_ID = b"seq = ", b"op_id = "
_SIZES, _INPUTS = b", sizes = ", b", input_op_ids = "
MAX_DIGITS = 19
"""Digits of the largest int64."""
MAX_SEQ = 1 << 40
"""No run counts so far; what is larger is no counter."""


class RangeTexts(NamedTuple):
    """Parts of a batch of range texts.

    Attributes:
        name: Dictionary-encoded names.
        seq: Autograd sequence numbers; -1: none.
        sizes: Dictionary-encoded input sizes as written; empty: none.
    """

    name: pa.DictionaryArray
    seq: Int64
    sizes: pa.DictionaryArray


def take_apart(texts: pa.Array) -> RangeTexts:
    """Split a batch of texts; a text without PyTorch's attributes is a name as a whole.

    Args:
        texts: Binary or string array without nulls.
    """
    raw = texts.cast(pa.binary())
    head, rest = _split_once(raw, b", ")
    has_seq = _starts_with(rest, _SEQ)
    attributed = has_seq | _starts_with(rest, _OP_ID)
    name = pc.if_else(pa.array(attributed), head, raw)
    _, behind_sizes = _split_once(rest, _SIZES)
    sizes, _ = _split_once(behind_sizes, _INPUTS)
    usable = pc.if_else(pa.array(attributed), pc.fill_null(sizes, b""), b"")
    return RangeTexts(
        name=name.dictionary_encode(),
        seq=_sequence_numbers(rest, has_seq),
        sizes=usable.dictionary_encode(),
    )


def _split_once(texts: pa.Array, separator: bytes) -> tuple[pa.Array, pa.Array]:
    """What stands before the first separator, and behind it (null where there is none)."""
    parts = pc.split_pattern(texts, pattern=separator, max_splits=1)
    offsets = parts.offsets.to_numpy()
    count = np.diff(offsets)
    values = parts.values
    first = values.take(pa.array(offsets[:-1], mask=count == 0))
    second = values.take(pa.array(offsets[:-1] + 1, mask=count < 2))
    return first, second


def _starts_with(texts: pa.Array, prefix: bytes) -> Bool:
    found = pc.starts_with(texts, pattern=prefix)
    result: Bool = pc.coalesce(found, pa.scalar(value=False)).to_numpy(zero_copy_only=False)
    return result


def _sequence_numbers(rest: pa.Array, has_seq: Bool) -> Int64:
    result = np.full(len(rest), -1, dtype=np.int64)
    rows = np.flatnonzero(has_seq)
    if not len(rows):
        return result
    start = len(_SEQ)
    digits = pc.binary_slice(rest.take(pa.array(rows)), start, start + MAX_DIGITS)
    digits, _ = _split_once(digits, b",")
    texts = digits.cast(pa.string(), safe=False)
    try:
        result[rows] = texts.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # a user's own range that only looks like PyTorch's
        result[rows] = [_counter(text) for text in texts.to_pylist()]
    result[(result < 0) | (result > MAX_SEQ)] = -1
    return result


def _counter(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else -1
    return number if number <= MAX_SEQ else -1
