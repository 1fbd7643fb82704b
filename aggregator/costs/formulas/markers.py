"""PyTorch's functions as described by a marker of DLProf or PyProf, forward and backward.

Such captures describe each function but not the operators that it calls. The backward of a function
has no description and is counted from the forward: two products for each one, or three tensors
moved.
"""

from __future__ import annotations

from dataclasses import replace

from aggregator.costs.formulas import convolution, pointwise
from aggregator.costs.formulas.call import UNKNOWN, Cost, OpCall, Shape, elements
from aggregator.costs.formulas.registry import count, formula_of

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
_BY_INPUT = frozenset(
    {"batch_norm", "layer_norm", "group_norm", "instance_norm", "dropout", "gelu", "silu", "tanh"}
    | {"sigmoid", "softmax", "log_softmax"}
)
"""Their backward reads the gradient and a tensor of its size."""
_MATRIX = frozenset(
    {"linear", "matmul", "__matmul__", "mm", "bmm", "addmm", "baddbmm", "bilinear"}
    | {"lstm", "gru", "rnn_tanh", "rnn_relu"}
)


def count_marked(call: OpCall, *, backward: bool) -> Cost:
    """Cost of a function's forward call, or of the backward of it."""
    kind = call.name.rstrip("_") if not call.name.startswith("__") else call.name
    if kind.startswith("conv"):
        return _convolution(call, backward=backward)
    if kind == "cross_entropy":
        # Log softmax of the rows, then one element of each.
        image = call.argument(0)
        name = "_log_softmax_backward_data" if backward else "_log_softmax"
        return count(_renamed(call, name, (image, image) if backward else (image,)))
    if not backward:
        return count(_renamed(call, _SAME.get(kind, kind)))
    return _backward(call, kind)


def _backward(call: OpCall, kind: str) -> Cost:
    if kind in _MATRIX:
        return _twice(count(_renamed(call, _SAME.get(kind, kind))))
    image = call.argument(0)
    name = _SAME.get(kind, kind)
    if kind in _BY_INPUT:
        ending = "_backward_data" if "softmax" in kind else "_backward"
        return count(_renamed(call, name + ending, (image, image)))
    if kind in _POOLS:
        if call.output is None:
            return UNKNOWN
        return count(_renamed(call, f"{name}_backward", (call.output, image)))
    return _pointwise_backward(call, kind)


_POOLS = frozenset(name for name in _SAME if "pool" in name) | {"avg_pool2d", "avg_pool3d"}


def _renamed(call: OpCall, name: str, shapes: tuple[Shape, ...] | None = None) -> OpCall:
    own = call.shapes if shapes is None else shapes
    return replace(call, name=name, shapes=own, context=call.name, one_gradient=False)


def _twice(forward: Cost) -> Cost:
    """Two products, each of two of the three matrices with the third as its result."""
    if forward.flops is None:
        return UNKNOWN
    moved = None if forward.num_bytes is None else 2 * forward.num_bytes
    return Cost(2 * forward.flops, moved, is_matrix=True)


def _convolution(call: OpCall, *, backward: bool) -> Cost:
    if call.output is None:
        return UNKNOWN
    if not backward:
        return convolution.forward(_renamed(call, "convolution"))
    shapes = (call.output, call.argument(0), call.argument(1))
    return convolution.backward(
        replace(call, name="convolution_backward", shapes=shapes, context=call.name)
    )


def _pointwise_backward(call: OpCall, kind: str) -> Cost:
    """The gradient is dx = dy f'(x): reads dy and x, writes dx."""
    image = call.argument(0)
    if kind not in pointwise.FORMULAS or not image or formula_of(kind) is None:
        return UNKNOWN
    size = elements(image)
    return Cost(size, call.traffic(2 * size, size))
