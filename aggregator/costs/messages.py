"""Bytes that a rank puts into a collective.

The kernel names of NCCL have no sizes. PyTorch's range around the call (``nccl:all_reduce``, in
traces ``record_param_comms``) has the sizes of its tensors; their type is in the name of a reducing
kernel, or in the trace. NCCL's own ranges have the size of the message as payload, which exports of
Nsight Systems 2026 hold (those of 2025.3 hold only its schema).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aggregator.costs.formulas.call import MAX_COUNT, elements, sizes_of
from aggregator.kernels.element_types import element_size, reduced_type
from aggregator.kernels.traits import communication_kernels
from aggregator.profile.arrays import NO_ROW, Int32, Int64, Integers, distinct, empty_i64
from aggregator.profile.profile import Profile, Ranges
from aggregator.system.untrusted_json import read_object

_RANGE = re.compile(r"nccl:|record_param_comms$")
_NCCL, _SIZE, _RANKS = "nccl", "Message size [bytes]", "No. of ranks"
_COMMUNICATOR = re.compile(r'"NCCL communicator ID":\s*(\d+)')
"""It has 64 bits without a sign, more than numbers of a profile."""
_INPUT = frozenset({"AllReduce", "AllGather", "Broadcast", "Reduce"})
"""Collectives whose payload is what a rank puts in; of a reduce-scatter it is what it gets."""
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
        calls: Row of the API call that launched each kernel, or ``NO_ROW``.
    """
    found = _of_ranges(profile, calls)
    recorded = profile.message_bytes
    rows = np.flatnonzero(recorded >= 0)
    for more in (Messages(rows, recorded[rows].astype(np.int64)), _of_payloads(profile, calls)):
        new = ~np.isin(more.kernel, found.kernel)
        kernel = np.concatenate([found.kernel, more.kernel[new]])
        found = Messages(kernel, np.concatenate([found.num_bytes, more.num_bytes[new]]))
    order = np.argsort(found.kernel, kind="stable")
    return Messages(found.kernel[order], found.num_bytes[order])


def _of_ranges(profile: Profile, calls: Int32) -> Messages:
    names = [code for code, text in enumerate(profile.range_names) if _RANGE.match(text)]
    if not names:
        return Messages()
    ranges = np.flatnonzero(np.isin(profile.ranges.name, names) & (profile.ranges.shapes >= 0))
    kernels, ranges = _alone(profile, profile.ranges, ranges, calls)
    if not len(kernels):
        return Messages()
    sizes = _sizes(profile, kernels, profile.ranges.shapes[ranges].astype(np.int64))
    known = sizes >= 0
    return Messages(kernels[known], sizes[known])


def _of_payloads(profile: Profile, calls: Int32) -> Messages:
    """Sizes in the payloads of NCCL's own ranges."""
    noted = [found for found in profile.annotations if found.name.startswith(_NCCL)]
    ranks: dict[str, Any] = {
        communicator[1]: read_object(found.payload).get(_RANKS)
        for found in noted
        if _RANKS in found.payload and (communicator := _COMMUNICATOR.search(found.payload))
    }
    thread_of = {tid: row for row, tid in enumerate(profile.threads.tolist())}
    rows = [
        (found.start_ns, found.end_ns, thread_of[found.global_tid], size)
        for found in noted
        if found.end_ns is not None and found.global_tid in thread_of
        if (size := _contributed(found.name, found.payload, ranks)) is not None
    ]
    if not rows:
        return Messages()
    start, end, thread, sizes = np.array(rows, dtype=np.int64).T
    own = Ranges(start, end, thread.astype(np.int32))
    kernels, ranges = _alone(profile, own, np.arange(len(start)), calls)
    return Messages(kernels, sizes[ranges])


def _contributed(name: str, payload: str, ranks: dict[str, Any]) -> int | None:
    """Bytes that a rank puts in; None: not known."""
    operation, size = name.removeprefix(_NCCL), read_object(payload).get(_SIZE)
    count: Any = 1 if operation in _INPUT else None
    if operation == "ReduceScatter" and (communicator := _COMMUNICATOR.search(payload)):
        count = ranks.get(communicator[1])
    if type(size) is not int or type(count) is not int:
        return None
    return size * count if 0 <= size * count <= MAX_COUNT else None


def _alone(profile: Profile, own: Ranges, ranges: Int64, calls: Int32) -> tuple[Int64, Int64]:
    """Kernels of collectives that are the only one that some range launches, and these ranges."""
    codes = distinct(profile.kernels.long_name)
    moving = codes[communication_kernels([profile.strings[code] for code in codes.tolist()])]
    kernels = np.flatnonzero(np.isin(profile.kernels.long_name, moving) & (calls >= 0))
    of_kernel = _enclosing(profile, own, ranges, calls[kernels])
    kernels, ranges = kernels[of_kernel >= 0], ranges[of_kernel[of_kernel >= 0]]
    _, inverse, counts = np.unique(ranges, return_inverse=True, return_counts=True)
    alone = counts[inverse] == 1
    return kernels[alone], ranges[alone]


def _enclosing(profile: Profile, own: Ranges, ranges: Int64, calls: Integers) -> Int64:
    """Return for each call the innermost range around it, by position, or ``NO_ROW``."""
    api = profile.api_calls
    key = own.thread[ranges].astype(np.int64) * _THREAD_SHIFT + own.start_ns[ranges]
    order = np.argsort(key, kind="stable")
    wanted = api.thread[calls].astype(np.int64) * _THREAD_SHIFT + api.start_ns[calls]
    position = np.searchsorted(key[order], wanted, side="right") - 1
    result = np.full(len(calls), NO_ROW, dtype=np.int64)
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
