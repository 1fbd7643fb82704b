"""Sizes of a call's output from the sizes and parameters of its arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping

from aggregator.costs.formulas.call import Shape, elements
from aggregator.frameworks.shapes import convolution_output, per_dimension

_UPSAMPLE = re.compile(r"upsample_\w+?([123])d$")
_POOL = re.compile(r"_?(adaptive_)?(?:max|avg)_pool([123])d(?:_with_indices)?$")


def output_sizes(
    name: str, shapes: tuple[Shape, ...], parameters: Mapping[str, object]
) -> Shape | None:
    """Output of a convolution, pool, interpolation or selection; None: unknown.

    Args:
        name: Operator without namespace.
        shapes: Sizes of the arguments.
        parameters: By the names of PyTorch's schemas.
    """
    if found := _POOL.match(name):
        image = shapes[0] if shapes else ()
        dims = int(found[2])
        return _adaptive(image, dims, parameters) if found[1] else _pool(image, dims, parameters)
    if name == "index_select":
        return _selected(shapes, parameters.get("dim"))
    if found := _UPSAMPLE.match(name):
        return _upsampled(shapes[0] if shapes else (), int(found[1]), parameters)
    transposed = "transpose" in name or parameters.get("transposed") is True
    kind = "conv_transpose" if transposed else "conv"
    return convolution_output(shapes, parameters, kind)


def _selected(shapes: tuple[Shape, ...], dim: object) -> Shape | None:
    """``index_select(x, dim, index)``: the size along ``dim`` is the length of the index."""
    image, *indices = [shape for shape in shapes if shape] or [()]
    if type(dim) is not int or len(indices) != 1 or not -len(image) <= dim < len(image):
        return None
    sizes = list(image)
    sizes[dim] = elements(indices[0])
    return tuple(sizes)


def _upsampled(image: Shape, dims: int, parameters: Mapping[str, object]) -> Shape | None:
    """The requested size, or floor(size times scale)."""
    scales = parameters.get("scales")
    if "output_size" in parameters or not isinstance(scales, list) or len(scales) != dims:
        return _adaptive(image, dims, parameters)
    if len(image) <= dims or not all(isinstance(scale, int | float) for scale in scales):
        return None
    return (*image[:-dims], *(int(h * s) for h, s in zip(image[-dims:], scales, strict=True)))


def _adaptive(image: Shape, dims: int, parameters: Mapping[str, object]) -> Shape | None:
    size = per_dimension(parameters.get("output_size"), dims)
    return (*image[:-dims], *size) if size and len(image) > dims else None


def _pool(image: Shape, dims: int, parameters: Mapping[str, object]) -> Shape | None:
    """``torch.nn.MaxPool2d``'s formula; without a stride the kernel's size is the stride."""
    kernel = per_dimension(parameters.get("kernel_size"), dims)
    stride = per_dimension(parameters.get("stride") or parameters.get("kernel_size"), dims)
    padding = per_dimension(parameters.get("padding", 0), dims)
    dilation = per_dimension(parameters.get("dilation", 1), dims)
    if len(image) <= dims or not (kernel and stride and padding and dilation) or 0 in stride:
        return None
    rounds_up = parameters.get("ceil_mode") is True
    result = []
    for h, k, s, p, d in zip(image[-dims:], kernel, stride, padding, dilation, strict=True):
        rest = h + 2 * p - d * (k - 1) - 1
        size = (-(-rest // s) if rounds_up else rest // s) + 1
        # The last window must begin within the image or its left padding.
        if rounds_up and (size - 1) * s >= h + p:
            size -= 1
        result.append(size)
    return (*image[:-dims], *result) if min(result) > 0 else None
