"""How many bytes a rank puts into a collective.

Kernels of NCCL tell what they do, not to how much. PyTorch's range around the call
(``nccl:all_reduce``, in traces ``record_param_comms``) has the sizes of its tensors; their type is
in the name of a kernel that reduces, or in the trace.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import prod

import numpy as np

from aggregator.columns import distinct
from aggregator.communication import is_communication
from aggregator.flops.cost import MAX_COUNT
from aggregator.profile import Int32, Int64, Integers, Profile, empty_i64
from aggregator.told import read_list

_RANGE = re.compile(r"nccl:|record_param_comms$")
_REDUCED = re.compile(
    r"_(?:AllReduce|ReduceScatter|Reduce)_(?:\w+?_)?(bf16|f16|f32|f64|f8e4m3|f8e5m2|i8|u8|i32|u32"
    r"|i64|u64|half|float|double|__nv_bfloat16|int8_t|uint8_t|int32_t|uint32_t|int64_t|uint64_t)"
    r"(?=[_(]|$)"
)
"""Type of what a kernel reduces; kernels that only copy count in bytes and name no type."""
_BITS = re.compile(r"(64|32|16|8)")
_NAMED = {
    "half": 2,
    "float": 4,
    "double": 8,
    "__nv_bfloat16": 2,
    "f8e4m3": 1,
    "f8e5m2": 1,
    "c10::Half": 2,
    "c10::BFloat16": 2,
    "long": 8,
    "long int": 8,
    "int": 4,
    "short": 2,
    "short int": 2,
    "signed char": 1,
    "unsigned char": 1,
    "char": 1,
    "bool": 1,
    "c10::Float8_e4m3fn": 1,
    "c10::Float8_e5m2": 1,
}
_LONGEST_CLIMB = 8
"""Ranges of collectives do not nest deeper."""
_THREAD_SHIFT = 1 << 52
"""More nanoseconds than any capture has."""


@dataclass
class Messages:
    """Sizes of collectives.

    Attributes:
        kernel: Row of ``Profile.kernels``.
        num_bytes: What its rank put in. Unit: bytes.
    """

    kernel: Int64 = field(default_factory=empty_i64)
    num_bytes: Int64 = field(default_factory=empty_i64)


def find_messages(profile: Profile, calls: Int32) -> Messages:
    """Sizes of the collectives for which the profile tells them.

    Ranges must still have their times. A range that launched several kernels tells of none.

    Args:
        profile: The profile.
        calls: Row of the API call that launched each kernel; -1: none recorded.
    """
    names = [code for code, text in enumerate(profile.range_names) if _RANGE.match(text)]
    if not names:
        return Messages()
    kernels = _communication(profile)
    kernels = kernels[calls[kernels] >= 0]
    ranges = np.flatnonzero(np.isin(profile.ranges.name, names) & (profile.ranges.shapes >= 0))
    of_kernel = _enclosing(profile, ranges, calls[kernels])
    kernels, ranges = kernels[of_kernel >= 0], ranges[of_kernel[of_kernel >= 0]]
    if not len(kernels):
        return Messages()
    _, inverse, counts = np.unique(ranges, return_inverse=True, return_counts=True)
    alone = counts[inverse] == 1
    kernels, ranges = kernels[alone], ranges[alone]
    sizes = _sizes(profile, kernels, profile.ranges.shapes[ranges])
    known = sizes >= 0
    return Messages(kernels[known], sizes[known])


def _communication(profile: Profile) -> Int64:
    """Rows of kernels that move data between GPUs."""
    codes = distinct(profile.kernels.long_name).tolist()
    moving = [code for code in codes if is_communication(profile.strings[code])]
    return np.flatnonzero(np.isin(profile.kernels.long_name, moving))


def _enclosing(profile: Profile, ranges: Int64, calls: Integers) -> Int64:
    """Position in ``ranges`` of the innermost one around each call; -1: none."""
    own, api = profile.ranges, profile.api_calls
    key = own.thread[ranges].astype(np.int64) * _THREAD_SHIFT + own.start_ns[ranges]
    order = np.argsort(key, kind="stable")
    wanted = api.thread[calls].astype(np.int64) * _THREAD_SHIFT + api.start_ns[calls]
    position = np.searchsorted(key[order], wanted, side="right") - 1
    result = np.full(len(calls), -1, dtype=np.int64)
    for _ in range(_LONGEST_CLIMB):
        open_rows = np.flatnonzero((result < 0) & (position >= 0))
        if not len(open_rows):
            break
        at = order[position[open_rows]]
        row, call = ranges[at], calls[open_rows]
        holds = (own.thread[row] == api.thread[call]) & (own.end_ns[row] >= api.end_ns[call])
        result[open_rows[holds]] = at[holds]
        position[open_rows[~holds]] -= 1
    return result


def _sizes(profile: Profile, kernels: Int64, shapes: Int64) -> Int64:
    """Bytes by kernel name and sizes, each distinct pair looked at once; -1: unknown."""
    names = profile.kernels.long_name[kernels].astype(np.int64)
    pairs, inverse = np.unique(np.stack([names, shapes]), axis=1, return_inverse=True)
    found = [_size(profile, name, shape) for name, shape in pairs.T.tolist()]
    result: Int64 = np.array(found, dtype=np.int64)[inverse.ravel()]
    return result


def _size(profile: Profile, name: int, shape: int) -> int:
    reduced = _REDUCED.search(profile.strings[name])
    told = profile.shape_types[shape] if shape < len(profile.shape_types) else ""
    width = _width(reduced[1]) if reduced else _width(told)
    count = _elements(profile.shape_texts[shape])
    return width * count if width and count is not None else -1


def _width(kind: str) -> int:
    """Bytes of an element; 0: unknown."""
    if kind in _NAMED:
        return _NAMED[kind]
    bits = _BITS.search(kind)
    return int(bits[1]) // 8 if bits else 0


def _elements(shapes: str) -> int | None:
    """Elements of the tensors of a call, ``[[2048, 10], []]``; None: no tensor is told."""
    tensors = _tensors(read_list(shapes))
    count = sum(tensors)
    return count if tensors and 0 <= count <= MAX_COUNT else None


def _tensors(sizes: list[object]) -> list[int]:
    """Elements of each tensor; lists of tensors count too, values that are no tensor do not."""
    found: list[int] = []
    for entry in sizes:
        if isinstance(entry, list) and entry:
            if all(isinstance(size, int) for size in entry):
                found.append(prod(entry))
            else:
                found += _tensors(entry)
    return found
