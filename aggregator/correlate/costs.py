"""What every execution of an op should cost: its device work, by operator.

An op's range holds ranges of the operators that it calls (``linear`` holds ``addmm``; the wrapper
of ``AddmmBackward0`` holds two ``mm`` and a ``sum``), each with its own sizes. Device work belongs
to the innermost of them; the outermost one around it that has a formula is *counted*, once per
range. So backward is counted from its own sizes, and casts beside a product are seen as what they
are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from aggregator.columns import dense_codes, narrow, ordered, row_codes, run_heads
from aggregator.correlate.cost_calls import NO_SIZES, CallTypes, Describer, kernel_type_table
from aggregator.correlate.cost_outputs import find_outputs
from aggregator.correlate.cost_types import types_of_collectives
from aggregator.correlate.ops import Instances
from aggregator.correlate.range_tree import RangeTree
from aggregator.correlate.work import CorrelatedWork
from aggregator.flops.registry import is_counted, is_sharing
from aggregator.flops.units import CostUnit, InstanceCosts
from aggregator.frameworks.meaning import RangeKind, RangeMeaning
from aggregator.profile import Bool, Int32, Int64, Integers, Profile

_KERNEL, _COPY, _SET, _GRAPH = range(4)


@dataclass(frozen=True)
class _Pieces:
    """Kernels, copies and sets, one after another; graphs' content is unknown.

    Attributes:
        kind: ``_KERNEL``, ``_COPY``, ``_SET`` or ``_GRAPH``.
        instance: Op instance.
        position: Innermost range of the launching call; -1: none.
        duration_ns: Unit: ns.
        detail: Row of the kernel's types; copy kind.
        num_bytes: Bytes of copies and sets. Unit: bytes.
    """

    kind: Integers
    instance: Integers
    position: Integers
    duration_ns: Int64
    detail: Integers
    num_bytes: Int64


@dataclass(frozen=True)
class CountedCalls:
    """One row per counted range (or per instance, for work in no counted range).

    Attributes:
        instance: Op instance.
        position: The counted range; -1: none.
        name: Code of its name; -1: none.
        shapes: Code into ``Profile.shape_texts``; -1: none.
        types: Row of the kernel types table of its longest kernel whose types are known; -1: none.
        kind: 0 kernels, 1 copies only, 2 sets only, 3 a graph.
        detail: Copy kind where ``kind`` is 1.
        num_bytes: Recorded bytes where it ran no kernel. Unit: bytes.
        main_kernels: Kernels that compute, not only lay out.
        uses_tc: Whether any kernel ran Tensor Core instructions.
        communicates: Whether its longest kernel moves data between GPUs.
    """

    instance: Integers
    position: Integers
    name: Integers
    shapes: Integers
    types: Integers
    kind: Integers
    detail: Integers
    num_bytes: Int64
    main_kernels: Integers
    uses_tc: Bool
    communicates: Bool

    def __len__(self) -> int:
        return len(self.instance)


def compute_costs(
    profile: Profile,
    meaning: RangeMeaning,
    nested: tuple[RangeTree, Int32] | None,
    work: CorrelatedWork,
) -> InstanceCosts:
    """Count all device work of a profile.

    Args:
        profile: The profile.
        meaning: What range names mean.
        nested: Nested ranges, and the innermost one of each API call; None: there are none.
        work: Device work and op instances.
    """
    tree, call_range = nested if nested is not None else (None, None)
    types = kernel_type_table(profile)
    pieces = _pieces(profile, call_range, work, types)
    counted: Integers = np.full(len(pieces.kind), -1, dtype=np.int64)
    if tree is not None:
        counted = _counted_ranges(profile, meaning, tree, pieces.position)
        counted = _or_marker(profile, meaning, work.instances, tree, pieces, counted)
    calls = _counted_calls(profile, tree, pieces, types, counted)
    calls = replace(calls, types=types_of_collectives(profile, work.instances, calls, types))
    outputs = find_outputs(profile, meaning, work.instances, calls)
    describer = Describer(profile, meaning, work.instances, types)
    signature, units = _units(describer, calls, outputs)
    return _join(signature, units, calls.instance, len(work.instances))


def _pieces(
    profile: Profile, call_range: Int32 | None, work: CorrelatedWork, types: CallTypes
) -> _Pieces:
    parts = (work.kernels, work.copies, work.sets, work.graphs)
    lengths = [len(part.instance) for part in parts]
    call = np.concatenate([part.call for part in parts])
    position = np.full(len(call), -1, dtype=np.int32)
    if call_range is not None and len(call_range):
        position = np.where(call >= 0, call_range[np.maximum(call, 0)], np.int32(-1))
    none = [np.full(length, -1, dtype=np.int64) for length in lengths]
    return _Pieces(
        kind=np.repeat(np.arange(4, dtype=np.int8), lengths),
        instance=np.concatenate([part.instance for part in parts]),
        position=position,
        duration_ns=np.concatenate([part.work.end_ns - part.work.start_ns for part in parts]),
        detail=narrow(
            np.concatenate([types.of_kernel, profile.copies.copy_kind, none[2], none[3]])
        ),
        num_bytes=np.concatenate(
            [none[0] + 1, profile.copies.num_bytes, profile.sets.num_bytes, none[3] + 1]
        ),
    )


def _counted_ranges(
    profile: Profile, meaning: RangeMeaning, tree: RangeTree, position: Integers
) -> Int64:
    """The range that counts for each innermost range; -1: none with a formula."""
    labels = [is_counted(label) for label in meaning.labels]
    shares = [is_sharing(label) for label in meaning.labels]
    is_op = meaning.kind == RangeKind.OP
    described = np.isin(np.arange(len(is_op)), list(meaning.texts))
    counted = is_op & ~described & np.array(labels, dtype=bool)[meaning.label]
    sharing = np.array(shares, dtype=bool)[meaning.label]
    unique, inverse = dense_codes(position)
    result = np.full(len(unique), -1, dtype=np.int64)
    rows = np.flatnonzero(unique >= 0)
    current = unique[rows]
    unit = tree.unit[current]
    while len(rows):
        name = tree.name[current]
        takes = counted[name] & ((result[rows] < 0) | ~sharing[name])
        result[rows[takes]] = current[takes]
        current = tree.nesting.parent[current].astype(np.int64)
        inside = (current >= 0) & (tree.unit[np.maximum(current, 0)] == unit)
        rows, current, unit = rows[inside], current[inside], unit[inside]
    return result[inverse]


def _or_marker(
    profile: Profile,
    meaning: RangeMeaning,
    instances: Instances,
    tree: RangeTree,
    pieces: _Pieces,
    counted: Integers,
) -> Integers:
    """Where the op has a marker that tells its sizes, ranges without sizes do not count."""
    if not meaning.texts:
        return counted
    _, shapes = _texts_of(profile, tree, counted)
    forward = instances.forward[pieces.instance]
    source = np.where(forward >= 0, forward, pieces.instance)
    marked = np.isin(instances.range_name[source], list(meaning.texts))
    result: Integers = np.where(marked & (shapes < 0), -1, counted)
    return result


def _counted_calls(
    profile: Profile,
    tree: RangeTree | None,
    pieces: _Pieces,
    types: CallTypes,
    counted: Integers,
) -> CountedCalls:
    """Join the pieces of each counted range; work outside is joined per instance and kind."""
    is_kernel = pieces.kind == _KERNEL
    detail = np.where(is_kernel, pieces.detail, 0)
    moves = is_kernel & types.communicates[detail]
    key = _keys(pieces, counted, moves)
    order = ordered(key)
    heads = run_heads(key[order])
    first = _speaking(pieces, is_kernel & types.is_known[detail], order, heads)
    name, shapes = _texts_of(profile, tree, counted[first])
    return CountedCalls(
        instance=pieces.instance[first],
        position=narrow(counted[first]),
        name=narrow(name),
        shapes=narrow(shapes),
        types=np.where(is_kernel[first], pieces.detail[first], -1),
        kind=pieces.kind[first],
        detail=np.where(pieces.kind[first] == _COPY, pieces.detail[first], -1),
        num_bytes=_sum(np.where(is_kernel, 0, pieces.num_bytes)[order], heads),
        main_kernels=narrow(
            _sum((is_kernel & types.is_main[detail]).astype(np.int64)[order], heads)
        ),
        uses_tc=_sum((is_kernel & types.uses_tc[detail]).astype(np.int64)[order], heads) > 0,
        communicates=moves[first],
    )


def _speaking(pieces: _Pieces, known: Bool, order: Int64, heads: Int64) -> Int64:
    """The piece that speaks for each call: kernels before copies, known types first, the longest.

    Args:
        pieces: The pieces.
        known: Whether a piece is a kernel of known types.
        order: Pieces by call, those of one call as they stand.
        heads: First of each call in this order.
    """
    # The less, the sooner it speaks.
    rank = (2 * pieces.kind.astype(np.int64) + ~known) << _DURATION_BITS
    rank = (rank - np.clip(pieces.duration_ns, 0, (1 << _DURATION_BITS) - 1))[order]
    if not len(rank):
        return order
    least = np.minimum.reduceat(rank, heads)
    is_least = rank == np.repeat(least, np.diff(np.append(heads, len(rank))))
    places = np.flatnonzero(is_least)
    return order[places[np.searchsorted(places, heads)]]


_DURATION_BITS = 56
"""No piece of work lasts two years."""


def _keys(pieces: _Pieces, counted: Int64, moves: Bool) -> Int64:
    """What belongs together: a counted range; outside an instance's kernels, a copy, a set."""
    outside = counted < 0
    key = np.where(outside, -2 - pieces.instance, counted)
    key[outside & moves] -= 1 << 40
    key[outside & (pieces.kind == _GRAPH)] -= 1 << 41
    # Copies and sets outside are known by their bytes: one call each.
    alone = outside & np.isin(pieces.kind, (_COPY, _SET))
    key[alone] = np.iinfo(np.int64).min + np.flatnonzero(alone)
    return key


