"""Convolutions of one to three dimensions, plain, grouped and transposed.

2 N K P Q (C/g) R S operations, forward and for each gradient (``torch.utils.flop_counter``; PyProf,
"2*N*K*P*Q*C*R*S/g"); a transposed convolution swaps the roles of input and output. The weight's
second dimension is C/g already. PyProf looked at kernel names and counted 0 for any that it did not
know, and at groups per kernel; here the op is counted as a whole, whatever cuDNN makes of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aggregator.flops.cost import UNKNOWN, Cost, OpCall, Shape, elements

if TYPE_CHECKING:
    from collections.abc import Callable


def _is_transposed(call: OpCall, image: Shape, weight: Shape, output: Shape) -> bool:
    """The op around it tells; otherwise the channels, and where both fit, the larger image."""
    if "transpose" in call.context or "transpose" in call.name:
        return True
    if call.context.startswith("conv"):
        return False
    plain = output[1] == weight[0] and image[1] % weight[1] == 0
    swapped = image[1] == weight[0] and output[1] % weight[1] == 0
    if plain and swapped:
        return elements(output[2:]) > elements(image[2:])
    return swapped


def _operations(call: OpCall, image: Shape, weight: Shape, output: Shape) -> int | None:
    if len(image) < 3 or not len(image) == len(weight) == len(output) or image[0] != output[0]:
        return None
    base = image if _is_transposed(call, image, weight, output) else output
    if base[1] != weight[0]:
        return None
    return 2 * elements(base) * elements(weight[1:])


def _batched(shape: Shape, weight: Shape) -> Shape:
    """An image without a batch dimension gets one."""
    return (1, *shape) if len(shape) == len(weight) - 1 else shape


def forward(call: OpCall) -> Cost:
    """``convolution(x, W, b, ...)``; the output's sizes have to be known from elsewhere."""
    image, weight = call.argument(0), call.argument(1)
    if call.output is None or not image or not weight:
        return UNKNOWN
    output = _batched(call.output, weight)
    flops = _operations(call, _batched(image, weight), weight, output)
    if flops is None:
        return UNKNOWN
    bias = call.argument(2)
    read = elements(image) + elements(weight) + (elements(bias) if len(bias) == 1 else 0)
    return Cost(flops, call.traffic(read, elements(output)), is_matrix=True)


def backward(call: OpCall) -> Cost:
    """``convolution_backward(dy, x, W, ...)``: the gradients of the input and of the weight."""
    gradient, image, weight = (call.argument(position) for position in range(3))
    return _backward(call, gradient, image, weight)


def _weight_first(call: OpCall) -> Cost:
    """``cudnn_convolution_backward(x, dy, W)`` of PyTorch up to 1.10."""
    image, gradient, weight = (call.argument(position) for position in range(3))
    return _backward(call, gradient, image, weight)


def _backward(call: OpCall, gradient: Shape, image: Shape, weight: Shape) -> Cost:
    if not gradient or not image or not weight:
        return UNKNOWN
    flops = _operations(call, _batched(image, weight), weight, _batched(gradient, weight))
    if flops is None:
        return UNKNOWN
    gradients = 1 if call.one_gradient else 2
    read = gradients * elements(gradient) + elements(image)
    written = elements(weight)
    if gradients == 2:
        read, written = read + elements(weight), written + elements(image)
    return Cost(gradients * flops, call.traffic(read, written), is_matrix=True)


FORWARD = (
    "convolution",
    "_convolution",
    "cudnn_convolution",
    "cudnn_convolution_transpose",
    "cudnn_convolution_relu",
    "cudnn_convolution_add_relu",
    "convolution_overrideable",
    "_conv_depthwise2d",
    "conv_depthwise3d",
    "slow_conv2d_forward",
    "_slow_conv2d_forward",
    "slow_conv3d_forward",
    "slow_conv_transpose2d",
    "slow_conv_transpose3d",
    "slow_conv_dilated2d",
    "slow_conv_dilated3d",
    "thnn_conv2d",
    "mkldnn_convolution",
    "miopen_convolution",
)

FORMULAS: dict[str, Callable[[OpCall], Cost]] = {
    **dict.fromkeys(FORWARD, forward),
    "convolution_backward": backward,
    "convolution_backward_overrideable": backward,
    "cudnn_convolution_backward": _weight_first,
    "cudnn_convolution_transpose_backward": _weight_first,
}


def output_shape(
    shapes: tuple[Shape, ...], parameters: dict[str, object], kind: str
) -> Shape | None:
    """Output of a convolution from its parameters, as PyTorch documents it for each module.

    Args:
        shapes: Sizes of image and weight.
        parameters: ``stride``, ``padding``, ``dilation``, ``groups``, ``output_padding``.
        kind: Op or module name; ``transpose`` in it decides.
    """
    if (
        len(shapes) < 2
        or len(shapes[1]) < 3
        or len(_batched(shapes[0], shapes[1])) != len(shapes[1])
    ):
        return None
    image, weight = _batched(shapes[0], shapes[1]), shapes[1]
    dims = len(weight) - 2
    stride = _sizes(parameters.get("stride"), 1, dims)
    padding = _sizes(parameters.get("padding"), 0, dims)
    dilation = _sizes(parameters.get("dilation"), 1, dims)
    if stride is None or dilation is None or 0 in stride:
        return None
    if parameters.get("padding") == "same":
        return (image[0], weight[0], *image[2:])
    padding = (0,) * dims if parameters.get("padding") == "valid" else padding
    reach = [d * (r - 1) for d, r in zip(dilation, weight[2:], strict=True)]
    if padding is None:
        return None
    if "transpose" in kind.lower():
        return _transposed_shape(image, weight, parameters, (stride, padding, tuple(reach)))
    sizes = [
        (h + 2 * p - k - 1) // s + 1
        for h, s, p, k in zip(image[2:], stride, padding, reach, strict=True)
    ]
    return (image[0], weight[0], *sizes)


def _transposed_shape(
    image: Shape,
    weight: Shape,
    parameters: dict[str, object],
    how: tuple[Shape, Shape, Shape],
) -> Shape | None:
    stride, padding, reach = how
    more = _sizes(parameters.get("output_padding"), 0, len(reach))
    groups = parameters.get("groups", 1)
    if more is None or not isinstance(groups, int):
        return None
    sizes = [
        (h - 1) * s - 2 * p + k + o + 1
        for h, s, p, k, o in zip(image[2:], stride, padding, reach, more, strict=True)
    ]
    return (image[0], weight[1] * groups, *sizes)


def _sizes(value: object, default: int, dims: int) -> tuple[int, ...] | None:
    """One size per dimension; None: the value is none."""
    if value is None:
        return (default,) * dims
    if isinstance(value, int):
        return (value,) * dims
    if isinstance(value, list | tuple) and all(isinstance(size, int) for size in value):
        if len(value) == dims:
            return tuple(value)
        return tuple(value) * dims if len(value) == 1 else None
    return None
