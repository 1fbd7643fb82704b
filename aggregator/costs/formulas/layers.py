"""Normalization, softmax, pooling, embeddings and losses.

Bytes count each large tensor as read or written once. PyProf counted four and five passes for batch
norm and three and five for softmax, like the kernels of its time; a better kernel would show more
than 100 % of the bandwidth.
"""

from __future__ import annotations

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
from aggregator.costs.formulas.pointwise import SERIES

NORM, NORM_BACKWARD = 8, 14
"""Per element: mean, variance, normalize, scale, shift; and the three sums and products back."""


def _norm(call: OpCall) -> Cost:
    """``native_layer_norm(x, ..., weight, bias)`` and its relatives."""
    image = call.argument(0)
    if not image:
        return UNKNOWN
    count = elements(image)
    small = sum(elements(shape) for shape in call.tensors[1:] if len(shape) == 1)
    return Cost(NORM * count, call.traffic(count + small, count))


def _norm_backward(call: OpCall) -> Cost:
    """Reads dy and x, writes dx: ``native_layer_norm_backward(dy, x, ...)`` or (x, dy, ...)."""
    first, second = call.argument(0), call.argument(1)
    if not first or elements(first) != elements(second):
        return UNKNOWN
    count = elements(first)
    return Cost(NORM_BACKWARD * count, call.traffic(2 * count, count))


def _resized(operations: int | None = None, index_bytes: int = 0) -> Formula:
    """Pools and interpolations: every input element is read at least once.

    Args:
        operations: Operations per element written; None: one per element read.
        index_bytes: Bytes of the index written with each element.
    """

    def count(call: OpCall) -> Cost:
        image = call.argument(0)
        if not image or call.output is None:
            return UNKNOWN
        read, written = elements(image), elements(call.output)
        flops = read if operations is None else operations * written
        return Cost(flops, call.traffic(read, written, index_bytes * written))

    return count


def _pool_backward(index_bytes: int) -> Formula:
    def count(call: OpCall) -> Cost:
        """Reads dy and the indices, writes dx: (dy, x, ..., indices)."""
        gradient, image = call.argument(0), call.argument(1)
        if not gradient or not image:
            return UNKNOWN
        read = elements(gradient)
        return Cost(read, call.traffic(read, elements(image), index_bytes * read))

    return count


def _embedding(call: OpCall) -> Cost:
    """``embedding(weight, indices)``: rows copied."""
    weight, indices = call.argument(0), call.argument(1)
    if len(weight) != 2:
        return UNKNOWN
    moved = elements(indices) * elements(weight[1:])
    return Cost(0, call.traffic(moved, moved, DEFAULT_INDEX_BYTES * elements(indices)))


def _embedding_backward(call: OpCall) -> Cost:
    """``embedding_dense_backward(dy, indices)``: rows of the gradient read, added to, written.

    A separate fill clears the rows of the gradient without an index.
    """
    gradient, indices = call.argument(0), call.argument(1)
    if not gradient:
        return UNKNOWN
    count = elements(gradient)
    return Cost(count, call.traffic(2 * count, count, DEFAULT_INDEX_BYTES * elements(indices)))


def _embedding_bag(call: OpCall) -> Cost:
    """``_embedding_bag(weight, indices, offsets)``: rows added up, one output row per bag."""
    weight, indices, offsets = (call.argument(position) for position in range(3))
    if len(weight) != 2 or not indices:
        return UNKNOWN
    bags = elements(offsets) if len(indices) == 1 else indices[0]
    read, written = elements(indices) * weight[1], bags * weight[1]
    index = DEFAULT_INDEX_BYTES * (elements(indices) + bags)
    return Cost(read, call.traffic(read, written, index))


