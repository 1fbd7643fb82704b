"""Convolutions of one to three dimensions, plain, grouped and transposed.

2 N K P Q (C/g) R S operations, forward and for each gradient (``torch.utils.flop_counter``; PyProf,
"2*N*K*P*Q*C*R*S/g"); a transposed convolution swaps the roles of input and output. The weight's
second dimension is already C/g. PyProf used the kernels' names and counted 0 for unknown ones, and
groups per kernel; here the op is counted as a whole, whatever kernels cuDNN runs.
"""

from __future__ import annotations

from dataclasses import replace

from aggregator.costs.formulas.call import UNKNOWN, Cost, Formula, OpCall, Shape, elements, named
from aggregator.frameworks.shapes import batched


def _is_transposed(call: OpCall, image: Shape, weight: Shape, output: Shape) -> bool:
    """By the op around the call, else by the channels, and if both fit, by the larger image."""
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


def forward(call: OpCall) -> Cost:
    """``convolution(x, W, b, ...)``; the output's sizes must be known."""
    image, weight = call.argument(0), call.argument(1)
    if call.output is None or not image or not weight:
        return UNKNOWN
    output = batched(call.output, weight)
    flops = _operations(call, batched(image, weight), weight, output)
    if flops is None:
        return UNKNOWN
    bias = call.argument(2)
    read = elements(image) + elements(weight) + (elements(bias) if len(bias) == 1 else 0)
    return Cost(flops, call.traffic(read, elements(output)), is_matrix=True)


def backward(call: OpCall) -> Cost:
    """``convolution_backward(dy, x, W, ...)``: the gradients of the input and of the weight."""
    gradient, image, weight = (call.argument(position) for position in range(3))
    if not gradient or not image or not weight:
        return UNKNOWN
    flops = _operations(call, batched(image, weight), weight, batched(gradient, weight))
    if flops is None:
        return UNKNOWN
    gradients = 1 if call.one_gradient else 2
    read = gradients * elements(gradient) + elements(image)
    written = elements(weight)
    if gradients == 2:
        read, written = read + elements(weight), written + elements(image)
    return Cost(gradients * flops, call.traffic(read, written), is_matrix=True)


def _weight_first(call: OpCall) -> Cost:
    """``cudnn_convolution_backward(x, dy, W)`` of PyTorch up to 1.10."""
    image, gradient, weight = (call.argument(position) for position in range(3))
    return backward(replace(call, shapes=(gradient, image, weight)))


_FORWARD = (
    "convolution _convolution cudnn_convolution cudnn_convolution_transpose "
    "cudnn_convolution_relu cudnn_convolution_add_relu convolution_overrideable "
    "_conv_depthwise2d conv_depthwise3d slow_conv2d_forward _slow_conv2d_forward "
    "slow_conv3d_forward slow_conv_transpose2d slow_conv_transpose3d slow_conv_dilated2d "
    "slow_conv_dilated3d thnn_conv2d mkldnn_convolution miopen_convolution"
)
FORWARD = tuple(_FORWARD.split())

FORMULAS: dict[str, Formula] = {
    **named(_FORWARD, forward),
    "convolution_backward": backward,
    "convolution_backward_overrideable": backward,
    "cudnn_convolution_backward": _weight_first,
    "cudnn_convolution_transpose_backward": _weight_first,
}
