"""Kernels of operators that today's PyTorch recorded with their sizes, without PyProf's markers."""

from __future__ import annotations

from typing import Any

from aggregator.flops.cost import OpCall
from aggregator.flops.kernel_types import SIZES, kernel_types
from aggregator.flops.registry import count
from aggregator.pyprof.calls import Args, Kernel, OpCost
from aggregator.pyprof.matrix_ops import is_helper
from aggregator.pyprof.tensors import parameters


def operator_cost(name: str, args: Args, number: object, kernel: Kernel) -> OpCost:
    """Cost of one kernel of an operator.

    The first kernel stands for the operator; of a convolution each that computes, for one gradient.

    Args:
        name: The operator.
        args: Its arguments, sizes only.
        number: Number of the kernel within the call of the operator.
        kernel: The kernel; its name tells the element type.
    """
    types = kernel_types(kernel.long_name)
    shapes = tuple(tuple(arg.get("shape", ())) for arg in args)
    shown: dict[str, Any] = {"T": [shape for shape in shapes if shape]}
    params = parameters(shown | ({"type": types.read} if types.read else {}))
    is_convolution = "convolution" in name
    whole = count(
        OpCall(
            name,
            shapes,
            SIZES.get(types.read),
            SIZES.get(types.write or types.read),
            one_gradient=True,
        )
    )
    tc = str(kernel.tensor_cores) if whole.is_matrix or is_convolution else "-"
    if is_helper(kernel.long_name) if is_convolution else number != 0:
        return OpCost(name, params, tc, 0, 0)
    return OpCost(name, params, tc, whole.flops, whole.num_bytes)
