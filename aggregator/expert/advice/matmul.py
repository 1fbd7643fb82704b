"""What matrix products ran on: shared by the advice on precision and Tensor Cores."""

from __future__ import annotations

import re

from aggregator.expert.advice.facts import Facts
from aggregator.profile import Bool

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
HALF_TYPES = frozenset({"float16", "bfloat16", "half"})
TF32_CAPABILITY = (8, 0)
"""First compute capability whose Tensor Cores take TF32."""
HALF_CAPABILITY = (7, 0)

TF32_OVER_FP32 = 4.0
"""How many times as fast products become at least; the peaks' ratio is 7.4 (H200) and 8 (A100)."""
HALF_OVER_FP32 = 6.0
"""The same for 16 bits; the peak ratio of an H200 is 14.8, of an A100 16."""
HALF_OVER_TF32 = 1.8
"""The same for 16 bits instead of TF32; the peak ratio is 2."""


def products(facts: Facts) -> Bool:
    """Launches of kernels that multiply matrices, for ops that can use Tensor Cores.

    What cannot use them for its shape (depthwise convolutions, matrix times vector) is left out.
    """
    names = [bool(_PRODUCT.search(n)) and not _HELPER.search(n) for n in facts.names.long]
    able = [
        bool(eligible) and fit != 0
        for eligible, fit in zip(facts.ops.eligible.tolist(), facts.ops.fit, strict=True)
    ]
    rows: Bool = facts.kernels & facts.named(names) & facts.of_ops(able)
    return rows


def on_fp32_units(facts: Facts) -> Bool:
    """Of ``products`` those whose kernels surely run no Tensor Core instructions."""
    rows: Bool = products(facts) & (facts.verdict == 0)
    return rows


def in_half(facts: Facts) -> Bool:
    """Of ``products`` those on Tensor Cores with 16-bit operands or fewer."""
    rows: Bool = products(facts) & (facts.verdict == 1) & facts.half
    return rows


def in_tf32(facts: Facts) -> Bool:
    """Of ``products`` those on Tensor Cores with wider operands."""
    rows: Bool = products(facts) & (facts.verdict == 1) & ~facts.half
    return rows


def all_gpus_have(facts: Facts, capability: tuple[int, int]) -> bool | None:
    """Whether every GPU has at least a compute capability; None: not recorded."""
    known = [gpu.capability for gpu in facts.gpus]
    if not known or any(one is None for one in known):
        return None
    return all(one is not None and one >= capability for one in known)
