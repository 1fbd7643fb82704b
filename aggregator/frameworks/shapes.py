"""Tensor shapes: of outputs, and as DLProf's reports show them (``<N:32, C:3, H:32, W:32>``)."""

from __future__ import annotations

import json
from typing import Any

CONV_INPUTS = ("NCHW", "KCRS")
CONV_OUTPUT = "NKPQ"
LINEAR_INPUTS = ("NK", "MK")
LINEAR_OUTPUT = "NM"


def _pair(value: Any, default: int) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    if (
        isinstance(value, tuple | list)
        and len(value) == 2
        and all(isinstance(v, int) for v in value)
    ):
        return int(value[0]), int(value[1])
    if isinstance(value, tuple | list) and len(value) == 1 and isinstance(value[0], int):
        return int(value[0]), int(value[0])
    return default, default


def conv_output_shape(shapes: list[list[int]], arguments: dict[str, Any]) -> list[int] | None:
    """Output shape of a 2-D convolution; None if the inputs do not tell.

    P = floor((H + 2 * padding - (dilation * (R - 1) + 1)) / stride) + 1, and Q alike
    (PyTorch's documentation of ``torch.nn.Conv2d``).

    Args:
        shapes: Input (N, C, H, W), weight (K, C, R, S) and maybe bias.
        arguments: Stride, padding and dilation by name, or by position 3, 4, 5 in ``F.conv2d``.
    """
    if len(shapes) < 2 or len(shapes[0]) != 4 or len(shapes[1]) != 4:
        return None
    (n, _, h, w), (k, _, r, s) = shapes[0], shapes[1]
    stride = _pair(arguments.get("stride", arguments.get("3")), 1)
    padding = arguments.get("padding", arguments.get("4"))
    if isinstance(padding, str):
        return None
    pad = _pair(padding, 0)
    dilation = _pair(arguments.get("dilation", arguments.get("5")), 1)
    if 0 in stride:
        return None
    p = (h + 2 * pad[0] - (dilation[0] * (r - 1) + 1)) // stride[0] + 1
    q = (w + 2 * pad[1] - (dilation[1] * (s - 1) + 1)) // stride[1] + 1
    return [n, k, p, q]


def linear_output_shape(shapes: list[list[int]]) -> list[int] | None:
    """Output shape of a linear layer: input (..., K) times weight (M, K) gives (..., M)."""
    if len(shapes) < 2 or not shapes[0] or len(shapes[1]) != 2:
        return None
    return [*shapes[0][:-1], shapes[1][0]]


def shape_text(op_type: str, shapes_json: str, *, output: bool = False) -> str:
    """Shapes as DLProf's iteration report shows them.

    Args:
        op_type: Convolutions and linear layers name their dimensions.
        shapes_json: JSON list of shapes, ``[[32,3,32,32],[6,3,3,3],[6]]``; empty: unknown.
        output: Whether these are output shapes.
    """
    if not shapes_json:
        return ""
    try:
        shapes = json.loads(shapes_json)
    except ValueError:
        return shapes_json
    letters = _letters(op_type, output=output)
    parts = []
    for position, shape in enumerate(shapes):
        if not isinstance(shape, list):
            continue
        names = letters[position] if position < len(letters) else ""
        if len(names) == len(shape) and names:
            text = ", ".join(f"{name}:{size}" for name, size in zip(names, shape, strict=True))
        else:
            text = ", ".join(str(size) for size in shape)
        parts.append(f"<{text}>")
    return "; ".join(parts)


def _letters(op_type: str, *, output: bool) -> tuple[str, ...]:
    if op_type == "conv2d":
        return (CONV_OUTPUT,) if output else CONV_INPUTS
    if op_type == "linear":
        return (LINEAR_OUTPUT,) if output else LINEAR_INPUTS
    return ()
