"""Operand precision of Tensor Core kernels, told by their names."""

from __future__ import annotations

import re

# Library names that carry their operand type: cuDNN/CUTLASS (f16f16, bf16, h884), cuBLAS
# (nvjet_hsh, nvjet_tst: h = half, t = bfloat16, q/o = 8 bits), attention kernels (16 bits only).
_HALF = re.compile(
    r"f16|half|h884|h1688|h16816|hgemm|nvjet_(?:sm\d+_)?[htqo]|e4m3|e5m2|flash|fmha|s8_|_s8|i8816|i16832",
    re.IGNORECASE,
)


def is_half_precision(demangled_name: str) -> bool:
    """Whether a kernel's name tells of operands of 16 bits or fewer.

    Only meaningful for kernels that use Tensor Cores: others name types for other reasons.
    """
    return _HALF.search(demangled_name) is not None
