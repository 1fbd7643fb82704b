"""Matrix products by the units they ran on, for the advisers on precision and Tensor Cores."""

from __future__ import annotations

import re

from aggregator.advice.facts import Facts
from aggregator.profile.arrays import Bool

_PRODUCT = re.compile(
    r"gemm|convolve|conv2d_grouped|fprop|dgrad|wgrad|winograd|cutlass|nvjet|xmma|implicit_con|gemv"
    r"|fmha|flash",
    re.I,
)
_HELPER = re.compile(
    r"splitK\w*reduce|nchwToNhwc|nhwcToNchw|convertTensor|scalePackedTensor|depthwise|elementwise"
    r"|computeOffsets|init_device_workspace",
    re.I,
)
TF32_CAPABILITY = (8, 0)  # First compute capability whose Tensor Cores support TF32.
HALF_CAPABILITY = (7, 0)


def products(facts: Facts) -> Bool:
    """Return which work is a matrix product of an op that can use Tensor Cores.

    Depthwise convolutions and matrix-vector products, whose shapes do not fit, are excluded.
    """
    names = [bool(_PRODUCT.search(n)) and not _HELPER.search(n) for n in facts.names.long]
    # Without ops only the names of the kernels say what they compute.
    able = [
        facts.mode == "simple" or (bool(eligible) and fit != 0)
        for eligible, fit in zip(facts.ops.eligible.tolist(), facts.ops.fit, strict=True)
    ]
    rows: Bool = facts.kernels & facts.named(names) & facts.of_ops(able)
    return rows


def on_fp32_units(facts: Facts) -> Bool:
    """Return which ``products`` certainly run no Tensor Core instructions."""
    rows: Bool = products(facts) & (facts.verdict == 0)
    return rows


def in_half(facts: Facts) -> Bool:
    """Return which ``products`` run on Tensor Cores with operands of 16 bits or fewer."""
    rows: Bool = products(facts) & (facts.verdict == 1) & facts.half
    return rows


def in_tf32(facts: Facts) -> Bool:
    """Return which ``products`` run on Tensor Cores with wider operands."""
    rows: Bool = products(facts) & (facts.verdict == 1) & ~facts.half
    return rows


def all_gpus_have(facts: Facts, capability: tuple[int, int]) -> bool | None:
    """Return whether every GPU has at least a compute capability; None if unknown."""
    known = [gpu.capability for gpu in facts.gpus]
    if not known or any(value is None for value in known):
        return None
    return all(value is not None and value >= capability for value in known)
