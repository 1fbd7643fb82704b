"""What the formulas of PyProf's ops work on, and what they give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aggregator.pyprof.tensors import UnknownCallError
from aggregator.tensor_cores import classify

Args = list[dict[str, Any]]


@dataclass(frozen=True)
class Kernel:
    """What of a kernel decides its part of an op's cost.

    Attributes:
        name: Short name.
        long_name: Demangled name.
        direction: ``fprop`` or ``bprop``.
        sub: Number among the kernels of its op.
        grid: Blocks, ``80,1,1``.
    """

    name: str
    long_name: str
    direction: str
    sub: int
    grid: str

    @property
    def is_forward(self) -> bool:
        """Whether it is of the forward pass."""
        return self.direction == "fprop"

    @property
    def tensor_cores(self) -> int:
        """1 if it runs Tensor Core instructions."""
        return int(classify([self.long_name], (9, 0))[0] == 1)


@dataclass(frozen=True)
class OpCost:
    """Values of a kernel's columns.

    Attributes:
        op: Name to show.
        params: Parameters.
        tc: 1 or 0; ``-``: the op has no use for Tensor Cores.
        flops: None: unknown.
        num_bytes: None: unknown. Unit: bytes.
    """

    op: str
    params: str
    tc: str
    flops: int | None
    num_bytes: int | None


def unnamed(args: Args) -> Args:
    """Arguments given by position."""
    return [arg for arg in args if arg.get("name", "") == ""]


def need(*, fits: bool) -> None:
    """Leave the values unknown where a marker does not hold together.

    Raises:
        UnknownCallError: It does not.
    """
    if not fits:
        raise UnknownCallError
