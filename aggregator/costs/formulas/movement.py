"""Ops that only move data, and reductions.

The output of a reduction is not recorded; it is much smaller than the input and left out. PyProf
used one element size for both sides of a cast; here each side has its own.
"""

from __future__ import annotations

from math import prod

from aggregator.costs.formulas.call import (
    DEFAULT_INDEX_BYTES,
    UNKNOWN,
    Cost,
    Formula,
    OpCall,
    elements,
    named,
    per_element,
)
from aggregator.costs.formulas.pointwise import MASK_BYTES, SERIES


def _copy(call: OpCall) -> Cost:
    """``copy_(destination, source)``; a source that broadcasts is read once."""
    written = elements(call.argument(0))
    source = call.argument(1)
    read = elements(source) if source else min(written, 1)
    return Cost(0, call.traffic(read, written))


def _joined(call: OpCall) -> Cost:
    """``cat([a, b, ...])``."""
    count = sum(map(elements, call.tensors))
    return Cost(0, call.traffic(count, count))


def _gather(call: OpCall) -> Cost:
    """``gather(x, dim, index)``: one element per index."""
    index = next((shape for shape in call.tensors[1:]), None)
    if index is None:
        return UNKNOWN
    count = elements(index)
    return Cost(0, call.traffic(count, count, DEFAULT_INDEX_BYTES * count))


def _scatter(operations: int) -> Formula:
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
    """``index_select(x, dim, index)``: the elements of its output.

    Without it, only a tensor with equal sizes in all dimensions can be counted: ``dim`` is unknown.
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
    """``masked_select(x, mask)``: the number of selected elements is not recorded."""
    if len(call.tensors) < 2:
        return UNKNOWN
    read = elements(call.tensors[0])
    return Cost(0, call.traffic(read, 0, MASK_BYTES * elements(call.tensors[1])))


FORMULAS: dict[str, Formula] = {
    **named("copy", _copy),
    # Read the first tensor, and write one of that size.
    **named("flip roll rot90 tril triu clone repeat_interleave", per_element(0)),
    **named("fill zero ones zeros full arange linspace eye", per_element(0, read=0)),
    **named("cat stack _cat hstack vstack", _joined),
    **named("gather take take_along_dim", _gather),
    **named("scatter index_copy", _scatter(0)),
    **named("scatter_add scatter_reduce index_add", _scatter(1)),
    **named("index _unsafe_index", _index),
    **named("index_put _index_put_impl _unsafe_index_put", _index_put),
    "index_select": _index_select,
    "masked_select": _masked_select,
    **named(
        "sum nansum prod max min amax amin aminmax argmax argmin any all count_nonzero mean "
        "nonzero",
        per_element(1, written=0),
    ),
    **named("var std var_mean std_mean", per_element(4, written=0)),
    **named("norm linalg_vector_norm", per_element(2, written=0)),
    "logsumexp": per_element(SERIES + 3, written=0),
    **named("cumsum cumprod cummax cummin", per_element(1)),
    # Comparisons depend on the values; bytes are those of one pass, with the indices.
    **named(
        "sort topk kthvalue argsort unique _unique2 multinomial",
        per_element(None, other=DEFAULT_INDEX_BYTES),
    ),
}
"""By name without a trailing underscore."""