def _texts_of(profile: Profile, tree: RangeTree | None, position: Int64) -> tuple[Int64, Int64]:
    """Codes of name and sizes of each range; -1: none."""
    none = np.full(len(position), -1, dtype=np.int64)
    if tree is None or not len(profile.ranges.name):
        return none, none
    row = tree.nesting.rows(np.maximum(position, 0))
    has = position >= 0
    name = np.where(has, profile.ranges.name[row], -1).astype(np.int64)
    return name, np.where(has, profile.ranges.shapes[row], -1).astype(np.int64)


def _sum(values: Int64, heads: Int64) -> Int64:
    if not len(heads):
        return np.empty(0, dtype=np.int64)
    result: Int64 = np.add.reduceat(values, heads)
    return result


def _units(
    describer: Describer, calls: CountedCalls, outputs: tuple[Int64, list[tuple[int, ...]]]
) -> tuple[Int64, tuple[CostUnit, ...]]:
    """Distinct units, and the unit of each call: every formula is worked out once per unit."""
    output, output_shapes = outputs
    columns = (
        calls.name,
        calls.shapes,
        describer.types_code(calls.types),
        output,
        np.where(calls.kind == _KERNEL, np.minimum(calls.main_kernels, 2), 0),
        calls.uses_tc,
        calls.kind,
        calls.detail,
        calls.communicates,
        np.where(calls.kind == _KERNEL, 0, calls.num_bytes),
        describer.context(calls.instance, calls.position),
    )
    first, inverse = row_codes(*columns)
    units = []
    for row in first.tolist():
        shape = output_shapes[int(output[row])] if output[row] >= 0 else None
        units.append(describer.unit(calls, row, shape))
    # Calls that differ in nothing that the database shows are one.
    rows: dict[CostUnit, int] = {}
    number = np.array([rows.setdefault(unit, len(rows)) for unit in units], dtype=np.int64)
    joined: Int64 = number[inverse] if len(number) else np.empty(0, dtype=np.int64)
    return joined, tuple(rows)


