"""Traits of a kernel by its name, worked out once per distinct name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np

from aggregator.kernels.element_types import ElementTypes, read_element_types
from aggregator.kernels.readable import readable_name
from aggregator.kernels.source_ops import source_ops
from aggregator.kernels.tensor_cores import (
    HELPERS,
    Capability,
    Verdict,
    apply_rules,
    limit_to_gpu,
    may_multiply,
    says_nothing,
)
from aggregator.profile.arrays import Bool, Int32

ASSUMED_CAPABILITY: Final[Capability] = (9, 0)
"""For a GPU whose compute capability was not recorded."""

# NCCL, RCCL, NVSHMEM, and the all-reduce kernels of PyTorch, vLLM and TensorRT-LLM.
_COMMUNICATION = re.compile(
    r"^(?:void )?(?:nccl(?:DevKernel|Kernel|SymkDevKernel|Symk)|rccl|nvshmem|.*cross_device_reduce"
    r"|.*multimem_all|.*one_shot_all_reduce|.*two_shot_all_reduce|.*all_reduce_kernel)",
    re.IGNORECASE,
)
# Library names that carry their operand type: cuDNN/CUTLASS (f16f16, bf16, h884), cuBLAS
# (nvjet_hsh, nvjet_tst: h = half, t = bfloat16, q/o = 8 bits), attention kernels (16 bits only but
# for the memory-efficient ones, which name their type).
_HALF_PRECISION = re.compile(
    r"f16|half|h884|h1688|h16816|hgemm|nvjet_(?:sm\d+_)?[htqo]|e4m3|e5m2|flash|fmha(?!_cutlass[fb]_f32)|s8_|_s8|i8816|i16832",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class KernelTraits:
    """Properties of all kernels of one name."""

    name: str  # Demangled name, with template arguments.

    @cached_property
    def is_communication(self) -> bool:
        """Whether the kernel belongs to a collective or a point-to-point transfer."""
        return _COMMUNICATION.search(self.name) is not None

    @cached_property
    def is_half_precision(self) -> bool:
        """Whether the name has operands of 16 bits or fewer.

        Only meaningful for kernels that use Tensor Cores: others name types for other reasons.
        """
        return _HALF_PRECISION.search(self.name) is not None

    @cached_property
    def element_types(self) -> ElementTypes:
        """Types of the elements read and written."""
        return read_element_types(self.name)

    @cached_property
    def readable_name(self) -> str:
        """Library, operation, types, tile and layout; other kernels may have the same."""
        return readable_name(self.name, self.element_types)

    @cached_property
    def source_ops(self) -> tuple[str, ...]:
        """Ops that TorchInductor fused into it; empty: it did not generate the kernel."""
        return source_ops(self.name)

    def tensor_cores(self, compute_capability: Capability) -> Verdict:
        """Whether the kernel runs Tensor Core instructions on a GPU, and the rule that decided."""
        return limit_to_gpu(*self._verdict, compute_capability)

    @cached_property
    def is_helper(self) -> bool:
        """Whether it prepares or finishes another kernel's product, or moves data between GPUs."""
        return self._verdict[0].evidence in HELPERS

    @cached_property
    def may_multiply(self) -> bool:
        """Whether its name leaves it possible that it computes a matrix product."""
        return may_multiply(self._verdict[0])

    @cached_property
    def is_clear(self) -> bool:
        """Whether its name says what it computes."""
        return not says_nothing(self._verdict[0])

    @cached_property
    def _verdict(self) -> tuple[Verdict, Capability]:
        return apply_rules(self.name)


@lru_cache(maxsize=65_536)
def kernel_traits(name: str) -> KernelTraits:
    """Return the traits of a kernel by its demangled name."""
    return KernelTraits(name)


def communication_kernels(names: Sequence[str]) -> Bool:
    """Return whether each kernel belongs to a collective or a point-to-point transfer."""
    return np.array([kernel_traits(name).is_communication for name in names], dtype=bool)


def half_precision_kernels(names: Sequence[str]) -> Bool:
    """Return whether each kernel has operands of 16 bits or fewer, if it uses Tensor Cores."""
    return np.array([kernel_traits(name).is_half_precision for name in names], dtype=bool)


def tensor_core_kernels(names: Sequence[str], capabilities: Sequence[Capability | None]) -> Int32:
    """Whether each kernel uses Tensor Cores, on the GPU it ran on: 1 yes, 0 no, -1 unknown."""
    pairs = zip(names, capabilities, strict=True)
    answers = [
        kernel_traits(name).tensor_cores(capability or ASSUMED_CAPABILITY).uses_tc
        for name, capability in pairs
    ]
    return np.array([-1 if answer is None else answer for answer in answers], dtype=np.int32)
