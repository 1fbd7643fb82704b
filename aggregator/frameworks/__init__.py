"""Frameworks: what their NVTX ranges mean, one file each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aggregator.frameworks import pytorch, tensorflow, tensorrt, xla
from aggregator.frameworks.meaning import RangeMeaning
from aggregator.options import Mode
from aggregator.profile import DEFAULT_DOMAIN
from aggregator.texts import say


def _always(names: tuple[str, ...]) -> bool:
    del names
    return True


def _is_tensorflow_1(names: tuple[str, ...]) -> bool:
    return tensorflow.has_nodes(names) and tensorflow.is_version_1(names)


@dataclass(frozen=True)
class Framework:
    """How the ranges of one framework are read.

    Attributes:
        mode: Its ``--mode``.
        title: Its name for people.
        domains: NVTX domains that it may write to; the first that holds its ops is read.
        read_meaning: Classifies distinct range names.
        is_tc_eligible: Whether an op type can use Tensor Cores.
        has_direction: Whether forward and backward work can be told apart.
        advice: What to do when a profile has none of its ranges.
        evidence: What is not verified about the reading, one clause; empty: it was measured.
        claims: Whether a domain's range names are this framework's, where another one writes to the
            same domain; asked with ``--mode=auto`` only.
        reads_start_end: Whether its ops may be start/end ranges.
    """

    mode: Mode
    title: str
    domains: tuple[str, ...]
    read_meaning: Callable[[tuple[str, ...]], RangeMeaning]
    is_tc_eligible: Callable[[str], bool]
    has_direction: bool
    advice: str
    evidence: str = ""
    claims: Callable[[tuple[str, ...]], bool] = _always
    reads_start_end: bool = False


PYTORCH = Framework(
    mode=Mode.PYTORCH,
    title="PyTorch",
    domains=(DEFAULT_DOMAIN,),
    read_meaning=pytorch.read_meaning,
    is_tc_eligible=pytorch.is_tc_eligible,
    has_direction=True,
    advice=say("Train under torch.autograd.profiler.emit_nvtx(), or use --mode=simple."),
)
_TENSORFLOW_ADVICE = say(
    "Run NVIDIA's TensorFlow with TF_ENABLE_NVTX_RANGES=1 under nsys -t cuda,nvtx, "
    "or use --mode=simple."
)
TENSORFLOW1 = Framework(
    mode=Mode.TENSORFLOW1,
    title="TensorFlow 1",
    domains=(tensorflow.DOMAIN, xla.DOMAIN),
    read_meaning=tensorflow.read_meaning,
    is_tc_eligible=tensorflow.is_tc_eligible,
    has_direction=False,
    advice=_TENSORFLOW_ADVICE,
    evidence=tensorflow.EVIDENCE,
    claims=_is_tensorflow_1,
    reads_start_end=True,
)
TENSORFLOW2 = Framework(
    mode=Mode.TENSORFLOW2,
    title="TensorFlow 2",
    domains=(tensorflow.DOMAIN, xla.DOMAIN),
    read_meaning=tensorflow.read_meaning,
    is_tc_eligible=tensorflow.is_tc_eligible,
    has_direction=False,
    advice=_TENSORFLOW_ADVICE,
    evidence=tensorflow.EVIDENCE,
    claims=tensorflow.has_nodes,
    reads_start_end=True,
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
FRAMEWORKS = (PYTORCH, TENSORFLOW1, TENSORFLOW2, TENSORRT, JAX)
"""In the order in which ``--mode=auto`` tries them."""
COMMUNICATION_DOMAIN = "NCCL"
FRAMEWORK_DOMAINS = frozenset(
    {
        *(domain for framework in FRAMEWORKS for domain in framework.domains),
        COMMUNICATION_DOMAIN,
        "tensorflow-memalloc",
        "myelin-exec",
        "cuBLAS",
        "cuDNN",
        "CCCL",
    }
)
"""Domains that frameworks and libraries write to; all others are a user's own."""


def framework_of(mode: Mode) -> Framework | None:
    """The framework that a mode reads; None: simple mode."""
    return next((framework for framework in FRAMEWORKS if framework.mode is mode), None)
