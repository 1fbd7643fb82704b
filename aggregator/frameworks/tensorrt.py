"""What TensorRT's NVTX ranges mean (domain ``TensorRT``).

Unverified: no export was at hand. NVIDIA's documentation says that TensorRT marks a range for each
layer, and that the builder names layers (TensorRT, "Performance Benchmarking", the section on CUDA
profiling tools; with the profiling verbosity ``kNONE`` a layer's name is its number). The forms are
those of public ``nsys stats`` listings (TensorRT-LLM 0.8 with Llama 2, among others), where all are
push/pop ranges:

* ``ExecutionContext::enqueue`` around one inference;
* ``LLaMAForCausalLM/lm_head/PLUGIN_V2_Gemm_0``, a layer by its own name, which is a path where the
  network's layers were named so;
* ``Conv_0 + Relu_1``, layers fused into one; ``{ForeignNode[first...last]}``, a region that the
  graph compiler made one layer of; ``Reformatting CopyNode for Output Tensor 0 to ...``.
"""

from __future__ import annotations

import re

import numpy as np

from aggregator.frameworks.meaning import LabelCodes, RangeKind, RangeMeaning
from aggregator.texts import say

DOMAIN = "TensorRT"
EVIDENCE = say(
    "unverified: no public capture of TensorRT was at hand, its ranges are read as public "
    "listings show them"
)
FOREIGN_NODE = "ForeignNode"
REFORMAT = "Reformatting CopyNode"
# ``ExecutionContext::enqueue``: what the application called, not a layer.
_API = re.compile(r"^[A-Z]\w*::\w+$")
_RUN = re.compile(r"^ExecutionContext::")
_INSTANCE = re.compile(r"(?:[._]?\d+)+$")
_POINTWISE = re.compile(r"^PWN\(")
_TC_ELIGIBLE = re.compile(
    r"conv|gemm|matmul|matrixmultiply|matrix_multiply|fullyconnected|fully_connected|einsum"
    r"|attention|fmha|mha(?![a-z])",
    re.IGNORECASE,
)
_NOT_ELIGIBLE = re.compile(r"convert", re.IGNORECASE)


def read_meaning(names: tuple[str, ...]) -> RangeMeaning:
    """Classify distinct range names of the ``TensorRT`` domain."""
    codes = LabelCodes()
    kind = np.zeros(len(names), dtype=np.int32)
    label = np.zeros(len(names), dtype=np.int32)
    op_types: dict[int, str] = {}
    for row, name in enumerate(names):
        if not name.strip():
            label[row] = codes.code("")
        elif _API.match(name):
            kind[row], label[row] = RangeKind.GROUP, codes.code(name)
        else:
            kind[row], label[row] = RangeKind.OP, codes.code(_label(name))
            op_types[int(label[row])] = layer_type(name)
    return RangeMeaning(
        kind,
        label,
        codes.labels(),
        op_types=op_types,
        programs=frozenset(name for name in names if _RUN.match(name)),
        is_graph=True,
    )


def layer_type(name: str) -> str:
    """``/conv1/Conv_0 + /relu/Relu_1`` -> ``Conv + Relu``."""
    if name.startswith("{ForeignNode["):
        return FOREIGN_NODE
    if name.startswith(REFORMAT):
        return REFORMAT
    if _POINTWISE.match(name):
        return "PWN"
    parts = [part.strip().rstrip("/").rpartition("/")[2] for part in name.split(" + ")]
    return " + ".join(dict.fromkeys(_INSTANCE.sub("", part) or part for part in parts))


def is_tc_eligible(op_type: str) -> bool:
    """Whether a layer can use Tensor Cores; a compiled region may hold products of matrices."""
    if op_type == FOREIGN_NODE:
        return True
    return bool(_TC_ELIGIBLE.search(_NOT_ELIGIBLE.sub("", op_type)))


def _label(name: str) -> str:
    """A layer's name as a path; one made of several layers' names is one part of a path."""
    is_path = "{" not in name and " " not in name.strip() and "(" not in name
    if not is_path:
        return name.strip().replace("/", "|")
    return "/".join(part for part in name.strip().split("/") if part) or name.strip()
