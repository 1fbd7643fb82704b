"""The meaning of TensorRT's NVTX ranges (domain ``TensorRT``).

Unverified, because no export was available. By NVIDIA's documentation, TensorRT marks a range for
each layer, and the builder names layers (TensorRT, "Performance Benchmarking", the section on CUDA
profiling tools; with the profiling verbosity ``kNONE`` a layer's name is its number). The forms are
those of public ``nsys stats`` listings (TensorRT-LLM 0.8 with Llama 2, among others), where all are
push/pop ranges:

* ``ExecutionContext::enqueue`` around one inference;
* ``LLaMAForCausalLM/lm_head/PLUGIN_V2_Gemm_0``, a layer by its name, which may be a path;
* ``Conv_0 + Relu_1``, layers fused into one; ``{ForeignNode[first...last]}``, a region compiled
  into one layer; ``Reformatting CopyNode for Output Tensor 0 to ...``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import takewhile

from aggregator.frameworks import xla
from aggregator.frameworks.meaning import RangeKind, RangeMeaning
from aggregator.texts import say

DOMAIN = "TensorRT"
EVIDENCE = say(
    "unverified: no public capture of TensorRT was at hand, its ranges are read as public "
    "listings show them"
)
FOREIGN_NODE = "ForeignNode"
REFORMAT = "Reformatting CopyNode"
# ``ExecutionContext::enqueue``: a call of the application, not a layer.
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
    meaning = xla.graph_meaning(names, _classify)
    return replace(meaning, programs=frozenset(name for name in names if _RUN.match(name)))


def _classify(name: str) -> tuple[RangeKind, str, str]:
    if not name.strip():
        return RangeKind.IGNORED, "", ""
    if _API.match(name):
        return RangeKind.GROUP, name, ""
    return RangeKind.OP, _label(name), layer_type(name)


def layer_type(name: str) -> str:
    """Return ``Conv + Relu`` for ``/conv1/Conv_0 + /relu/Relu_1``."""
    if name.startswith("{ForeignNode["):
        return FOREIGN_NODE
    if name.startswith(REFORMAT):
        return REFORMAT
    if _POINTWISE.match(name):
        return "PWN"
    parts = [part.strip().rstrip("/").rpartition("/")[2] for part in name.split(" + ")]
    return " + ".join(dict.fromkeys(_INSTANCE.sub("", part) or part for part in parts))


def is_tc_eligible(op_type: str) -> bool:
    """Whether a layer can use Tensor Cores; a compiled region may contain matrix products."""
    if op_type == FOREIGN_NODE:
        return True
    # Constants are named after initializers, ``onnx::Conv_123``.
    parts = [part for part in op_type.split(" + ") if not part.startswith("onnx::")]
    return bool(_TC_ELIGIBLE.search(_NOT_ELIGIBLE.sub("", " ".join(parts))))


def _label(name: str) -> str:
    """Return a layer's name as a path; fused layers are in the group that all of them are in."""
    name = name.strip()
    is_path = "{" not in name and " " not in name and "(" not in name
    if is_path:
        return "/".join(_parts(name)) or name
    parents = [_parts(path)[:-1] for path in _PATH.findall(name)] or [[]]
    common = [parts[0] for parts in takewhile(_is_same, zip(*parents, strict=False))]
    if not common:
        return name.replace("/", "|")
    shown = _PATH.sub(lambda path: "|".join(_parts(path[0])[len(common) :]), name)
    return "/".join([*common, shown])


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


_PART = r"[\w:~-]+(?:\.[\w:~-]+)*"
_PATH = re.compile(rf"(?:{_PART})?(?:/{_PART})+")


def _is_same(parts: tuple[str, ...]) -> bool:
    return len(set(parts)) == 1
