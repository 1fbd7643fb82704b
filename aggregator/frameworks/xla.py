"""What XLA's NVTX ranges mean (JAX; domain ``TSL``).

Measured on JAX with Nsight Systems 2025.3, and as the source writes them (openxla/xla:
``MakeTitle`` and ``MakeInstructionTitle`` of the GPU backend's annotations, ``nvtx_utils.cc``):

* ``XlaModule:#prefix=jit(f),hlo_module=jit_step,program_id=12#`` is around one run of a program. A
  module without a program id is one that the autotuner runs; NVIDIA's JAX-Toolbox reads it so too.
* ``Thunk:#name=jit(step)/jvp(Net)/Conv_0,hlo_op=loop_add_fusion.1,unique_hlo_op_id=7#`` is around
  one HLO op. The name, where there is one, is what the framework's ops that XLA fused into it have
  in common; without the prefix that all ops of its module share.
* A thunk can be around others: a loop, or a command buffer (a CUDA graph) while it is updated. In
  the run that records the graph its ops are *not* in the command buffer's thunk.
* ``XlaCompile``, ``XlaPass`` and the like are the compiler. Its autotuner launches kernels on
  worker threads, most of them outside every range of theirs while ``XlaCompile`` is open.
"""

from __future__ import annotations

import re

import numpy as np

from aggregator.frameworks.meaning import LabelCodes, RangeKind, RangeMeaning

DOMAIN = "TSL"
AUTOTUNING = "autotuning"
_FIELDS = re.compile(r"(\w+)=([^,#]*)")
_INSTANCE = re.compile(r"(?:[._]\d+)+$")
_FUNCTION = re.compile(r"^p?jit\([^/]*\)$")
_TC_ELIGIBLE = re.compile(r"conv|dot|gemm|matmul|cublas|attention|fmha", re.IGNORECASE)
# A layout or element type conversion is named like a convolution and is none.
_NOT_ELIGIBLE = re.compile(r"convert", re.IGNORECASE)


def read_meaning(names: tuple[str, ...]) -> RangeMeaning:
    """Classify distinct range names of the ``TSL`` domain."""
    codes = LabelCodes()
    kind = np.zeros(len(names), dtype=np.int32)
    label = np.zeros(len(names), dtype=np.int32)
    op_types: dict[int, str] = {}
    programs: set[str] = set()
    for row, name in enumerate(names):
        kind[row], text, op_type = classify(name)
        label[row] = codes.code(text)
        if kind[row] == RangeKind.OP:
            op_types[int(label[row])] = op_type
        elif kind[row] == RangeKind.GROUP and text != AUTOTUNING:
            programs.add(text)
    return RangeMeaning(
        kind,
        label,
        codes.labels(),
        op_types=op_types,
        programs=frozenset(programs),
        is_graph=True,
        overhead=frozenset({AUTOTUNING}),
        helped=frozenset(row for row, name in enumerate(names) if is_compilation(name)),
    )


def classify(name: str) -> tuple[RangeKind, str, str]:
    """Kind, label and op type of a range of the ``TSL`` domain."""
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
    # The runtime's own bookkeeping, GpuMetrics and the like.
    return RangeKind.IGNORED, "", ""


def is_compilation(name: str) -> bool:
    """Whether a range is around the whole compilation of a program."""
    return name.startswith("XlaCompile:#")


def _label(framework_name: str, hlo_op: str) -> str:
    """``jit(step)/jvp(Net)/Conv_0`` and ``fusion.1`` -> ``jvp(Net)/Conv_0/fusion.1``."""
    parts = [part for part in framework_name.split("/") if part]
    if parts and _FUNCTION.match(parts[0]):
        del parts[0]  # the module's name says the same
    return "/".join([*parts, hlo_op])


def is_tc_eligible(op_type: str) -> bool:
    """Whether an HLO op can use Tensor Cores: convolutions, dot products and what fuses them."""
    return bool(_TC_ELIGIBLE.search(_NOT_ELIGIBLE.sub("", op_type)))
