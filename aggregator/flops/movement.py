"""Ops that move data: no operations, only bytes; and reductions, which read all and write little.

What a reduction writes is not recorded; it is smaller than what it reads by the length of what is
reduced, and left out. PyProf counted a cast with one element size for both sides; here each side
has its own.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from aggregator.flops.cost import DEFAULT_INDEX_BYTES, UNKNOWN, Cost, OpCall, elements
from aggregator.flops.pointwise import MASK_BYTES, SERIES

if TYPE_CHECKING:
    from collections.abc import Callable


def _copy(call: OpCall) -> Cost:
    """``copy_(destination, source)``; a source that broadcasts is read once."""
    written = elements(call.argument(0))
    source = call.argument(1)
    read = elements(source) if source else min(written, 1)
    return Cost(0, call.traffic(read, written))


def _same(call: OpCall) -> Cost:
    """Reads its first tensor and writes as much: flip, roll, clone."""
    count = elements(call.argument(0))
    return Cost(0, call.traffic(count, count))


def _fill(call: OpCall) -> Cost:
    return Cost(0, call.traffic(0, elements(call.argument(0))))


def _joined(call: OpCall) -> Cost:
    """``cat([a, b, ...])``."""
    count = sum(map(elements, call.tensors))
    return Cost(0, call.traffic(count, count))


def _gather(call: OpCall) -> Cost:
    """``gather(x, dim, index)``: as many elements as the index has."""
    index = next((shape for shape in call.tensors[1:]), None)
    if index is None:
        return UNKNOWN
    count = elements(index)
    return Cost(0, call.traffic(count, count, DEFAULT_INDEX_BYTES * count))


def _scatter(operations: int) -> Callable[[OpCall], Cost]:
    def count(call: OpCall) -> Cost:
        """``scatter_add_(x, dim, index, source)``: elements of x read, changed, written."""
        if len(call.tensors) < 2:
            return UNKNOWN
        moved = elements(call.tensors[1])
        traffic = call.traffic((1 + operations) * moved, moved, DEFAULT_INDEX_BYTES * moved)
        return Cost(operations * moved, traffic)

    return count


def _index(call: OpCall) -> Cost:
    """``index(x, [i, j, ...])``: the index tensors broadcast and replace leading dimensions."""
    if len(call.tensors) < 2:
        return UNKNOWN
    image, *indices = call.tensors
    count = prod(max(sizes) for sizes in _aligned(indices)) * elements(image[len(indices) :])
    index = DEFAULT_INDEX_BYTES * sum(map(elements, indices))
    return Cost(0, call.traffic(count, count, index))


def _aligned(shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Sizes of each dimension of shapes that broadcast."""
    length = max(map(len, shapes))
    padded = [(1,) * (length - len(shape)) + shape for shape in shapes]
    return list(zip(*padded, strict=True))


def _index_put(call: OpCall) -> Cost:
    """``index_put_(x, [i, ...], values)``."""
    if len(call.tensors) < 3:
        return UNKNOWN
    moved = elements(call.tensors[-1])
    index = DEFAULT_INDEX_BYTES * sum(map(elements, call.tensors[1:-1]))
    return Cost(0, call.traffic(moved, moved, index))


def _index_select(call: OpCall) -> Cost:
    """``index_select(x, dim, index)``: as many elements as its output has.

    Sizes alone do not tell the dimension, which matters unless all are as long.
    """
    if len(call.tensors) < 2:
        return UNKNOWN
    image, index = call.tensors[0], call.tensors[1]
    if call.output is not None:
        moved = elements(call.output)
    elif len(set(image)) == 1:
        moved = elements(index) * elements(image[1:])
    else:
        return Cost(0, None)
    return Cost(0, call.traffic(moved, moved, DEFAULT_INDEX_BYTES * elements(index)))


def _masked_select(call: OpCall) -> Cost:
    """``masked_select(x, mask)``: how much is kept is not recorded; all may be."""
    if len(call.tensors) < 2:
        return UNKNOWN
    read = elements(call.tensors[0])
    return Cost(0, call.traffic(read, 0, MASK_BYTES * elements(call.tensors[1])))


def _reduced(operations: int) -> Callable[[OpCall], Cost]:
    def count(call: OpCall) -> Cost:
        read = elements(call.argument(0))
        return Cost(operations * read, call.traffic(read, 0))

    return count


def _scanned(call: OpCall) -> Cost:
    count = elements(call.argument(0))
    return Cost(count, call.traffic(count, count))


def _sorted(call: OpCall) -> Cost:
    """How many comparisons depends on the values; bytes are those of one pass, with the indices."""
    count = elements(call.argument(0))
    return Cost(None, call.traffic(count, count, DEFAULT_INDEX_BYTES * count))


def _family(names: str, formula: Callable[[OpCall], Cost]) -> dict[str, Callable[[OpCall], Cost]]:
    return dict.fromkeys(names.split(), formula)


FORMULAS: dict[str, Callable[[OpCall], Cost]] = {
    **_family("copy", _copy),
    **_family("flip roll rot90 tril triu clone repeat_interleave", _same),
    **_family("fill zero ones zeros full arange linspace eye", _fill),
    **_family("cat stack _cat hstack vstack", _joined),
    **_family("gather take take_along_dim", _gather),
    **_family("scatter index_copy", _scatter(0)),
    **_family("scatter_add scatter_reduce index_add", _scatter(1)),
    **_family("index _unsafe_index", _index),
    **_family("index_put _index_put_impl _unsafe_index_put", _index_put),
    "index_select": _index_select,
    "masked_select": _masked_select,
    **_family(
        "sum nansum prod max min amax amin aminmax argmax argmin any all count_nonzero", _reduced(1)
    ),
    "mean": _reduced(1),
    **_family("var std var_mean std_mean", _reduced(4)),
    **_family("norm linalg_vector_norm", _reduced(2)),
    "logsumexp": _reduced(SERIES + 3),
    **_family("cumsum cumprod cummax cummin", _scanned),
    **_family("sort topk kthvalue argsort unique _unique2 multinomial", _sorted),
    "nonzero": _reduced(1),
}
"""By name without a trailing underscore."""
