"""Frameworks: what their NVTX ranges mean, one file each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aggregator.frameworks import pytorch, xla
from aggregator.frameworks.meaning import RangeMeaning
from aggregator.options import Mode
from aggregator.profile import DEFAULT_DOMAIN


@dataclass(frozen=True)
class Framework:
    """How the ranges of one framework are read.

    Attributes:
        mode: Its ``--mode``.
        title: Its name for people.
        domain: NVTX domain that it writes to.
        read_meaning: Classifies distinct range names.
        is_tc_eligible: Whether an op type can use Tensor Cores.
        has_direction: Whether forward and backward work can be told apart.
        advice: What to do when a profile has none of its ranges.
    """

    mode: Mode
    title: str
    domain: str
    read_meaning: Callable[[tuple[str, ...]], RangeMeaning]
    is_tc_eligible: Callable[[str], bool]
    has_direction: bool
    advice: str


PYTORCH = Framework(
    mode=Mode.PYTORCH,
    title="PyTorch",
    domain=DEFAULT_DOMAIN,
    read_meaning=pytorch.read_meaning,
    is_tc_eligible=pytorch.is_tc_eligible,
    has_direction=True,
    advice="Train under torch.autograd.profiler.emit_nvtx(), or use --mode=simple.",
)
JAX = Framework(
    mode=Mode.JAX,
    title="JAX",
    domain=xla.DOMAIN,
    read_meaning=xla.read_meaning,
    is_tc_eligible=xla.is_tc_eligible,
    has_direction=False,
    advice="Profile a JAX program with nsys -t cuda,nvtx, or use --mode=simple.",
)
FRAMEWORKS = (PYTORCH, JAX)
"""In the order in which ``--mode=auto`` tries them."""
FRAMEWORK_DOMAINS = frozenset({DEFAULT_DOMAIN, xla.DOMAIN, "NCCL", "TensorRT"})
"""Domains that frameworks and libraries write to; all others are a user's own."""
COMMUNICATION_DOMAIN = "NCCL"


def framework_of(mode: Mode) -> Framework | None:
    """The framework that a mode reads; None: simple mode."""
    return next((framework for framework in FRAMEWORKS if framework.mode is mode), None)
