"""Floating point operations of one call, from the shapes that were recorded; unknown is never 0.

A matrix product of M x K and K x N is counted as 2 M N K: one multiplication and one addition for
each term, as PyProf and ``torch.utils.flop_counter`` count it. Convolutions need their output's
shape, which ``emit_nvtx`` does not record; there the answer is unknown.
"""

from __future__ import annotations

import json
from math import prod

Shapes = list[list[int]]


def forward_flops(op_type: str, input_shapes: str, output_shapes: str) -> int | None:
    """Operations of a forward call.

    Args:
        op_type: Kind of op.
        input_shapes: JSON list of the input shapes; empty: not recorded.
        output_shapes: JSON list of the output shapes; empty: not recorded.

    Returns:
        A count, or None where type or shapes do not tell.
    """
    shapes = [shape for shape in _parse(input_shapes) if shape]
    if op_type in ("mm", "matmul", "bmm", "__matmul__"):
        return _product(shapes[:2])
    if op_type in ("addmm", "baddbmm"):
        return _product(shapes[-2:]) if len(shapes) >= 3 else None
    if op_type == "linear" and len(shapes) >= 2 and len(shapes[1]) == 2:
        weight = shapes[1]
        return 2 * prod(shapes[0]) * weight[0] if shapes[0][-1] == weight[1] else None
    if op_type == "conv2d":
        return _convolution(shapes, [shape for shape in _parse(output_shapes) if shape])
    return None


def _product(shapes: Shapes) -> int | None:
    """Two matrices, or stacks of them; leading dimensions broadcast."""
    if len(shapes) != 2 or min(map(len, shapes)) < 2 or shapes[0][-1] != shapes[1][-2]:
        return None
    (*left, m, k), (*right, _, n) = shapes
    longer, shorter = (left, right) if len(left) >= len(right) else (right, left)
    padded = [1] * (len(longer) - len(shorter)) + shorter
    return 2 * m * n * k * prod(max(a, b) for a, b in zip(longer, padded, strict=True))


def _convolution(inputs: Shapes, outputs: Shapes) -> int | None:
    """2 N K P Q C/g R S: the weight's second dimension is C/g already."""
    if not outputs or len(inputs) < 2 or len(inputs[1]) != 4 or len(outputs[0]) != 4:
        return None
    return 2 * prod(outputs[0]) * prod(inputs[1][1:])


def _parse(text: str) -> Shapes:
    try:
        value = json.loads(text) if text else []
    except ValueError:
        return []
    if not isinstance(value, list):
        return []
    whole = all(
        isinstance(shape, list) and all(isinstance(size, int) for size in shape) for shape in value
    )
    return value if whole else []
