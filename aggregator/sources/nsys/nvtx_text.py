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

from aggregator.profile.arrays import Bool, Bytes, Int32, Int64
from aggregator.sources.arrow_columns import as_bytes, integers
from aggregator.system.arrow_arrays import from_numpy, from_values, to_numpy
from aggregator.system.untrusted_json import read_count

_SEQ, _OP_ID = b"seq = ", b"op_id = "
_SIZES, _INPUTS = b", sizes = ", b", input_op_ids = "
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
    raw = as_bytes(texts)
    return _split_usual(raw) or _split_any(raw)


def _split_any(raw: pa.Array) -> RangeTexts:
    empty = from_values([b""]).cast(pa.binary())[0]
    head, rest = _split_once(raw, b", ")
    has_seq = _starts_with(rest, _SEQ)
    attributed = has_seq | _starts_with(rest, _OP_ID)
    mask = from_numpy(attributed)
    name = pc.if_else(mask, head, raw)
    _, after_sizes = _split_once(rest, _SIZES)
    sizes, _ = _split_once(after_sizes, _INPUTS)
    usable = pc.if_else(mask, pc.coalesce(sizes, empty), empty)
    rows, start = np.flatnonzero(has_seq), len(_SEQ)
    digits = pc.binary_slice(rest.take(from_numpy(rows)), start, start + MAX_DIGITS)
    digits, _ = _split_once(digits, b",")
    return RangeTexts(
        name=name.dictionary_encode(),
        seq=_sequence_numbers(rows, digits, len(raw)),
        sizes=usable.dictionary_encode(),
    )


def _split_usual(raw: pa.Array) -> RangeTexts | None:
    """As ``_split_any``, in a third of its time; None: a text is not as PyTorch writes it."""
    buffer, offsets = raw.buffers()[2], _offsets(raw)
    bounds = _usual_bounds(np.frombuffer(buffer or b"", np.uint8)[: offsets[-1]], offsets)
    if bounds is None:
        return None
    name_end, seq_start, seq_end = bounds[:, 1], bounds[:, 2], bounds[:, 3]
    ends = np.append(bounds.ravel(), offsets[-1:])
    pieces = pa.Array.from_buffers(pa.binary(), bounds.size, [None, pa.py_buffer(ends), buffer])
    name = pieces.take(from_numpy(np.arange(0, bounds.size, _BOUNDS))).dictionary_encode()
    # Such a name ends at its first comma.
    has_comma = to_numpy(pc.find_substring(name.dictionary, b", ")) >= 0
    if (has_comma[to_numpy(name.indices)] & (name_end < offsets[1:])).any():
        return None
    rows = np.flatnonzero(seq_start > name_end)
    digits = pieces.take(from_numpy(_BOUNDS * rows + 2)).view(pa.string())
    if (seq_end - seq_start > MAX_DIGITS).any() or not _are_digits(digits):
        return None
    return RangeTexts(
        name=name,
        seq=_sequence_numbers(rows, digits, len(raw)),
        sizes=pieces.take(from_numpy(np.arange(4, bounds.size, _BOUNDS))).dictionary_encode(),
    )


_BOUNDS = 6
"""Bounds per text: start and end of its name, of its sequence number and of its sizes."""


