"""Decide by type, element type, shape and GPU whether an op can use Tensor Cores.

DLProf decided by the type alone, which remains the standard column. This answer is an additional
column with its reason, unknown if the profile lacks a value. References: element types per compute
capability are from NVIDIA's CUDA C++ Programming Guide (warp matrix functions); shapes need no
alignment since cuBLAS 11 and cuDNN 7.6.3, although it helps; depthwise convolutions run scalar
kernels, as measured with hardware counters on an H200.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from aggregator.system.untrusted_json import read_list

# First compute capability whose Tensor Cores support the element type.
_FIRST_CAPABILITY = {
    "float16": (7, 0),
    "half": (7, 0),
    "int8": (7, 2),
    "uint8": (7, 2),
    "bfloat16": (8, 0),
    "float32": (8, 0),
    "float64": (8, 0),
    "float8_e4m3fn": (8, 9),
    "float8_e5m2": (8, 9),
}
_TF32_TYPES = frozenset({"float32"})
NEEDS_CAPABILITY = "needs compute capability"
"""Part of the reason why an op cannot use Tensor Cores that another element type would lift."""


class Eligibility(NamedTuple):
    """An answer with its reason; ``None`` is unknown."""

    eligible: bool | None
    reason: str


class Ran(IntEnum):
    """What an op's kernels compute, by their names; of several kernels the highest counts."""

    NOTHING = 0
    """It ran no kernel."""
    OTHER = 1
    """No matrix product."""
    UNCLEAR = 2
    """The names do not say."""
    UNRECORDED = 3
    """CUDA graphs that were recorded as a whole."""
    PRODUCT = 4
    """A matrix product or convolution, on scalar units as far as the name says."""
    TENSOR_CORES = 5


_UNKNOWN = {
    Ran.UNCLEAR: "its kernels' names do not say what they compute",
    Ran.UNRECORDED: "the kernels of its CUDA graphs were not recorded",
}


def tensor_core_eligibility(
    op_type: str,
    data_type: str,
    input_shapes: str,
    capability: tuple[int, int] | None,
    *,
    by_type: bool,
    ran: Ran,
) -> Eligibility:
    """Judge one op: by its kernels first, then by shapes and element type, last by its name.

    Args:
        op_type: Kind of op.
        data_type: Element type; empty: not recorded.
        input_shapes: JSON list of the input shapes; empty: not recorded.
        capability: Compute capability of the GPU; None: unknown.
        by_type: Whether the type alone makes it eligible.
        ran: What its kernels compute.
    """
    if ran is Ran.TENSOR_CORES:
        return Eligibility(eligible=True, reason="it ran Tensor Core kernels")
    if ran is Ran.OTHER:
        return Eligibility(eligible=False, reason="its kernels compute no matrix product")
    if ran in _UNKNOWN and not by_type:
        return Eligibility(eligible=None, reason=_UNKNOWN[ran])
    if not by_type and ran is not Ran.PRODUCT:
        return Eligibility(eligible=False, reason=f"{op_type} does no matrix multiplication")
    if capability is not None and capability < (7, 0):
        return Eligibility(eligible=False, reason="the GPU has no Tensor Cores")
    return _judge_shape(op_type, input_shapes) or _judge_type(data_type, capability)


def _judge_type(data_type: str, capability: tuple[int, int] | None) -> Eligibility:
    if not data_type:
        return Eligibility(eligible=None, reason="the element type was not recorded")
    first = _FIRST_CAPABILITY.get(data_type.removeprefix("torch."))
    if first is None:
        return Eligibility(eligible=False, reason=f"Tensor Cores do not take {data_type}")
    if capability is None:
        return Eligibility(eligible=None, reason="the GPU's compute capability was not recorded")
    if capability < first:
        text = f"{data_type} {NEEDS_CAPABILITY} {first[0]}.{first[1]}"
        return Eligibility(eligible=False, reason=text)
    how = ", as TF32 where that is allowed" if data_type in _TF32_TYPES else ""
    return Eligibility(eligible=True, reason=f"Tensor Cores take {data_type}{how}")


def _judge_shape(op_type: str, input_shapes: str) -> Eligibility | None:
    """Return the answer if the shapes exclude Tensor Cores, otherwise None."""
    shapes = _parse(input_shapes)
    if len(shapes) < 2:
        return None
    if op_type.startswith("conv") and "transpose" not in op_type:
        image, weight = shapes[0], shapes[1]
        if len(weight) >= 3 and len(image) == len(weight) and weight[1] == 1 and image[1] > 1:
            return Eligibility(eligible=False, reason="a depthwise convolution runs scalar kernels")
    if op_type in ("mv", "addmv") or (op_type == "matmul" and min(map(len, shapes[:2])) < 2):
        return Eligibility(eligible=False, reason="a matrix times a vector runs scalar kernels")
    if any(0 in shape for shape in shapes[:2]):
        return Eligibility(eligible=False, reason="an input is empty")
    return None


def _parse(input_shapes: str) -> list[list[int]]:
    return [
        shape
        for shape in read_list(input_shapes)
        if isinstance(shape, list) and shape and all(isinstance(size, int) for size in shape)
    ]
