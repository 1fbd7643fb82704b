"""Matrix products, linear layers and convolutions, kernel by kernel."""

from __future__ import annotations

import re
from math import prod
from typing import Any

from aggregator.costs.formulas import convolution
from aggregator.costs.formulas.call import OpCall
from aggregator.costs.formulas.matrix import product
from aggregator.frameworks.shapes import convolution_output
from profiler_cli.pyprof.calls import (
    Args,
    Kernel,
    OpCost,
    item_size,
    parameters,
    require_consistent,
    unnamed,
)


def _product(left: dict[str, Any], right: dict[str, Any]) -> tuple[int, int]:
    """Return the operations and bytes of a matrix product."""
    size = item_size(left["dtype"])
    cost = product(OpCall("", (), size, size), tuple(left["shape"]), tuple(right["shape"]))
    require_consistent(fits=cost.flops is not None and cost.num_bytes is not None)
    return cost.flops or 0, cost.num_bytes or 0


def mm(op: str, args: Args, kernel: Kernel) -> OpCost:
    """Count ``mm(A, B)``, ``bmm``, and ``addmm(C, A, B)``, whose C PyProf does not count."""
    tensors = [arg for arg in unnamed(args) if arg["type"] == "tensor"]
    left, right = tensors[-2:]
    require_consistent(fits=len(tensors) == 2 + op.startswith("addmm"))
    require_consistent(fits=len(left["shape"]) == len(right["shape"]) == 2 + (op == "bmm"))
    *batch, rows, inner = left["shape"]
    # PyProf names M what cuBLAS does, the columns.
    shown = {"B": batch[0]} if batch else {}
    shown |= {"M": right["shape"][-1], "N": rows, "K": inner, "type": left["dtype"]}
    return OpCost(op, parameters(shown), str(kernel.tensor_cores), *_product(left, right))


_NO_GEMM = ("kernelPointwiseApply2", "reduce_1Block_kernel", "elementwise_kernel")


def matmul(op: str, args: Args, kernel: Kernel) -> OpCost:
    """``matmul``: vectors, matrices, stacks that broadcast; or a helper kernel of one."""
    left, right = args[:2]
    a, b, dtype = tuple(left["shape"]), tuple(right["shape"]), left["dtype"]
    params = parameters({"A": a, "B": b, "type": dtype})
    if kernel.name in _NO_GEMM:
        return OpCost(op, params, "-", 0, 2 * item_size(dtype) * prod(a))
    tc = "-" if kernel.name == "dot_kernel" else str(kernel.tensor_cores)
    return OpCost(op, params, tc, *_product(left, right))


_GEMM_KERNEL = re.compile(
    r"gemm|gemv|dot_kernel|splitKreduce|reduce_1Block_kernel|cutlass|nvjet|xmma|Kernel2"
)
_SPLIT_KERNEL = re.compile(r"splitK_?reduce|reduce_1Block_kernel")


def linear(op: str, args: Args, kernel: Kernel) -> OpCost:
    """Count ``linear``: its product, the bias, and the kernel that adds up a split product."""
    image, weight = args[:2]
    *lead, inner = image["shape"]
    outputs, inner_weight = weight["shape"]
    require_consistent(fits=inner == inner_weight)
    rows, dtype = prod(lead), image["dtype"]
    shown = lead[0] if len(lead) == 1 else tuple(lead)
    size = item_size(dtype)
    if not _GEMM_KERNEL.search(kernel.long_name):
        # The backward of the bias is a reduction: its writes are negligible.
        moved = (2 if kernel.is_forward else 1) * outputs * rows * size
        params = parameters({"M": outputs, "N": shown, "type": dtype})
        return OpCost("bias", params, "-", outputs * rows, moved)
    tc = str(kernel.tensor_cores)
    names: dict[str, Any] = {"M": outputs, "N": shown, "K": inner, "type": dtype}
    if not kernel.is_forward and kernel.sub == 0:  # of the input, most likely
        names |= {"M": inner, "K": outputs}
    elif not kernel.is_forward and kernel.sub == 1:  # of the weight, most likely
        names |= {"M": inner, "N": outputs, "K": shown}
    elif not kernel.is_forward or _SPLIT_KERNEL.search(kernel.name):
        shapes = {"X": tuple(image["shape"]), "W": tuple(weight["shape"]), "type": dtype}
        return OpCost(op, parameters(shapes), tc, 0, 0)
    moved = size * (outputs * rows + outputs * inner + rows * inner)
    return OpCost(op, parameters(names), tc, 2 * outputs * rows * inner, moved)


