"""The meaning of XLA's NVTX ranges (JAX; domain ``TSL``).

As observed on JAX with Nsight Systems 2025.3, and in the source (openxla/xla:
``MakeTitle`` and ``MakeInstructionTitle`` of the GPU backend's annotations, ``nvtx_utils.cc``):

* ``XlaModule:#prefix=jit(f),hlo_module=jit_step,program_id=12#`` is around one run of a program. A
  module without a program id is run by the autotuner; NVIDIA's JAX-Toolbox assumes the same.
* ``Thunk:#name=jit(step)/jvp(Net)/Conv_0,hlo_op=loop_add_fusion.1,unique_hlo_op_id=7#`` is around
  one HLO op. The name, if present, is the common path of the framework's ops that XLA fused into
  it, without the prefix that all ops of its module share.
* A thunk can contain others: a loop, or a command buffer (a CUDA graph) while it is updated. In
  the run that records the graph its ops are *not* in the command buffer's thunk.
* ``XlaCompile``, ``XlaPass`` and others are the compiler. Its autotuner launches kernels on worker
  threads, most of them outside all ranges, while ``XlaCompile`` is open.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from aggregator.frameworks.meaning import RangeKind, RangeMeaning
from aggregator.profile.arrays import Codes

DOMAIN = "TSL"
AUTOTUNING = "autotuning"
_FIELDS = re.compile(r"(\w+)=([^,#]*)")
_INSTANCE = re.compile(r"(?:[._]\d+)+$")
_FUNCTION = re.compile(r"^p?jit\([^/]*\)$")
_TC_ELIGIBLE = re.compile(r"conv|dot|gemm|matmul|cublas|attention|fmha", re.IGNORECASE)
# A conversion of layout or element type, named like a convolution.
_NOT_ELIGIBLE = re.compile(r"convert", re.IGNORECASE)


def read_meaning(names: tuple[str, ...]) -> RangeMeaning:
    """Classify distinct range names of the ``TSL`` domain."""
    return graph_meaning(names, classify)


def graph_meaning(
    names: tuple[str, ...], classify_name: Callable[[str], tuple[RangeKind, str, str]]
) -> RangeMeaning:
    """Return the meaning of range names in a domain to which XLA may write.

    Args:
        names: Distinct range names.
        classify_name: Returns kind, label and op type of a range by its name.
    """
    codes: Codes[str] = Codes()
    kind = np.zeros(len(names), dtype=np.int32)
    label = np.zeros(len(names), dtype=np.int32)
    op_types: dict[int, str] = {}
    programs: set[str] = set()
    for row, name in enumerate(names):
        kind[row], text, op_type = classify_name(name)
        label[row] = codes.code(text)
        if kind[row] == RangeKind.OP:
            op_types[int(label[row])] = op_type
        elif kind[row] == RangeKind.GROUP and text != AUTOTUNING:
            programs.add(text)
    return RangeMeaning(
        kind,
        label,
        codes.values(),
        op_types=op_types,
        programs=frozenset(programs),
        is_graph=True,
        overhead=frozenset({AUTOTUNING}),
        helped=frozenset(row for row, name in enumerate(names) if name.startswith("XlaCompile:#")),
    )


def classify(name: str) -> tuple[RangeKind, str, str]:
    """Return the kind, label and op type of a range of the ``TSL`` domain."""
    what, _, rest = name.partition(":#")
    fields = dict(_FIELDS.findall(rest))
    if what == "Thunk" and "hlo_op" in fields:
        hlo_op = fields["hlo_op"]
        return RangeKind.OP, _label(fields.get("name", ""), hlo_op), _INSTANCE.sub("", hlo_op)
    if what == "XlaModule":
        is_program = "program_id" in fields and "hlo_module" in fields
        return RangeKind.GROUP, fields["hlo_module"] if is_program else AUTOTUNING, ""
    if what.startswith("Xla"):
        return RangeKind.GROUP, AUTOTUNING, ""
    # Metrics of the runtime, such as GpuMetrics.
    return RangeKind.IGNORED, "", ""


def _label(framework_name: str, hlo_op: str) -> str:
    """Join ``jit(step)/jvp(Net)/Conv_0`` and ``fusion.1`` to ``jvp(Net)/Conv_0/fusion.1``."""
    parts = [part for part in framework_name.split("/") if part]
    if parts and _FUNCTION.match(parts[0]):
        del parts[0]  # the same as the module's name
    return "/".join([*parts, hlo_op])


def is_tc_eligible(op_type: str) -> bool:
    """Whether an HLO op can use Tensor Cores: convolutions, dot products and their fusions."""
    return bool(_TC_ELIGIBLE.search(_NOT_ELIGIBLE.sub("", op_type)))
