"""The operator calls of a profile that are counted, each with its device work.

An op's range contains ranges of the operators that it calls (``linear`` contains ``addmm``; the
wrapper of ``AddmmBackward0`` contains two ``mm`` and a ``sum``), each with its own sizes. Device
work belongs to the innermost of them; the outermost one around it that has a formula is *counted*,
once per range. So backward is counted from its own sizes, and a cast next to a product as a cast.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from aggregator.correlate.instances import Instances
from aggregator.correlate.work import CorrelatedWork
from aggregator.costs.counted_ranges import NestedRanges, counted_ranges, steps_around
from aggregator.costs.formulas.call import elements, sizes_of
from aggregator.costs.formulas.registry import product_family
from aggregator.costs.formulas.serving import ATTENTION, EXPERTS
from aggregator.costs.kernel_table import OF_INPUT, OF_WEIGHT, OTHER, KernelTable
from aggregator.frameworks.meaning import RangeMeaning
from aggregator.profile.arrays import (
    NO_ROW,
    Bool,
    Int64,
    Integers,
    narrow,
    ordered,
    row_codes,
    run_heads,
)
from aggregator.profile.profile import Profile

KERNEL, COPY, SET, GRAPH = range(4)
"""Kinds of device work."""


@dataclass(frozen=True)
class _Pieces:
    """All device work: kernels, copies, sets, and graphs of unknown content."""

    kind: Integers  # ``KERNEL``, ``COPY``, ``SET`` or ``GRAPH``.
    instance: Integers  # Op instance.
    position: Integers  # Innermost range of the call that describes it, or ``NO_ROW``.
    launch: Integers  # Innermost range of the call that launches it, or ``NO_ROW``.
    is_replayed: Bool  # Whether a CUDA graph replays it, and its captured call is known.
    duration_ns: Int64  # Unit: ns.
    detail: Integers  # Row of the kernel table; copy kind.
    num_bytes: Int64  # Bytes of copies and sets; -1: unknown. Unit: bytes.


@dataclass(frozen=True)
class CountedCalls:
    """One row per counted range (or per instance, for work in no counted range)."""

    instance: Integers  # Op instance.
    position: Integers  # The counted range, or ``NO_ROW``.
    name: Integers  # Code of its name, or ``NO_ROW``.
    shapes: Integers  # Code into ``Profile.shape_texts``, or ``NO_ROW``.
    types: Integers  # Row of the kernel table of its longest kernel of known types, or ``NO_ROW``.
    kind: Integers  # ``KERNEL``, ``COPY`` (copies only), ``SET`` (sets only) or ``GRAPH``.
    detail: Integers  # Copy kind of a ``COPY``.
    num_bytes: Int64  # Recorded bytes if it ran no kernel; -1: unknown. Unit: bytes.
    # Gradients that its kernels compute, if it is the backward of a convolution: those named, and
    # one for each kernel that names none.
    gradients: Integers
    multiplies: Bool  # Whether any kernel may compute a matrix product.
    uses_tc: Bool  # Whether any kernel ran Tensor Core instructions.
    communicates: Bool  # Whether its longest kernel moves data between GPUs.
    # Attention: code of the name of the engine's step around its launch, with the lengths of its
    # sequences; -1: none, or it does not matter.
    step: Integers
    # Experts whose weights are no arguments: their range, which may call operators that have them;
    # -1: it does not matter.
    experts: Integers

    def __len__(self) -> int:
        return len(self.instance)


def find_counted_calls(
    profile: Profile,
    meaning: RangeMeaning,
    nested: NestedRanges | None,
    work: CorrelatedWork,
    kernels: KernelTable,
) -> CountedCalls:
    """Find the calls to count, and join the device work of each.

    ``nested`` has the ranges of the profile and of its captures; None: no ranges.
    """
    pieces = _pieces(profile, nested, work, kernels)
    counted: Integers = np.full(len(pieces.kind), NO_ROW, dtype=np.int64)
    if nested is not None:
        counted = counted_ranges(profile, meaning, nested, pieces.position)
        counted = _or_marker(meaning, work.instances, nested, pieces, counted)
    steps = steps_around(profile, nested, pieces.launch)
    calls = _counted_calls(nested, pieces, kernels, counted, steps)
    calls = _with_surroundings(profile, meaning, calls)
    return replace(calls, types=_types_of_collectives(profile, work.instances, calls, kernels))


def _pieces(
    profile: Profile, nested: NestedRanges | None, work: CorrelatedWork, kernels: KernelTable
) -> _Pieces:
    parts = (work.kernels, work.copies, work.sets, work.graphs)
    lengths = [len(part.instance) for part in parts]
    call = np.concatenate([part.described_by for part in parts])
    launch = np.concatenate([part.call for part in parts])
    position: Integers = np.full(len(call), NO_ROW, dtype=np.int32)
    launching: Integers = position
    if nested is not None and len(nested.of_call):
        position, launching = (
            np.where(rows >= 0, nested.of_call[np.maximum(rows, 0)], np.int32(-1))
            for rows in (call, launch)
        )
    none = [np.full(length, NO_ROW, dtype=np.int64) for length in lengths]
    return _Pieces(
        kind=np.repeat(np.arange(4, dtype=np.int8), lengths),
        instance=np.concatenate([part.instance for part in parts]),
        position=position,
        launch=launching,
        is_replayed=np.concatenate([part.described_by != part.call for part in parts]),
        duration_ns=np.concatenate([part.work.end_ns - part.work.start_ns for part in parts]),
        detail=narrow(
            np.concatenate([kernels.of_kernel, profile.copies.copy_kind, none[2], none[3]])
        ),
        num_bytes=np.concatenate(
            [none[0] + 1, profile.copies.num_bytes, profile.sets.num_bytes, none[3] + 1]
        ),
    )


def _or_marker(
    meaning: RangeMeaning,
    instances: Instances,
    nested: NestedRanges,
    pieces: _Pieces,
    counted: Integers,
) -> Integers:
    """Do not count ranges without sizes in an op whose marker has sizes."""
    if not meaning.texts:
        return counted
    _, shapes = _texts_of(nested, counted)
    forward = instances.forward[pieces.instance]
    source = np.where(forward >= 0, forward, pieces.instance)
    marked = np.isin(instances.range_name[source], list(meaning.texts))
    return np.where(marked & (shapes < 0), -1, counted)


def _counted_calls(
    nested: NestedRanges | None,
    pieces: _Pieces,
    kernels: KernelTable,
    counted: Integers,
    steps: Integers,
) -> CountedCalls:
    """Join the work of each counted range; other work is joined per instance and kind."""
    is_kernel = pieces.kind == KERNEL
    detail = np.where(is_kernel, pieces.detail, 0)
    moves = is_kernel & kernels.communicates[detail]
    key = _keys(pieces, counted, moves)
    order = ordered(key)
    heads = run_heads(key[order])
    first = _representative(pieces, is_kernel & kernels.is_known[detail], order, heads)
    name, shapes = _texts_of(nested, counted[first])
    moved = np.where(is_kernel, 0, pieces.num_bytes)[order]
    unknown = _any(moved < 0, heads)
    return CountedCalls(
        instance=pieces.instance[first],
        position=narrow(counted[first]),
        name=narrow(name),
        shapes=narrow(shapes),
        types=np.where(is_kernel[first], pieces.detail[first], -1),
        kind=pieces.kind[first],
        detail=np.where(pieces.kind[first] == COPY, pieces.detail[first], -1),
        num_bytes=np.where(unknown, -1, _sum(moved, heads)),
        gradients=narrow(
            _gradients(np.where(is_kernel, kernels.gradient[detail], 0)[order], heads)
        ),
        multiplies=_sum((is_kernel & kernels.multiplies[detail]).astype(np.int64)[order], heads)
        > 0,
        uses_tc=_sum((is_kernel & kernels.uses_tc[detail]).astype(np.int64)[order], heads) > 0,
        communicates=moves[first],
        step=steps[first],
        experts=narrow(counted[first]),
    )


def _with_surroundings(
    profile: Profile, meaning: RangeMeaning, calls: CountedCalls
) -> CountedCalls:
    """Leave what is around a call only where its cost depends on it."""
    codes, row = np.unique(calls.name, return_inverse=True)
    family = np.array(
        [
            product_family(meaning.labels[meaning.label[code]], profile.range_names[code])
            if code >= 0
            else ""
            for code in codes.tolist()
        ]
        or [""]
    )[row]
    shapes = np.unique(calls.shapes[(family == EXPERTS) & (calls.shapes >= 0)]).tolist()
    stacked = [code for code in shapes if max(map(len, sizes_of(profile.shape_texts[code]))) > 2]
    needs_weights = (family == EXPERTS) & ~np.isin(calls.shapes, stacked)
    return replace(
        calls,
        step=np.where(family == ATTENTION, calls.step, -1),
        experts=np.where(needs_weights, calls.experts, -1),
    )


def _representative(pieces: _Pieces, known: Bool, order: Int64, heads: Int64) -> Int64:
    """The piece that represents each call: kernels before copies, known types first, the longest.

    ``order`` has the pieces by call, ``heads`` the first of each call in this order.
    """
    rank = (2 * pieces.kind.astype(np.int64) + ~known) << _DURATION_BITS
    rank = (rank - np.clip(pieces.duration_ns, 0, (1 << _DURATION_BITS) - 1))[order]
    if not len(rank):
        return order
    least = np.minimum.reduceat(rank, heads)
    is_least = rank == np.repeat(least, np.diff(np.append(heads, len(rank))))
    rows = np.flatnonzero(is_least)
    return order[rows[np.searchsorted(rows, heads)]]


_DURATION_BITS = 56
"""No device work lasts two years."""


def _keys(pieces: _Pieces, counted: Int64, moves: Bool) -> Int64:
    """Key of the call of each piece: its counted range, or else its instance and kind.

    A range is counted once per instance: each replay of a CUDA graph executes it again.
    """
    outside = counted < 0
    key = np.where(outside, -2 - pieces.instance, counted)
    again = np.flatnonzero(pieces.is_replayed & ~outside)
    if len(again):
        key[again] = counted.max() + 1 + row_codes(counted[again], pieces.instance[again])[1]
    key[outside & moves] -= 1 << 40
    key[outside & (pieces.kind == GRAPH)] -= 1 << 41
    # Each copy and set outside a counted range is a call, described by its bytes.
    single = outside & np.isin(pieces.kind, (COPY, SET))
    key[single] = np.iinfo(np.int64).min + np.flatnonzero(single)
    return key


def _texts_of(nested: NestedRanges | None, position: Int64) -> tuple[Int64, Int64]:
    """Codes of name and sizes of each range, or ``NO_ROW``."""
    none = np.full(len(position), NO_ROW, dtype=np.int64)
    if nested is None or not len(nested.name):
        return none, none
    row, has = np.maximum(position, 0), position >= 0
    name = np.where(has, nested.name[row], -1).astype(np.int64)
    return name, np.where(has, nested.shapes[row], -1).astype(np.int64)


def _sum(values: Int64, heads: Int64) -> Int64:
    if not len(heads):
        return np.empty(0, dtype=np.int64)
    return np.add.reduceat(values, heads)


def _any(values: Bool, heads: Int64) -> Bool:
    return _sum(values.astype(np.int64), heads) > 0


def _gradients(gradient: Integers, heads: Int64) -> Int64:
    """Split products and grouped convolutions run several kernels for one gradient."""
    named = [_any(gradient == side, heads) for side in (OF_INPUT, OF_WEIGHT)]
    return _sum((gradient == OTHER).astype(np.int64), heads) + named[0] + named[1]


_LOOK_BACK = 8
"""Number of earlier calls that are tried, the nearest first."""


def _types_of_collectives(
    profile: Profile, instances: Instances, calls: CountedCalls, kernels: KernelTable
) -> Int64:
    """Row of the kernel table of each call, completed for collectives without a type in the name.

    Their data was written by the call before them on the thread (DDP joins its buffers by ``cat``,
    FSDP copies its shard): if that moved the same number of elements, it has the same type.
    """
    result = calls.types.astype(np.int64)
    row = np.maximum(result, 0)
    has = (calls.position >= 0) & (calls.shapes >= 0)
    rows = np.flatnonzero(has & calls.communicates & ~kernels.is_known[row])
    same = np.array([element.read == element.write != "" for element in kernels.types], dtype=bool)
    sources = np.flatnonzero(has & ~calls.communicates & (result >= 0) & same[row])
    if not len(rows) or not len(sources):
        return result
    thread = instances.thread[calls.instance].astype(np.int64)
    order = thread * (int(calls.position.max()) + 1) + calls.position
    sources = sources[ordered(order[sources])]
    moved = _elements(profile, calls.shapes, np.concatenate([rows, sources]))
    ends = np.searchsorted(order[sources], order[rows])
    for offset in range(1, _LOOK_BACK + 1):
        before = sources[np.maximum(ends - offset, 0)]
        fits = (ends >= offset) & (thread[before] == thread[rows]) & (moved[before] == moved[rows])
        result[rows[fits]] = result[before[fits]]
        rows, ends = rows[~fits], ends[~fits]
    return result


def _elements(profile: Profile, shapes: Integers, rows: Int64) -> Int64:
    """Elements of all arguments of the calls in ``rows``; -1 for the others."""
    codes = np.unique(shapes[rows])
    sums = [
        sum(elements(shape) for shape in sizes_of(profile.shape_texts[code]) if shape)
        for code in codes.tolist()
    ]
    result = np.full(len(shapes), NO_ROW, dtype=np.int64)
    result[rows] = np.array(sums, dtype=np.int64)[np.searchsorted(codes, shapes[rows])]
    return result
