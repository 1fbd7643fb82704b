"""Bytes that a rank puts into a collective.

The kernel names of NCCL have no sizes. PyTorch's range around the call (``nccl:all_reduce``, in
traces ``record_param_comms``) has the sizes of its tensors; their type is in the name of a reducing
kernel, or in the trace.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from aggregator.costs.formulas.call import MAX_COUNT, elements, sizes_of
from aggregator.kernels.element_types import element_size, reduced_type
from aggregator.kernels.traits import communication_kernels
from aggregator.profile.arrays import Int32, Int64, Integers, distinct, empty_i64
from aggregator.profile.profile import Profile

_RANGE = re.compile(r"nccl:|record_param_comms$")
_MAX_DEPTH = 8
"""Ranges of collectives do not nest deeper."""
_THREAD_SHIFT = 1 << 52
"""More nanoseconds than any capture has."""


@dataclass
class Messages:
    """Sizes of collectives."""

    kernel: Int64 = field(default_factory=empty_i64)  # Row of ``Profile.kernels``.
    num_bytes: Int64 = field(default_factory=empty_i64)  # Input of its rank. Unit: bytes.


def find_messages(profile: Profile, calls: Int32) -> Messages:
    """Sizes of the collectives, as far as they are recorded.

    Ranges must still have their times. The sizes of a range that launched several kernels are not
    used; a trace may have them at the kernels instead.

    Args:
        profile: The profile.
        calls: Row of the API call that launched each kernel; -1: none recorded.
    """
    found = _of_ranges(profile, calls)
    recorded = profile.message_bytes
    rows = np.setdiff1d(np.flatnonzero(recorded >= 0), found.kernel)
    kernel = np.concatenate([found.kernel, rows])
    num_bytes = np.concatenate([found.num_bytes, recorded[rows].astype(np.int64)])
    order = np.argsort(kernel, kind="stable")
    return Messages(kernel[order], num_bytes[order])


def _of_ranges(profile: Profile, calls: Int32) -> Messages:
    names = [code for code, text in enumerate(profile.range_names) if _RANGE.match(text)]
    if not names:
        return Messages()
    codes = distinct(profile.kernels.long_name)
    moving = codes[communication_kernels([profile.strings[code] for code in codes.tolist()])]
    kernels = np.flatnonzero(np.isin(profile.kernels.long_name, moving) & (calls >= 0))
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


def _enclosing(profile: Profile, ranges: Int64, calls: Integers) -> Int64:
    """Position in ``ranges`` of the innermost one around each call; -1: none."""
    own, api = profile.ranges, profile.api_calls
    key = own.thread[ranges].astype(np.int64) * _THREAD_SHIFT + own.start_ns[ranges]
    order = np.argsort(key, kind="stable")
    wanted = api.thread[calls].astype(np.int64) * _THREAD_SHIFT + api.start_ns[calls]
    position = np.searchsorted(key[order], wanted, side="right") - 1
    result = np.full(len(calls), -1, dtype=np.int64)
    for _ in range(_MAX_DEPTH):
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
    """Bytes of each kernel, computed once per distinct (kernel name, sizes); -1: unknown."""
    names = profile.kernels.long_name[kernels].astype(np.int64)
    pairs, inverse = np.unique(np.stack([names, shapes]), axis=1, return_inverse=True)
    found = [_size(profile, name, shape) for name, shape in pairs.T.tolist()]
    return np.array(found, dtype=np.int64)[inverse.ravel()]


def _size(profile: Profile, name: int, shape: int) -> int:
    recorded = profile.shape_types[shape] if shape < len(profile.shape_types) else ""
    width = element_size(reduced_type(profile.strings[name]) or recorded)
    count = _elements(profile.shape_texts[shape])
    return int(width * count) if width and count is not None else -1


def _elements(shapes: str) -> int | None:
    """Elements of the tensors of a call, ``[[2048, 10], []]``; None: no tensor recorded."""
    tensors = [elements(shape) for shape in sizes_of(shapes) if shape]
    return sum(tensors) if tensors and sum(tensors) <= MAX_COUNT else None
