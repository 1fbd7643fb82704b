"""Tensor shapes: of outputs, and as DLProf's reports show them (``<N:32, C:3, H:32, W:32>``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from aggregator.told import read_json

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


_CONVOLUTION = re.compile(r"conv(_transpose)?([123])d$")
_AXES = {1: "W", 2: "HW", 3: "DHW"}
_DEFAULTS = (("S", "stride", 1), ("P", "padding", 0), ("D", "dilation", 1))


def parameters_text(op_type: str, parameters: Mapping[str, Any]) -> str:
    """Parameters of a convolution as DLProf's iteration report has them.

    ``<SH:2, SW:2>; <PH:3, PW:3>; <DH:1, DW:1>; <G:1>``: stride, padding, dilation, groups; empty
    where all have PyTorch's defaults, and for any other op.

    Args:
        op_type: Type of the op.
        parameters: What the module's marker tells, by PyTorch's names.
    """
    found = _CONVOLUTION.match(op_type)
    if found is None or not parameters:
        return ""
    axes = _AXES[int(found[2])]
    parts, is_default = [], True
    for letter, name, default in _DEFAULTS:
        values = _values(parameters.get(name, default), len(axes))
        if values is None:
            return ""
        is_default &= values == (default,) * len(axes)
        names = (f"{letter}{axis}:{value}" for axis, value in zip(axes, values, strict=True))
        parts.append(f"<{', '.join(names)}>")
    groups = parameters.get("groups", 1)
    if is_default and groups == 1:
        return ""
    return "; ".join([*parts, f"<G:{groups}>"])


def arguments_text(op_type: str, arguments: Mapping[str, Any]) -> str:
    """What a call was given besides tensors: of any other op ``<p:0.1>; <train:True>``.

    Args:
        op_type: Type of the op.
        arguments: By PyTorch's names.
    """
    if _CONVOLUTION.match(op_type):
        return parameters_text(op_type, arguments)
    return "; ".join(f"<{name}:{value}>" for name, value in arguments.items())


def output_shape(
    op_type: str, shapes: list[list[int]], parameters: Mapping[str, Any] | None
) -> list[int] | None:
    """Output shape of a convolution or a linear layer; None: the inputs do not tell.

    Args:
        op_type: Type of the op.
        shapes: Shapes of input, weight and more.
        parameters: Of the convolution, by PyTorch's names; None: not known.
    """
    if op_type == "linear":
        return linear_output_shape(shapes)
    found = _CONVOLUTION.match(op_type)
    if found is None or parameters is None or len(shapes) < 2:
        return None
    dims = int(found[2])
    names = (*_DEFAULTS, ("", "output_padding", 0))
    told = [_values(parameters.get(name, default), dims) for _, name, default in names]
    groups = parameters.get("groups", 1)
    if len(shapes[0]) != dims + 2 or len(shapes[1]) != dims + 2 or None in told:
        return None
    if not isinstance(groups, int):
        return None
    sides = zip(shapes[0][2:], shapes[1][2:], *(values or () for values in told), strict=True)
    if found[1]:
        channels = shapes[1][1] * groups
        size = [(x - 1) * s - 2 * p + d * (k - 1) + 1 + more for x, k, s, p, d, more in sides]
    else:
        channels = shapes[1][0]
        size = [(x + 2 * p - d * (k - 1) - 1) // s + 1 if s else 0 for x, k, s, p, d, _ in sides]
    return [shapes[0][0], channels, *size] if min(size) > 0 else None


def _values(value: Any, count: int) -> tuple[int, ...] | None:
    """One number per axis; None: it is none (``padding="same"``)."""
    if isinstance(value, int):
        return (value,) * count
    if isinstance(value, list | tuple) and all(isinstance(one, int) for one in value):
        return tuple(value) if len(value) == count else None
    return None


def shape_text(op_type: str, shapes_json: str, *, output: bool = False) -> str:
    """Shapes as DLProf's iteration report shows them.

    Args:
        op_type: Convolutions and linear layers name their dimensions.
        shapes_json: JSON list of shapes, ``[[32,3,32,32],[6,3,3,3],[6]]``; empty: unknown.
        output: Whether these are output shapes.
    """
    if not shapes_json:
        return ""
    shapes = read_json(shapes_json)
    if not isinstance(shapes, list):
        return shapes_json
    letters = _letters(op_type, output=output)
    parts = []
    for position, shape in enumerate(shapes):
        # What is no tensor (a number, a missing bias) is recorded as an empty list.
        if not isinstance(shape, list) or not shape:
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
