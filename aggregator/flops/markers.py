"""Ops that a marker of DLProf or PyProf describes: PyTorch's functions, forward and backward.

Such captures hold one description per function and nothing of what it calls. The backward of a
function has no description: it is counted from the forward one's, two products for each (PyProf's
rule, which counted by kernel), or three tensors moved.
"""

from __future__ import annotations

from aggregator.flops import convolution, pointwise
from aggregator.flops.cost import UNKNOWN, Cost, OpCall, Shape, elements
from aggregator.flops.registry import count, formula_of

_SAME = {
    "batch_norm": "cudnn_batch_norm",
    "layer_norm": "native_layer_norm",
    "group_norm": "native_group_norm",
    "instance_norm": "cudnn_batch_norm",
    "rms_norm": "_fused_rms_norm",
    "max_pool2d": "max_pool2d_with_indices",
    "max_pool3d": "max_pool3d_with_indices",
    "adaptive_avg_pool2d": "_adaptive_avg_pool2d",
    "adaptive_avg_pool3d": "_adaptive_avg_pool3d",
    "dropout": "native_dropout",
    "softmax": "_softmax",
    "log_softmax": "_log_softmax",
    "nll_loss": "nll_loss_forward",
    "embedding_bag": "_embedding_bag",
    "scaled_dot_product_attention": "_scaled_dot_product_flash_attention",
    "lstm": "_cudnn_rnn",
    "gru": "_cudnn_rnn",
    "rnn_tanh": "_cudnn_rnn",
    "rnn_relu": "_cudnn_rnn",
}
_BACKWARD = {
    "batch_norm": "cudnn_batch_norm_backward",
    "layer_norm": "native_layer_norm_backward",
    "group_norm": "native_group_norm_backward",
    "instance_norm": "cudnn_batch_norm_backward",
    "dropout": "native_dropout_backward",
    "gelu": "gelu_backward",
    "silu": "silu_backward",
    "tanh": "tanh_backward",
    "sigmoid": "sigmoid_backward",
    "softmax": "_softmax_backward_data",
    "log_softmax": "_log_softmax_backward_data",
}
_MATRIX = frozenset(
    {"linear", "matmul", "__matmul__", "mm", "bmm", "addmm", "baddbmm", "bilinear"}
    | {"lstm", "gru", "rnn_tanh", "rnn_relu"}
)


def count_marked(call: OpCall, *, backward: bool) -> Cost:
    """Cost of a function's call, or of the backward of it.

    Args:
        call: The forward call; ``output`` holds its output's sizes where known.
        backward: Whether the backward is meant.
    """
    kind = call.name.rstrip("_") if not call.name.startswith("__") else call.name
    if kind.startswith("conv"):
        return _convolution(call, backward=backward)
    if kind == "cross_entropy":
        return _cross_entropy(call, backward=backward)
    if not backward:
        return count(_renamed(call, _SAME.get(kind, kind)))
    return _backward(call, kind)


def _backward(call: OpCall, kind: str) -> Cost:
    if kind in _MATRIX:
        return _twice(count(_renamed(call, _SAME.get(kind, kind))))
    image = call.argument(0)
    if kind in _BACKWARD:
        return count(_renamed(call, _BACKWARD[kind], (image, image)))
    return _pool_backward(call) if kind in _POOLS else _pointwise_backward(call, kind)


_POOLS = frozenset(name for name in _SAME if "pool" in name) | {"avg_pool2d", "avg_pool3d"}


def _renamed(call: OpCall, name: str, shapes: tuple[Shape, ...] | None = None) -> OpCall:
    own = call.shapes if shapes is None else shapes
    return OpCall(name, own, call.read_bytes, call.write_bytes, call.output, call.name)


def _twice(forward: Cost) -> Cost:
    """Two products, each of two of the three matrices with the third as its result."""
    if forward.flops is None:
        return UNKNOWN
    moved = None if forward.num_bytes is None else 2 * forward.num_bytes
    return Cost(2 * forward.flops, moved, is_matrix=True)


def _convolution(call: OpCall, *, backward: bool) -> Cost:
    if call.output is None:
        return UNKNOWN
    renamed = OpCall(
        "convolution", call.shapes, call.read_bytes, call.write_bytes, call.output, call.name
    )
    if not backward:
        return convolution.forward(renamed)
    shapes = (call.output, call.argument(0), call.argument(1))
    return convolution.backward(
        OpCall(
            "convolution_backward",
            shapes,
            call.read_bytes,
            call.write_bytes,
            context=call.name,
            one_gradient=call.one_gradient,
        )
    )


def _cross_entropy(call: OpCall, *, backward: bool) -> Cost:
    """Log softmax of the rows, then one element of each."""
    image = call.argument(0)
    if not image:
        return UNKNOWN
    if backward:
        return count(_renamed(call, "_log_softmax_backward_data", (image, image)))
    return count(_renamed(call, "_log_softmax", (image,)))


def _pool_backward(call: OpCall) -> Cost:
    if call.output is None:
        return UNKNOWN
    name = _SAME.get(call.name, call.name)
    shapes = (call.output, call.argument(0))
    return count(_renamed(call, f"{name}_backward", shapes))


def _pointwise_backward(call: OpCall, kind: str) -> Cost:
    """The gradient is dx = dy f'(x): reads dy and x, writes dx."""
    image = call.argument(0)
    if kind not in pointwise.FORMULAS or not image or formula_of(kind) is None:
        return UNKNOWN
    size = elements(image)
    return Cost(size, call.traffic(2 * size, size))
