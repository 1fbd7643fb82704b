"""The meaning of TensorFlow's NVTX ranges (domain ``tensorflow-core``, upstream ``TSL``).

Unverified, because no capture was available. From the public source:

* NVIDIA's TensorFlow (NGC containers; on with ``TF_ENABLE_NVTX_RANGES=1``) puts a range around the
  execution of every graph node, in the domain ``tensorflow-core``: ``Conv2D: model/conv1/Conv2D``,
  or with ``TF_ENABLE_NVTX_RANGES_DETAILED=1`` ``{"op":"Conv2D","name":"...","args":[{"name":"x",
  "shape":[32,3,224,224]}],"attrs":{"T":"float32"}}`` (NVIDIA/tensorflow,
  ``core/framework/nvtx_utils.cc``). First versions opened start/end ranges, later ones push/pop.
* Upstream TensorFlow annotates nodes as ``model/conv1/Conv2D:Conv2D`` (``OpKernel::TraceString``,
  ``AnnotatedTraceMe``) while its own profiler runs; the annotations are NVTX ranges of the domain
  ``TSL``, beside those of XLA.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, NamedTuple

from aggregator.frameworks import xla
from aggregator.frameworks.meaning import OpText, RangeKind, RangeMeaning
from aggregator.system.untrusted_json import read_json
from aggregator.texts import say

DOMAIN = "tensorflow-core"
EVIDENCE = say(
    "unverified: no public capture of TensorFlow was at hand, its ranges are read as NVIDIA's "
    "TensorFlow source writes them"
)
GLOBAL_STEP = "global_step"
_PLAIN = re.compile(r"^(?P<type>[A-Za-z_][\w-]*): (?P<name>\S.*)$")
_TRACE = re.compile(r"^(?P<name>[\w.\\/>-][^:#]*):(?P<type>_?[A-Z]\w*)(?:#.*#)?$")
_BROKEN_DETAIL = re.compile(r'^\{"op":"(?P<type>[^"]+)","name":"(?P<name>[^"]+)"')
# A mistake in the source for DT_BFLOAT16.
_TYPE_NAMES = {"bfloat32": "bfloat16"}
# Longer markers are not parsed, to save time.
_MAX_MARKER_CHARS = 1 << 17

# Ends of op types that can use Tensor Cores, as in openxla/xprof for TensorFlow ops, with the
# gradients of Conv3D, which are missing there.
_TC_ENDINGS = (
    *("Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput", "FusedMatMul"),
    *("Conv3D", "Conv3DBackpropFilterV2", "Conv3DBackpropInputV2", "DepthwiseConv2dNative"),
    *("DepthwiseConv2dNativeBackpropFilter", "DepthwiseConv2dNativeBackpropInput"),
)
_TC_TYPES = frozenset({"MatMul", "CudnnRNN", "XlaDot", "XlaDotV2", "Einsum"})
_TC_PARTS = ("BatchMatMul", "CudnnRNNV", "CudnnRNNForward", "CudnnRNNBackprop")
# Whole compiled programs; DLProf counted them as eligible.
_TC_PROGRAMS = frozenset({"_XlaRun", "_XlaCompile"})

_VERSION_1_TYPES = frozenset({"Variable", "VariableV2", "RefEnter", "RefMerge"})
_VERSION_2_TYPES = frozenset({"PartitionedCall", "StatefulPartitionedCall"})


class _Node(NamedTuple):
    name: str
    op_type: str
    text: OpText | None = None


def read_meaning(names: tuple[str, ...]) -> RangeMeaning:
    """Classify distinct range names; other names than graph nodes are read as XLA's."""
    texts: dict[int, OpText] = {}
    nodes = {name: _node(name) for name in names}
    for row, name in enumerate(names):
        if (node := nodes[name]) is not None and node.text is not None:
            texts[row] = node.text

    def classify(name: str) -> tuple[RangeKind, str, str]:
        node = nodes[name]
        return (RangeKind.OP, node.name, node.op_type) if node else xla.classify(name)

    meaning = xla.graph_meaning(names, classify)
    return replace(meaning, texts=texts, key_ops=frozenset({GLOBAL_STEP}))


def has_nodes(names: tuple[str, ...]) -> bool:
    """Return whether any range is a graph node: the ``TSL`` domain may have only XLA's ranges."""
    return any(_node(name) is not None for name in names)


def is_version_1(names: tuple[str, ...]) -> bool:
    """Return whether there are graph nodes of TensorFlow 1: its gradients and variables."""
    nodes = [node for node in map(_node, names) if node is not None]
    types = {node.op_type for node in nodes}
    tops = {node.name.partition("/")[0] for node in nodes}
    if "gradient_tape" in tops or types & _VERSION_2_TYPES:
        return False
    return "gradients" in tops or bool(types & _VERSION_1_TYPES)


def is_tc_eligible(op_type: str) -> bool:
    """Whether an op can use Tensor Cores, by its type; HLO ops, in lower case, by XLA's rule."""
    if op_type[:1].islower():
        return xla.is_tc_eligible(op_type)
    return (
        op_type in _TC_TYPES
        or op_type in _TC_PROGRAMS
        or op_type.endswith(_TC_ENDINGS)
        or any(part in op_type for part in _TC_PARTS)
    )


def _node(name: str) -> _Node | None:
    if name.startswith('{"op":'):
        return _detailed(name)
    match = _PLAIN.match(name) or _TRACE.match(name)
    return _Node(_clean(match["name"]), match["type"]) if match else None


def _clean(name: str) -> str:
    """Return the name as a path without empty parts, which would become groups without a name."""
    return "/".join(part for part in name.strip().split("/") if part) or name


def _detailed(name: str) -> _Node | None:
    marker = read_json(name) if len(name) <= _MAX_MARKER_CHARS else None
    if not isinstance(marker, dict) or not isinstance(marker.get("name"), str):
        # Attributes are not always escaped, but op and name before them are.
        match = _BROKEN_DETAIL.match(name)
        return _Node(_clean(match["name"]), match["type"]) if match else None
    return _Node(_clean(marker["name"]), str(marker["op"]), _op_text(marker))


def _op_text(marker: dict[str, Any]) -> OpText:
    attributes = marker.get("attrs")
    data_type = attributes.get("T", "") if isinstance(attributes, dict) else ""
    arguments = marker.get("args")
    shapes = [
        argument["shape"]
        for argument in (arguments if isinstance(arguments, list) else [])
        if isinstance(argument, dict) and isinstance(argument.get("shape"), list)
    ]
    return OpText(
        data_type=_TYPE_NAMES.get(data_type, data_type) if isinstance(data_type, str) else "",
        input_shapes=json.dumps(shapes, separators=(",", ":")) if shapes else "",
    )