# Kernels that change layouts or transform for the computing kernel.
_CONV_HELPER = re.compile(
    r"im2col|nchwToNhwc|nhwcToNchw|OffsetsKernel|generateWinogradTiles|winogradWgrad|winograd\w*(?:Data|Delta"
    r"|Output|Filter)|gemm_pointers|flip_filter|fft[12]d_|scaleTensor|scalePacked|init_device"
    r"|splitK_?reduce|ranspose|elementwise_kernel|reduce_wgrad|copy_kernel|convertTensor"
    r"|generic4Channel|op_generic_tensor|op_tensor|add_?[Tt]ensor|tensorTransform|Folded"
    r"|precompute_indices|[Ff]ill_kernel|setTensor"
)


# For a grouped convolution, cuDNN 7 ran such a kernel for each group.
_ONE_GROUP = re.compile(
    r"_s(?:884|1688)?cudnn_|implicit_convolve_sgemm|dgrad2d_alg1_1|wgrad_alg0_engine|dgrad_engine"
    r"|dgrad_1x1_stride_2x2|winograd3x3Kernel|_sgemm_|CgemmLDS128_batched|_gcgemm_"
)


def is_helper(long_name: str) -> bool:
    """Return whether a convolution's kernel only changes layouts or transforms."""
    return _CONV_HELPER.search(long_name) is not None


_CONV_NAMES = ("N", "C", "H", "W", "K", "P", "Q", "R", "S", "ph", "pw", "U", "V", "dh", "dw", "g")


def _argument(args: Args, position: int, name: str, default: int) -> Any:
    if len(args) > position and args[position].get("name", "") == "":
        return args[position].get("value", default)
    for arg in args:
        if arg.get("name") == name:
            return arg.get("value", default)
    return default


def _pair(value: Any) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    values = tuple(value)
    return (values[0], values[-1]) if values else (0, 0)


def conv(op: str, args: Args, kernel: Kernel) -> OpCost:
    """Return a convolution: each computing kernel is all of it, or one of its gradients."""
    image, weight = tuple(args[0]["shape"]), tuple(args[1]["shape"])
    dtype = args[0]["dtype"]
    how = {
        name: _argument(args, position, name, default)
        for position, name, default in (
            (3, "stride", 1),
            (4, "padding", 0),
            (5, "dilation", 1),
            (6, "groups", 1),
        )
    }
    parameters_of = {name: list(v) if isinstance(v, tuple) else v for name, v in how.items()}
    output = convolution_output((image, weight), parameters_of, op)
    require_consistent(fits=output is not None)
    assert output is not None
    params, padding = "", how["padding"]
    if len(image) <= 4:
        one = len(image) == 3  # PyProf shows a one-dimensional one with H = R = P = 1
        (ph, pw), (u, v), (dh, dw) = (_pair(how[n]) for n in ("padding", "stride", "dilation"))
        values = [image[0], image[1], 1 if one else image[2], image[-1]]
        values += [weight[0], 1 if one else output[2], output[-1]]
        values += [1 if one else weight[2], weight[-1]]
        values += [0 if one else ph, pw, 1 if one else u, v, 1 if one else dh, dw, how["groups"]]
        params = parameters(dict(zip(_CONV_NAMES, values, strict=True)) | {"type": dtype})
    else:
        params = parameters({"T": [image, weight], "pad": padding, "type": dtype})
    tc = "1" if kernel.tensor_cores else "-"
    if "calc_bias_diff" in kernel.name:
        return OpCost(op, params, tc, prod(output), 2 * prod(output) * item_size(dtype))
    if is_helper(kernel.long_name):
        return OpCost(op, params, tc, 0, 0)
    size = item_size(dtype)
    cost = convolution.forward(OpCall("", (image, weight), size, size, output, context=op))
    require_consistent(fits=cost.flops is not None and cost.num_bytes is not None)
    parts = int(how["groups"]) if _ONE_GROUP.search(kernel.long_name) else 1
    return OpCost(op, params, tc, (cost.flops or 0) // parts, (cost.num_bytes or 0) // parts)
