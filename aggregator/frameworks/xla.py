"""What XLA's NVTX ranges mean (JAX; domain ``TSL``).

Measured on JAX with Nsight Systems 2025.3: ``XlaModule:#hlo_module=jit_step,program_id=12#`` is
around a module's execution, ``Thunk:#hlo_op=cudnn-conv-bw-input.2#`` around each of its ops. A
module without a program id is one that the autotuner runs while compiling; ``XlaCompile``,
``XlaPass`` and the like are the compiler itself, and what is launched inside them is autotuning.
"""

from __future__ import annotations

import re

import numpy as np

from aggregator.frameworks.meaning import LabelCodes, RangeKind, RangeMeaning

DOMAIN = "TSL"
AUTOTUNING = "autotuning"
_FIELDS = re.compile(r"(\w+)=([^,#]*)")
_INSTANCE = re.compile(r"\.\d+$")
_TC_ELIGIBLE = re.compile(r"conv|dot|gemm|matmul|cublas|attention|fmha", re.IGNORECASE)
# A layout or element type conversion is named like a convolution and is none.
_NOT_ELIGIBLE = re.compile(r"convert", re.IGNORECASE)


def read_meaning(names: tuple[str, ...]) -> RangeMeaning:
    """Classify distinct range names of the ``TSL`` domain."""
    codes = LabelCodes()
    kind = np.zeros(len(names), dtype=np.int32)
    label = np.zeros(len(names), dtype=np.int32)
    op_types: dict[int, str] = {}
    programs: dict[str, int] = {}
    for row, name in enumerate(names):
        kind[row], text = _classify(name)
        label[row] = codes.code(text)
        if kind[row] == RangeKind.OP:
            op_types[int(label[row])] = _INSTANCE.sub("", text)
        elif kind[row] == RangeKind.GROUP and text != AUTOTUNING:
            programs[text] = row
    return RangeMeaning(
        kind, label, codes.labels(), op_types=op_types, programs=frozenset(programs)
    )


def _classify(name: str) -> tuple[RangeKind, str]:
    what, _, rest = name.partition(":#")
    fields = dict(_FIELDS.findall(rest))
    if what == "Thunk" and "hlo_op" in fields:
        return RangeKind.OP, fields["hlo_op"]
    if what == "XlaModule":
        is_program = "program_id" in fields and "hlo_module" in fields
        return RangeKind.GROUP, fields["hlo_module"] if is_program else AUTOTUNING
    if what.startswith("Xla"):
        return RangeKind.GROUP, AUTOTUNING
    # The runtime's own bookkeeping, GpuMetrics and the like.
    return RangeKind.IGNORED, ""


def is_tc_eligible(op_type: str) -> bool:
    """Whether an HLO op can use Tensor Cores: convolutions, dot products and what fuses them."""
    return bool(_TC_ELIGIBLE.search(_NOT_ELIGIBLE.sub("", op_type)))
