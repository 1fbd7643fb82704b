"""Normalisation, softmax, pooling, embeddings and losses.

Bytes are those of reading and writing every large tensor once. PyProf counted batch norm with four
and five passes and softmax with three and five, which is what its kernels of then did; a kernel
that does better would have shown more than 100 % of the bandwidth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aggregator.flops.cost import DEFAULT_INDEX_BYTES, UNKNOWN, Cost, OpCall, Shape, elements
from aggregator.flops.pointwise import SERIES

if TYPE_CHECKING:
    from collections.abc import Callable

NORM, NORM_BACKWARD = 8, 14
"""Per element: mean, variance, normalise, scale, shift; and the three sums and products back."""


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


def _root_mean_square(call: OpCall) -> Cost:
    count = elements(call.argument(0))
    return Cost(4 * count, call.traffic(count, count))


def _root_mean_square_backward(call: OpCall) -> Cost:
    count = elements(call.argument(0))
    return Cost(8 * count, call.traffic(2 * count, count))


def _softmax(call: OpCall) -> Cost:
    """Maximum, subtraction, exp, sum, division."""
    count = elements(call.argument(0))
    return Cost((SERIES + 4) * count, call.traffic(count, count))


def _log_softmax(call: OpCall) -> Cost:
    """Maximum, subtraction, exp, sum, subtraction; one log per row is left out."""
    return _softmax(call)


def _softmax_backward(call: OpCall) -> Cost:
    """The gradient is dx = (dy - sum(dy y)) y."""
    count = elements(call.argument(0))
    return Cost(4 * count, call.traffic(2 * count, count))


def _log_softmax_backward(call: OpCall) -> Cost:
    """The gradient is dx = dy - exp(y) sum(dy)."""
    count = elements(call.argument(0))
    return Cost((SERIES + 3) * count, call.traffic(2 * count, count))


def _pool(index_bytes: int) -> Callable[[OpCall], Cost]:
    def count(call: OpCall) -> Cost:
        """Every input element is looked at once at least; windows that overlap cost more."""
        image = call.argument(0)
        if not image or call.output is None:
            return UNKNOWN
        read, written = elements(image), elements(call.output)
        return Cost(read, call.traffic(read, written, index_bytes * written))

    return count


def _pool_backward(index_bytes: int) -> Callable[[OpCall], Cost]:
    def count(call: OpCall) -> Cost:
        """Reads dy (and where it came from), writes dx: (dy, x, ..., indices)."""
        gradient, image = call.argument(0), call.argument(1)
        if not gradient or not image:
            return UNKNOWN
        read = elements(gradient)
        return Cost(read, call.traffic(read, elements(image), index_bytes * read))

    return count


def _upsample(operations: int) -> Callable[[OpCall], Cost]:
    def count(call: OpCall) -> Cost:
        image = call.argument(0)
        if not image or call.output is None:
            return UNKNOWN
        written = elements(call.output)
        return Cost(operations * written, call.traffic(elements(image), written))

    return count


def _row(weight: Shape) -> int:
    return elements(weight[1:])


def _embedding(call: OpCall) -> Cost:
    """``embedding(weight, indices)``: rows copied."""
    weight, indices = call.argument(0), call.argument(1)
    if len(weight) != 2:
        return UNKNOWN
    moved = elements(indices) * _row(weight)
    return Cost(0, call.traffic(moved, moved, DEFAULT_INDEX_BYTES * elements(indices)))


def _embedding_backward(call: OpCall) -> Cost:
    """``embedding_dense_backward(dy, indices)``: rows of the gradient read, added to, written.

    The rest of the gradient, rows without an index, is cleared by a fill of its own.
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
    """``_embedding_bag_backward(dy, indices, offsets, bag of each index, ...)`` and its dense kin.

    Rows of the bags' gradient are read once, rows of the weight's added to and written. A fill of
    its own clears the rest, as beside ``embedding_dense_backward``.
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


def _nll_backward(call: OpCall) -> Cost:
    """``nll_loss_backward(dy, x, target)``: one element per row; a fill clears the others."""
    target = call.argument(2)
    count = elements(target)
    return Cost(count, call.traffic(0, count, DEFAULT_INDEX_BYTES * count))


def _loss(operations: int) -> Callable[[OpCall], Cost]:
    def count(call: OpCall) -> Cost:
        """Element by element, reduced by kernels of its own range."""
        elements_read = [elements(shape) for shape in call.tensors]
        if not elements_read:
            return UNKNOWN
        largest = max(elements_read)
        return Cost(operations * largest, call.traffic(sum(elements_read), 1))

    return count


def _loss_backward(operations: int) -> Callable[[OpCall], Cost]:
    def count(call: OpCall) -> Cost:
        elements_read = [elements(shape) for shape in call.tensors]
        if not elements_read:
            return UNKNOWN
        largest = max(elements_read)
        return Cost(operations * largest, call.traffic(sum(elements_read), largest))

    return count


_NORMS = (
    "native_layer_norm",
    "native_batch_norm",
    "cudnn_batch_norm",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_no_training",
    "_batch_norm_with_update",
    "miopen_batch_norm",
    "native_group_norm",
    "batch_norm_elemt",
)
_NORMS_BACKWARD = (
    "native_layer_norm_backward",
    "native_batch_norm_backward",
    "cudnn_batch_norm_backward",
    "miopen_batch_norm_backward",
    "batch_norm_backward",
    "native_group_norm_backward",
)

FORMULAS: dict[str, Callable[[OpCall], Cost]] = {
    **dict.fromkeys(_NORMS, _norm),
    **dict.fromkeys(_NORMS_BACKWARD, _norm_backward),
    "_fused_rms_norm": _root_mean_square,
    "_fused_rms_norm_backward": _root_mean_square_backward,
    "_softmax": _softmax,
    "_log_softmax": _log_softmax,
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _log_softmax_backward,
    **dict.fromkeys(
        ("max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d"),
        _pool(DEFAULT_INDEX_BYTES),
    ),
    **dict.fromkeys(
        ("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward"),
        _pool_backward(DEFAULT_INDEX_BYTES),
    ),
    **dict.fromkeys(
        ("avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d"), _pool(0)
    ),
    **dict.fromkeys(
        (
            "avg_pool2d_backward",
            "avg_pool3d_backward",
            "_adaptive_avg_pool2d_backward",
            "_adaptive_avg_pool3d_backward",
        ),
        _pool_backward(0),
    ),
    **{f"upsample_nearest{dims}d": _upsample(0) for dims in (1, 2, 3)},
    "upsample_bilinear2d": _upsample(11),
    "upsample_trilinear3d": _upsample(25),
    "upsample_bicubic2d": _upsample(60),
    "embedding": _embedding,
    "embedding_dense_backward": _embedding_backward,
    "_embedding_bag": _embedding_bag,
    "_embedding_bag_forward_only": _embedding_bag,
    "_embedding_bag_backward": _embedding_bag_backward,
    "_embedding_bag_dense_backward": _embedding_bag_backward,
    "nll_loss_forward": _nll,
    "nll_loss2d_forward": _nll,
    "nll_loss_backward": _nll_backward,
    "nll_loss2d_backward": _nll_backward,
    "mse_loss": _loss(3),
    "smooth_l1_loss": _loss(5),
    "huber_loss": _loss(5),
    "binary_cross_entropy": _loss(2 * SERIES + 5),
    "mse_loss_backward": _loss_backward(3),
    "smooth_l1_loss_backward": _loss_backward(4),
    "huber_loss_backward": _loss_backward(4),
    "binary_cross_entropy_backward": _loss_backward(6),
}