def _embedding_bag_backward(call: OpCall) -> Cost:
    """``_embedding_bag_backward(dy, indices, offsets, bag of each index, ...)``, sparse or dense.

    Rows of the bags' gradient are read once, rows of the weight's are added to and written. A
    separate fill clears the rest, as for ``embedding_dense_backward``.
    """
    gradient, indices = call.argument(0), call.argument(1)
    if len(gradient) != 2 or not indices:
        return UNKNOWN
    rows = elements(indices) * gradient[1]
    index = 2 * DEFAULT_INDEX_BYTES * elements(indices)
    return Cost(rows, call.traffic(elements(gradient) + rows, rows, index))


def _nll(call: OpCall) -> Cost:
    """``nll_loss_forward(x (N, C), target (N))``: one element per row, added up."""
    target = call.argument(1)
    count = elements(target)
    return Cost(count, call.traffic(count, 1, DEFAULT_INDEX_BYTES * count))


def _loss(operations: int, *, backward: bool = False) -> Formula:
    def count(call: OpCall) -> Cost:
        """Element by element; forward the result is reduced to one element."""
        elements_read = [elements(shape) for shape in call.tensors]
        if not elements_read:
            return UNKNOWN
        largest = max(elements_read)
        traffic = call.traffic(sum(elements_read), largest if backward else 1)
        return Cost(operations * largest, traffic)

    return count


_NORMS = (
    "native_layer_norm native_batch_norm cudnn_batch_norm _native_batch_norm_legit "
    "_native_batch_norm_legit_no_training _batch_norm_with_update miopen_batch_norm "
    "native_group_norm batch_norm_elemt"
)
_NORMS_BACKWARD = (
    "native_layer_norm_backward native_batch_norm_backward cudnn_batch_norm_backward "
    "miopen_batch_norm_backward batch_norm_backward native_group_norm_backward"
)

FORMULAS: dict[str, Formula] = {
    **named(_NORMS, _norm),
    **named(_NORMS_BACKWARD, _norm_backward),
    "_fused_rms_norm": per_element(4),
    "_fused_rms_norm_backward": per_element(8, read=2),
    # Maximum, subtraction, exp, sum, division (of a logarithm: subtraction).
    **named("_softmax _log_softmax", per_element(SERIES + 4)),
    # dx = (dy - sum(dy y)) y, and dx = dy - exp(y) sum(dy).
    "_softmax_backward_data": per_element(4, read=2),
    "_log_softmax_backward_data": per_element(SERIES + 3, read=2),
    **named(
        "max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d",
        _resized(index_bytes=DEFAULT_INDEX_BYTES),
    ),
    **named(
        "max_pool2d_with_indices_backward max_pool3d_with_indices_backward",
        _pool_backward(DEFAULT_INDEX_BYTES),
    ),
    **named("avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d", _resized()),
    **named(
        "avg_pool2d_backward avg_pool3d_backward _adaptive_avg_pool2d_backward "
        "_adaptive_avg_pool3d_backward",
        _pool_backward(0),
    ),
    **{f"upsample_nearest{dims}d": _resized(0) for dims in (1, 2, 3)},
    "upsample_bilinear2d": _resized(11),
    "upsample_trilinear3d": _resized(25),
    "upsample_bicubic2d": _resized(60),
    "embedding": _embedding,
    "embedding_dense_backward": _embedding_backward,
    **named("_embedding_bag _embedding_bag_forward_only", _embedding_bag),
    **named("_embedding_bag_backward _embedding_bag_dense_backward", _embedding_bag_backward),
    **named("nll_loss_forward nll_loss2d_forward", _nll),
    # (dy, x, target): one element per row; a fill clears the others.
    **named(
        "nll_loss_backward nll_loss2d_backward",
        per_element(1, read=0, other=DEFAULT_INDEX_BYTES, argument=2),
    ),
    "mse_loss": _loss(3),
    **named("smooth_l1_loss huber_loss", _loss(5)),
    "binary_cross_entropy": _loss(2 * SERIES + 5),
    "mse_loss_backward": _loss(3, backward=True),
    **named("smooth_l1_loss_backward huber_loss_backward", _loss(4, backward=True)),
    "binary_cross_entropy_backward": _loss(6, backward=True),
}
