"""Kernels of operators recorded with their sizes by current PyTorch, without PyProf's markers."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from aggregator.costs.formulas.call import OpCall
from aggregator.costs.formulas.registry import count
from aggregator.kernels.element_types import SIZES
from aggregator.kernels.traits import kernel_traits
from profiler_cli.pyprof.calls import Args, Kernel, OpCost, parameters
from profiler_cli.pyprof.matrix_ops import is_helper

# Kernels of which several compute one gradient or one FFT together. A plain product is not among
# them: it may be either gradient of a Winograd convolution.
_SHARED = re.compile("cf32cf32|cgemm|Cgemm|fprop|dgrad|wgrad")


@lru_cache(maxsize=65536)
def shared_kind(long_name: str) -> str:
    """Kind of kernels that compute one result of a convolution together; empty: each its own."""
    found = None if is_helper(long_name) else _SHARED.search(long_name)
    return found[0] if found else ""


def operator_cost(marker: dict[str, Any], args: Args, kernel: Kernel) -> OpCost:
    """Return the cost of one kernel of an operator.

    The operator is counted for its first kernel; a convolution for each computing kernel, as one
    gradient.

    Args:
        marker: The operator's name, the number of the kernel within its call, how many kernels of
            its kind ran before it there, and its output's sizes where they are known.
        args: Its arguments, sizes only.
        kernel: The kernel; its name has the element type.
    """
    name = str(marker.get("op", ""))
    types = kernel_traits(kernel.long_name).element_types
    shapes = tuple(tuple(arg.get("shape", ())) for arg in args)
    shown: dict[str, Any] = {"T": [shape for shape in shapes if shape]}
    params = parameters(shown | ({"type": types.read} if types.read else {}))
    is_convolution = "convolution" in name
    output = marker.get("output")
    whole = count(
        OpCall(
            name,
            shapes,
            SIZES.get(types.read),
            SIZES.get(types.write or types.read),
            output=output if isinstance(output, tuple) else None,
            one_gradient=True,
        )
    )
    tc = str(kernel.tensor_cores) if whole.is_matrix or is_convolution else "-"
    is_counted = marker["kernel"] == 0
    if is_convolution:
        is_counted = not marker.get("again") and not is_helper(kernel.long_name)
    if not is_counted:
        return OpCost(name, params, tc, 0, 0)
    return OpCost(name, params, tc, whole.flops, whole.num_bytes)
