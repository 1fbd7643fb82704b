"""Scaled dot product attention, for all kernels that compute it.

Forward two products per head: Q K^T and P V, 2 B H Sq Sk (D + Dv) operations. Backward five: flash
attention computes Q K^T again, then dP = dO V^T, dV = P^T dO, dQ = dS K and dK = dS^T Q. That is
how ``torch.utils.flop_counter`` counts all of them. The softmax in between is not counted, and the
half that a causal mask leaves out is not subtracted (the mask is not recorded). Bytes: Q, K, V and
O once; the scores stay on chip.
"""

from __future__ import annotations

from aggregator.costs.formulas.call import UNKNOWN, Cost, Formula, OpCall, elements


def _attention(*, heads_last: bool, backward: bool) -> Formula:
    """The formula for query, key and value; the backward has dO before them.

    They are (B, H, S, D), where key and value may have fewer heads (grouped queries), or
    (B, S, H, D) as the kernels below the public op expect them. The backward reads dO, Q, K, V and
    O, and writes dQ, dK and dV.
    """
    first = int(backward)

    def count(call: OpCall) -> Cost:
        tensors = call.shapes[first : first + 3]
        dims = {len(shape) for shape in tensors}
        if len(tensors) < 3 or len(dims) > 1 or dims.pop() < 3 or tensors[0][-1] != tensors[1][-1]:
            return UNKNOWN
        query, key, value = tensors
        if heads_last and len(query) != 4:
            return UNKNOWN
        rows = elements(query[:-1])
        scores = rows * key[1 if heads_last else -2]
        inputs, output = sum(map(elements, tensors)), rows * value[-1]
        if backward:
            flops = 2 * scores * (3 * query[-1] + 2 * value[-1])
            return Cost(flops, call.traffic(inputs + 2 * output, inputs), is_matrix=True)
        flops = 2 * scores * (query[-1] + value[-1])
        return Cost(flops, call.traffic(inputs, output), is_matrix=True)

    return count


_KINDS = ("flash", "efficient", "cudnn", "fused_cudnn")
_PUBLIC, _PUBLIC_BACKWARD, _KERNEL, _KERNEL_BACKWARD = (
    _attention(heads_last=last, backward=backward)
    for last in (False, True)
    for backward in (False, True)
)

FORMULAS: dict[str, Formula] = {
    **{f"_scaled_dot_product_{kind}_attention": _PUBLIC for kind in _KINDS},
    **{f"_scaled_dot_product_{kind}_attention_backward": _PUBLIC_BACKWARD for kind in _KINDS},
    "_cudnn_attention_forward": _PUBLIC,
    "_cudnn_attention_backward": _PUBLIC_BACKWARD,
    "_flash_attention_forward": _KERNEL,
    "_flash_attention_backward": _KERNEL_BACKWARD,
    "_efficient_attention_forward": _KERNEL,
    "_efficient_attention_backward": _KERNEL_BACKWARD,
}