def _join(
    unit: Int64, units: tuple[CostUnit, ...], instance: Int64, num_instances: int
) -> InstanceCosts:
    """Instances with the same units, as often, share a cost."""
    of_instance = np.full(num_instances, -1, dtype=np.int32)
    if not len(unit):
        return InstanceCosts(of_instance=of_instance)
    order = ordered(instance, unit)
    pair_unit, pair_instance = unit[order], instance[order]
    new = (np.diff(pair_unit) != 0) | (np.diff(pair_instance) != 0)
    heads = np.flatnonzero(np.concatenate([[True], new]))
    calls = np.diff(np.concatenate([heads, [len(order)]]))
    pair_unit, pair_instance = pair_unit[heads], pair_instance[heads]
    # Random numbers per unit, added up, stand for the multiset; the seed is fixed.
    numbers = np.random.default_rng(20).integers(1, 1 << 62, size=(2, len(units)), dtype=np.int64)
    with np.errstate(over="ignore"):
        weight = numbers[0][pair_unit] * calls + numbers[1][pair_unit] * calls * calls
    starts = np.flatnonzero(np.concatenate([[True], np.diff(pair_instance) != 0]))
    total = np.add.reduceat(weight, starts)
    _, first, inverse = np.unique(total, return_index=True, return_inverse=True)
    of_instance[pair_instance[starts]] = inverse.ravel()
    stops = np.concatenate([starts[1:], [len(pair_unit)]])
    rows = [np.arange(starts[row], stops[row]) for row in first.tolist()]
    return InstanceCosts(
        units=units,
        part_cost=np.repeat(np.arange(len(rows)), [len(part) for part in rows]),
        part_unit=pair_unit[np.concatenate(rows)],
        part_calls=calls[np.concatenate(rows)],
        of_instance=of_instance,
        count=len(rows),
    )


def complete_costs(costs: InstanceCosts, op: Int32) -> InstanceCosts:
    """Executions without recorded sizes cost what most others of their op cost.

    The markers write sizes in the first steps only: it is what costs the most time. An op of which
    no cost makes half of the known ones has sizes that change: those executions stay unknown.
    """
    bare = np.array([unit.reason == NO_SIZES for unit in costs.units], dtype=bool)
    if not bare.any():
        return costs
    incomplete = np.zeros(costs.count, dtype=bool)
    incomplete[costs.part_cost[bare[costs.part_unit]]] = True
    cost = costs.of_instance
    has = cost >= 0
    known = has & ~incomplete[np.maximum(cost, 0)]
    num_ops = int(op.max(initial=-1)) + 1
    pair, calls = np.unique(
        op[known].astype(np.int64) * costs.count + cost[known], return_counts=True
    )
    pair_op, pair_cost = pair // costs.count, pair % costs.count
    order = np.lexsort((calls, pair_op))
    total = np.bincount(pair_op, weights=calls, minlength=num_ops)
    of_op = np.full(num_ops, -1, dtype=np.int64)
    usual = order[2 * calls[order] >= total[pair_op[order]]]
    of_op[pair_op[usual]] = pair_cost[usual]  # the last one, the commonest, stays
    take = has & ~known & (of_op[op] >= 0)
    return replace(costs, of_instance=np.where(take, of_op[op], cost).astype(np.int32))
