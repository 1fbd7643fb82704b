"""Frameworks and the meaning of their NVTX ranges, one file per framework."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from aggregator.frameworks import inductor, pytorch, tensorflow, tensorrt, xla
from aggregator.frameworks.meaning import RangeMeaning
from aggregator.options import Mode
from aggregator.profile.profile import DEFAULT_DOMAIN
from aggregator.texts import say


@dataclass(frozen=True)
class Framework:
    """How to read the ranges of one framework."""

    mode: Mode  # Its ``--mode``.
    title: str  # Name to show.
    # NVTX domains that it may write to; the first that has its ops is read.
    domains: tuple[str, ...]
    read_meaning: Callable[[tuple[str, ...]], RangeMeaning]  # Classifies distinct range names.
    is_tc_eligible: Callable[[str], bool]  # Whether an op type can use Tensor Cores.
    has_direction: bool  # Whether forward and backward work can be distinguished.
    advice: str  # What to do if a profile has none of its ranges.
    # Why the reading is unverified, one clause; empty: it was verified on captures.
    evidence: str = ""
    # Whether a domain's range names are from this framework, if several write to the same domain;
    # used with ``--mode=auto`` only.
    claims: Callable[[tuple[str, ...]], bool] = lambda names: True
    reads_start_end: bool = False  # Whether its ops may be start/end ranges.
    # Whether nothing else writes a range of this name, although it is no op.
    owns: Callable[[str], bool] = lambda name: False


PYTORCH = Framework(
    mode=Mode.PYTORCH,
    title="PyTorch",
    domains=(DEFAULT_DOMAIN,),
    read_meaning=pytorch.read_meaning,
    is_tc_eligible=pytorch.is_tc_eligible,
    has_direction=True,
    advice=say("Train under torch.autograd.profiler.emit_nvtx(), or use --mode=simple."),
    owns=inductor.is_compiled_region,
)
TENSORFLOW1 = Framework(
    mode=Mode.TENSORFLOW1,
    title="TensorFlow 1",
    domains=(tensorflow.DOMAIN, xla.DOMAIN),
    read_meaning=tensorflow.read_meaning,
    is_tc_eligible=tensorflow.is_tc_eligible,
    has_direction=False,
    advice=say(
        "Run NVIDIA's TensorFlow with TF_ENABLE_NVTX_RANGES=1 under nsys -t cuda,nvtx, "
        "or use --mode=simple."
    ),
    evidence=tensorflow.EVIDENCE,
    claims=tensorflow.is_version_1,
    reads_start_end=True,
)
TENSORFLOW2 = replace(
    TENSORFLOW1, mode=Mode.TENSORFLOW2, title="TensorFlow 2", claims=tensorflow.has_nodes
)
TENSORRT = Framework(
    mode=Mode.TENSORRT,
    title="TensorRT",
    domains=(tensorrt.DOMAIN,),
    read_meaning=tensorrt.read_meaning,
    is_tc_eligible=tensorrt.is_tc_eligible,
    has_direction=False,
    advice=say("Run inference under nsys -t cuda,nvtx, or use --mode=simple."),
    evidence=tensorrt.EVIDENCE,
)
JAX = Framework(
    mode=Mode.JAX,
    title="JAX",
    domains=(xla.DOMAIN,),
    read_meaning=xla.read_meaning,
    is_tc_eligible=xla.is_tc_eligible,
    has_direction=False,
    advice=say("Profile a JAX program with nsys -t cuda,nvtx, or use --mode=simple."),
)
USER_RANGES = Framework(
    mode=Mode.SIMPLE,
    title="",
    domains=(DEFAULT_DOMAIN,),
    read_meaning=pytorch.read_meaning,
    is_tc_eligible=lambda op_type: False,
    has_direction=False,
    advice="",
)
"""For profiles without ops of any framework: ranges of the user are groups, which name the work."""
FRAMEWORKS = (PYTORCH, TENSORFLOW1, TENSORFLOW2, TENSORRT, JAX)
"""In the order of ``--mode=auto``."""
COMMUNICATION_DOMAIN = "NCCL"
FRAMEWORK_DOMAINS = frozenset(
    {COMMUNICATION_DOMAIN, "tensorflow-memalloc", "myelin-exec", "cuBLAS", "cuDNN", "CCCL"}
).union(*(framework.domains for framework in FRAMEWORKS))
"""Domains of frameworks and libraries; all others are custom domains of users."""


def framework_of(mode: Mode) -> Framework | None:
    """Return the framework that a mode reads; None: simple mode."""
    return next((framework for framework in FRAMEWORKS if framework.mode is mode), None)
