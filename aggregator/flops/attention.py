"""Scaled dot product attention, whatever kernel computes it.

Forward two products per head: Q K^T and P V, 2 B H Sq Sk (D + Dv) operations. Backward five: flash
attention computes Q K^T again, then dP = dO V^T, dV = P^T dO, dQ = dS K and dK = dS^T Q. That is
how ``torch.utils.flop_counter`` counts all of them; the softmax in between is not counted, and
neither it nor we subtract the half that a causal mask leaves out (the profile does not tell the
mask). Bytes: Q, K, V and O once; the scores stay on chip.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aggregator.flops.cost import UNKNOWN, Cost, OpCall, Shape, elements

if TYPE_CHECKING:
    from collections.abc import Callable


class _Sizes(NamedTuple):
    batch_heads: int
    queries: int
    keys: int
    depth: int
    value_depth: int


def _heads_first(query: Shape, key: Shape, value: Shape) -> _Sizes | None:
    """(B, H, S, D); key and value may have fewer heads (grouped queries)."""
    if not 3 <= len(query) == len(key) == len(value) or query[-1] != key[-1]:
        return None
    return _Sizes(elements(query[:-2]), query[-2], key[-2], query[-1], value[-1])


def _heads_last(query: Shape, key: Shape, value: Shape) -> _Sizes | None:
    """(B, S, H, D), as the kernels below the public op take them."""
    if not 4 == len(query) == len(key) == len(value) or query[-1] != key[-1]:
        return None
    return _Sizes(query[0] * query[2], query[1], key[1], query[-1], value[-1])


def _forward(call: OpCall, sizes: _Sizes | None, tensors: tuple[Shape, ...]) -> Cost:
    if sizes is None:
        return UNKNOWN
    scores = sizes.batch_heads * sizes.queries * sizes.keys
    output = sizes.batch_heads * sizes.queries * sizes.value_depth
    flops = 2 * scores * (sizes.depth + sizes.value_depth)
    return Cost(flops, call.traffic(sum(map(elements, tensors)), output), is_matrix=True)


def _backward(call: OpCall, sizes: _Sizes | None, tensors: tuple[Shape, ...]) -> Cost:
    """Reads dO, Q, K, V and O; writes dQ, dK and dV."""
    if sizes is None:
        return UNKNOWN
    scores = sizes.batch_heads * sizes.queries * sizes.keys
    output = sizes.batch_heads * sizes.queries * sizes.value_depth
    flops = 2 * scores * (3 * sizes.depth + 2 * sizes.value_depth)
    inputs = sum(map(elements, tensors))
    return Cost(flops, call.traffic(inputs + 2 * output, inputs), is_matrix=True)


def _public(call: OpCall) -> Cost:
    tensors = call.shapes[:3]
    return _forward(call, _heads_first(*tensors) if len(tensors) == 3 else None, tensors)


def _public_backward(call: OpCall) -> Cost:
    tensors = call.shapes[1:4]
    return _backward(call, _heads_first(*tensors) if len(tensors) == 3 else None, tensors)


def _kernel(call: OpCall) -> Cost:
    tensors = call.shapes[:3]
    return _forward(call, _heads_last(*tensors) if len(tensors) == 3 else None, tensors)


def _kernel_backward(call: OpCall) -> Cost:
    tensors = call.shapes[1:4]
    return _backward(call, _heads_last(*tensors) if len(tensors) == 3 else None, tensors)


_KINDS = ("flash", "efficient", "cudnn", "fused_cudnn")

FORMULAS: dict[str, Callable[[OpCall], Cost]] = {
    **{f"_scaled_dot_product_{kind}_attention": _public for kind in _KINDS},
    **{f"_scaled_dot_product_{kind}_attention_backward": _public_backward for kind in _KINDS},
    "_cudnn_attention_forward": _public,
    "_cudnn_attention_backward": _public_backward,
    "_flash_attention_forward": _kernel,
    "_flash_attention_backward": _kernel_backward,
    "_efficient_attention_forward": _kernel,
    "_efficient_attention_backward": _kernel_backward,
}