def _usual_bounds(data: Bytes, offsets: Int32) -> Int32 | None:
    """Bounds of the parts of each text, as rows of ``_BOUNDS``; None: a text is not as usual.

    The equals signs of a usual text are those of its attributes, of which PyTorch writes the op id,
    or the sequence number before it, or the sizes and inputs behind it, or all of them.
    """
    signs = _equals_signs(data)
    first = np.searchsorted(signs, offsets)
    count = np.diff(first)
    if not len(signs) or count.max(initial=0) > 4 or len(data) < _Words.WIDTH:
        return None
    words, end, has_seq, has_sizes = _Words(data), offsets[1:], count % 2 == 0, count > 2
    seq, op_id, sizes, inputs = (
        signs.take(first[:-1] + number, mode="clip")
        for number in (0, has_seq, 1 + has_seq, 2 + has_seq)
    )
    seq_start, op_start = seq - len(b", seq "), op_id - len(b", op_id ")
    name_end = np.where(has_seq, seq_start, op_start)
    is_name = count == 0
    usual = words.stand_before(op_id, b", op_id ") & (name_end >= offsets[:-1])
    usual &= ~has_seq | words.stand_before(seq, b", seq ")
    usual &= ~has_sizes | (
        words.stand_before(sizes, b", sizes ") & words.stand_before(inputs, b", input_op_ids ")
    )
    usual &= np.where(has_sizes, inputs, op_id) + 2 <= end
    if not (usual | is_name).all():
        return None
    name_end = np.where(is_name, end, name_end)
    bounds = np.empty((len(count), _BOUNDS), dtype=np.int32)
    bounds[:, 0], bounds[:, 1] = offsets[:-1], name_end
    bounds[:, 2] = np.where(has_seq & ~is_name, seq + 2, name_end)
    bounds[:, 3] = np.where(has_seq & ~is_name, op_start, name_end)
    bounds[:, 4] = np.where(has_sizes, sizes + 2, end)
    bounds[:, 5] = np.where(has_sizes, inputs - len(b", input_op_ids "), end)
    return bounds


class _Words:
    """Eight bytes from each position of some text, compared as one number."""

    WIDTH = 8

    def __init__(self, data: Bytes) -> None:
        self._data = data
        self._words = np.ndarray(len(data) - self.WIDTH + 1, "<u8", data, strides=(1,))

    def stand_before(self, sign: Int64, text: bytes) -> Bool:
        """Return whether a text stands before each equals sign, and a space after it."""
        found: Bool = self._data[np.minimum(sign + 1, len(self._data) - 1)] == ord(" ")
        for low in {0, max(len(text) - self.WIDTH, 0)}:
            word = text[low : low + self.WIDTH]
            start = sign - len(text) + low + len(word) - self.WIDTH
            unused = np.uint64(8 * (self.WIDTH - len(word)))
            wanted = int.from_bytes(word, "little")
            found &= self._words[np.maximum(start, 0)] >> unused == wanted
        return found


_CHUNK = 1 << 18
"""Bytes that are searched at once: their comparison stays in the cache."""


def _equals_signs(data: Bytes) -> Int64:
    chunks = range(0, len(data), _CHUNK)
    found = [np.flatnonzero(data[low : low + _CHUNK] == ord("=")) + low for low in chunks]
    return np.concatenate([np.empty(0, dtype=np.int64), *found])


def _offsets(texts: pa.Array) -> Int32:
    end = texts.offset + len(texts) + 1
    return np.frombuffer(texts.buffers()[1], np.int32, count=end)[texts.offset :]


def _split_once(texts: pa.Array, separator: bytes) -> tuple[pa.Array, pa.Array]:
    """Return the texts before and after the first separator (null without a separator)."""
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


def _sequence_numbers(rows: Int64, digits: pa.Array, num_rows: int) -> Int64:
    """Return the numbers of some rows, -1 in all others."""
    result = np.full(num_rows, -1, dtype=np.int64)
    if not len(rows):
        return result
    texts = digits.view(pa.string())
    try:
        # Arrow also reads "0x10" and "-0": whatever else is in the batch, those are no numbers.
        result[rows] = integers(texts) if _are_digits(texts) else _counters(texts)
    except pa.ArrowInvalid:  # beyond int64
        result[rows] = _counters(texts)
    result[(result < 0) | (result > MAX_SEQ)] = -1
    return result


def _are_digits(texts: pa.Array) -> bool:
    return bool(to_numpy(pc.ascii_is_decimal(texts)).all())


def _counters(texts: pa.Array) -> list[int]:
    """Return the numbers of the ranges of a user, whose texts may only resemble PyTorch's."""
    numbers = [read_count(text) for text in texts.to_pylist()]
    return [-1 if number is None or number > MAX_SEQ else number for number in numbers]
