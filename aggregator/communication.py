"""Kernels that move data between GPUs: told by their names, as NCCL and its kin call them."""

from __future__ import annotations

import re

_COMMUNICATION = re.compile(
    r"^(?:void )?(?:nccl(?:DevKernel|Kernel|SymkDevKernel|Symk)|rccl|nvshmem|.*cross_device_reduce"
    r"|.*multimem_all|.*one_shot_all_reduce|.*two_shot_all_reduce|.*all_reduce_kernel)",
    re.IGNORECASE,
)


def is_communication(demangled_name: str) -> bool:
    """Whether a kernel belongs to a collective or point-to-point transfer."""
    return _COMMUNICATION.search(demangled_name) is not None
