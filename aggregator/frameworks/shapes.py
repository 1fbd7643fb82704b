"""Shapes of outputs, and shapes as text as in DLProf's reports (``<N:32, C:3, H:32, W:32>``)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from aggregator.system.untrusted_json import read_json

CONV_INPUTS = ("NCHW", "KCRS")
CONV_OUTPUT = "NKPQ"
LINEAR_INPUTS = ("NK", "MK")
LINEAR_OUTPUT = "NM"
_CONVOLUTION = re.compile(r"conv(_transpose)?([123])d$")
_AXES = {1: "W", 2: "HW", 3: "DHW"}
_DEFAULTS = (("S", "stride", 1), ("P", "padding", 0), ("D", "dilation", 1))

Sizes: TypeAlias = tuple[int, ...]


def convolution_output(
    shapes: Sequence[Sizes], parameters: Mapping[str, object], kind: str
) -> Sizes | None:
    """Output of a convolution from its parameters, as PyTorch documents it for each module.

    Args:
        shapes: Sizes of image and weight; an image without a batch dimension has a batch of one.
        parameters: ``stride``, ``padding``, ``dilation``, ``groups``, ``output_padding``.
        kind: Op or module name; a transposed convolution has ``transpose`` in it.
    """
    if len(shapes) < 2 or len(shapes[1]) < 3:
        return None
    weight = tuple(shapes[1])
    image, dims = batched(tuple(shapes[0]), weight), len(weight) - 2
    named = [per_dimension(parameters.get(name), dims, value) for _, name, value in _DEFAULTS]
    stride, padding, dilation = named
    if len(image) != len(weight) or stride is None or dilation is None or 0 in stride:
        return None
    if parameters.get("padding") == "same":
        return (image[0], weight[0], *image[2:])
    padding = (0,) * dims if parameters.get("padding") == "valid" else padding
    more = per_dimension(parameters.get("output_padding"), dims, 0)
    groups = parameters.get("groups", 1)
    if padding is None or more is None or not isinstance(groups, int):
        return None
    sides = zip(image[2:], weight[2:], stride, padding, dilation, more, strict=True)
    if "transpose" in kind.lower():
        channels = weight[1] * groups
        size = [(x - 1) * s - 2 * p + d * (k - 1) + 1 + o for x, k, s, p, d, o in sides]
    else:
        channels = weight[0]
        size = [(x + 2 * p - d * (k - 1) - 1) // s + 1 for x, k, s, p, d, _ in sides]
    return (image[0], channels, *size) if min(size) > 0 else None


def batched(shape: Sizes, weight: Sizes) -> Sizes:
    """Return the sizes of an image with a batch dimension, added if missing."""
    return (1, *shape) if len(shape) == len(weight) - 1 else shape


def per_dimension(value: object, dims: int, default: int | None = None) -> Sizes | None:
    """Return one number per dimension, from one for all or a list; None: neither, or ``"same"``."""
    value = default if value is None else value
    if isinstance(value, int):
        return (value,) * dims
    if isinstance(value, list | tuple) and all(isinstance(size, int) for size in value):
        values = tuple(value) * dims if len(value) == 1 else tuple(value)
        return values if len(values) == dims else None
    return None


def output_shape(
    op_type: str, shapes: Sequence[Sizes], parameters: Mapping[str, object] | None
) -> Sizes | None:
    """Output shape of a convolution or a linear layer from those of its arguments; None: unknown.

    A linear layer with input (..., K) and weight (M, K) gives (..., M). ``parameters`` of a
    convolution have PyTorch's names.
    """
    if op_type == "linear":
        fits = len(shapes) >= 2 and shapes[0] and len(shapes[1]) == 2
        return (*shapes[0][:-1], shapes[1][0]) if fits else None
    found = _CONVOLUTION.match(op_type)
    if found is None or parameters is None or not shapes or len(shapes[0]) != int(found[2]) + 2:
        return None
    return convolution_output(shapes, parameters, op_type)


def parameters_text(op_type: str, parameters: Mapping[str, Any]) -> str:
    """Return the parameters of a convolution as in DLProf's iteration report.

    ``<SH:2, SW:2>; <PH:3, PW:3>; <DH:1, DW:1>; <G:1>``: stride, padding, dilation, groups; empty
    if all have PyTorch's defaults, and for any other op. ``parameters`` have PyTorch's names.
    """
    found = _CONVOLUTION.match(op_type)
    if found is None or not parameters:
        return ""
    axes = _AXES[int(found[2])]
    parts, is_default = [], True
    for letter, name, default in _DEFAULTS:
        values = per_dimension(parameters.get(name), len(axes), default)
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
    """Return the arguments of a call besides tensors, for most ops as ``<p:0.1>; <train:True>``."""
    if _CONVOLUTION.match(op_type):
        return parameters_text(op_type, arguments)
    return "; ".join(f"<{name}:{value}>" for name, value in arguments.items())


def shape_text(op_type: str, shapes_json: str, *, output: bool = False) -> str:
    """Return the shapes as in DLProf's iteration report.

    Args:
        op_type: Type of the op; convolutions and linear layers have names of dimensions.
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
        # A number or a missing bias is recorded as an empty list.
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
