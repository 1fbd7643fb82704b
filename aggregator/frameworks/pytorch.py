"""The meaning of PyTorch's NVTX ranges: ``emit_nvtx`` and the dictionary markers of DLProf."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from aggregator.frameworks.inductor import PREFIX as INDUCTOR_PREFIX
from aggregator.frameworks.inductor import CompiledKernel, is_generated_call, read_kernel
from aggregator.frameworks.meaning import OpText, RangeKind, RangeMeaning
from aggregator.frameworks.serving import EVAL, OURS, TRAIN, read_phase
from aggregator.frameworks.shapes import output_shape
from aggregator.profile.arrays import Codes
from aggregator.system.untrusted_json import read_json, read_literal

WRAPPER_PREFIX = "autograd::engine::evaluate_function: "
BACKWARD_TYPE = "backward"
OP_KINDS = (RangeKind.OP, RangeKind.WRAPPER, RangeKind.NODE, RangeKind.COMPILED)
"""Kinds that only PyTorch's ranges have."""

_OPTIMIZER_STEP = "Optimizer.step#"
_DATALOADER = re.compile(r"^enumerate\(DataLoader\)#.*__next__$")
MICRO_STEP = "micro-step"
_SERVING_STEP = "serving step"
_PROFILER_STEP = re.compile(r"^ProfilerStep#\d+$")
_NODE = re.compile(r"^(?:\w+::)*(?:\w*Backward\d*|AccumulateGrad)$")
_NAMESPACED_OP = re.compile(r"^[A-Za-z_][\w.]*(?:::[\w.]+)+$")
# Written by dlprof_nvtx around the call of a module: path, class, and parameters.
_MODULE = re.compile(r"^torch\.nn: (?P<path>.+?) \((?P<kind>\w+)\)(?: (?P<more>\{.*\}))?$")
# Longer markers are not parsed, to save time; nsys itself loses texts above 64 K.
_MAX_MARKER_CHARS = 1 << 17

# Op types that DLProf and the public tools count as able to use Tensor Cores.
_TC_ELIGIBLE = (
    "conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d "
    "convolution _convolution cudnn_convolution cudnn_convolution_transpose "
    "convolution_overrideable addmm addmm_ addmv addr matmul __matmul__ mm mv linear addbmm "
    "baddbmm bmm chain_matmul linalg_multi_dot linalg_matmul _thnn_fused_lstm_cell "
    "_thnn_fused_gru_cell _cudnn_rnn lstm gru rnn_tanh rnn_relu lstm_cell gru_cell "
    "rnn_tanh_cell rnn_relu_cell bilinear einsum scaled_dot_product_attention _scaled_mm "
    "_int_mm _grouped_mm _scaled_grouped_mm multi_head_attention_forward"
)
TC_ELIGIBLE_TYPES = frozenset(_TC_ELIGIBLE.split())


def read_meaning(names: tuple[str, ...]) -> RangeMeaning:
    """Classify distinct range names.

    Args:
        names: Range texts without PyTorch's ``seq``/``op_id`` suffixes.
    """
    codes: Codes[str] = Codes()
    kind = np.zeros(len(names), dtype=np.int32)
    label = np.zeros(len(names), dtype=np.int32)
    texts: dict[int, OpText] = {}
    op_names: dict[int, str] = {}
    stacks: dict[int, str] = {}
    module_texts: dict[int, OpText] = {}
    compiled: dict[int, CompiledKernel] = {}
    for row, name in enumerate(names):
        marker = _parse_marker(name)
        if (module := _MODULE.match(name)) is not None:
            kind[row], text = RangeKind.MODULE, module["path"]
            _read_module(row, module["more"], module_texts, stacks)
        elif (kernel := read_kernel(name)) is not None:
            kind[row], text = RangeKind.COMPILED, kernel.label
            compiled[row] = kernel
        elif name.startswith(INDUCTOR_PREFIX):
            kind[row], text = RangeKind.IGNORED, ""  # Its text was cut off.
        elif name.startswith(OURS):
            phase = read_phase(name)
            is_part = phase is not None and phase.phase in (TRAIN, EVAL)
            kind[row], text = RangeKind.STEP, MICRO_STEP if is_part else _SERVING_STEP
        elif marker is None:
            kind[row], text = _classify(name)
        elif isinstance(marker.get("op"), str):
            kind[row], text = RangeKind.OP, marker["op"]
            if text == "DataLoader":
                kind[row] = RangeKind.DATALOADER
            texts[row] = _op_text(marker)
        else:
            kind[row], text = RangeKind.IGNORED, ""
            _read_trace(row, marker, op_names, stacks)
        label[row] = codes.code(text)
    return RangeMeaning(
        kind,
        label,
        codes.values(),
        texts=texts,
        op_names=op_names,
        stack_traces=stacks,
        module_texts=module_texts,
        compiled=compiled,
        has_dictionary_markers=bool(texts),
        combines_backward=True,
        closures=frozenset(name for name in codes.values() if name.startswith(_OPTIMIZER_STEP)),
    )


def _classify(name: str) -> tuple[RangeKind, str]:
    if not name.strip():
        return RangeKind.IGNORED, ""
    if name.startswith(WRAPPER_PREFIX):
        return RangeKind.WRAPPER, name.removeprefix(WRAPPER_PREFIX).rpartition("::")[2]
    if _DATALOADER.match(name):
        return RangeKind.DATALOADER, name
    if _NODE.match(name):
        return RangeKind.NODE, name.rpartition("::")[2]
    if _NAMESPACED_OP.match(name) or is_generated_call(name):
        return RangeKind.OP, name.rpartition("::")[2]
    kind = RangeKind.STEP if _PROFILER_STEP.match(name) else RangeKind.GROUP
    return kind, name.rstrip("0123456789") if kind is RangeKind.STEP else name


def is_tc_eligible(op_type: str) -> bool:
    """Return whether ops of a type can use Tensor Cores, by DLProf's rule."""
    return op_type in TC_ELIGIBLE_TYPES


def _parse_marker(name: str) -> dict[str, Any] | None:
    """Return the content of a dictionary marker; None for any other text. Nothing is evaluated."""
    if not name.startswith("{") or len(name) > _MAX_MARKER_CHARS:
        return None
    value = read_json(name) if name.startswith('{"') else read_literal(name)
    return value if isinstance(value, dict) else {}


def _read_trace(
    row: int, marker: dict[str, Any], op_names: dict[int, str], stacks: dict[int, str]
) -> None:
    stack = marker.get("funcStack")
    if isinstance(stack, str):
        op_names[row] = op_name_of(stack)
    trace = marker.get("traceMarker")
    if isinstance(trace, list):
        stacks[row] = "\n".join(str(frame) for frame in trace)


def _read_module(
    row: int, more: str | None, texts: dict[int, OpText], stacks: dict[int, str]
) -> None:
    """Read data type, parameters and call site from a module's range."""
    known = _parse_marker(more) if more else None
    if not known:
        return
    others = {"dtype", "input_dtype", "call_site"}
    parameters = {k: v for k, v in known.items() if k not in others}
    texts[row] = OpText(
        data_type=str(known.get("dtype", known.get("input_dtype", ""))),
        parameters=_json(parameters) if parameters else "",
        is_input="input_dtype" in known,
    )
    if isinstance(known.get("call_site"), str):
        stacks[row] = known["call_site"]


def op_name_of(func_stack: str) -> str:
    """Op name from a call stack, as in DLProf: ``/<module>/f(2)`` -> ``/module/f[2]``."""
    name = func_stack.replace("<module>", "module").replace("<lambda>", "lambda")
    return re.sub(r"\((\d+)\)", r"[\1]", name)


def _op_text(marker: dict[str, Any]) -> OpText:
    args = marker.get("args")
    tensors = [
        arg
        for arg in (args if isinstance(args, list) else [])
        if isinstance(arg, dict) and arg.get("type") == "tensor"
    ]
    shapes = [_shape(arg["shape"]) for arg in tensors if isinstance(arg.get("shape"), list)]
    op = str(marker["op"])
    known = op in ("conv2d", "linear")
    output = output_shape(op, [tuple(shape) for shape in shapes], _scalars(args)) if known else None
    return OpText(
        data_type=str(tensors[0].get("dtype", "")) if tensors else "",
        input_shapes=_json(shapes) if shapes else "",
        output_shapes=_json([output]) if output else "",
    )


def _shape(sizes: list[Any]) -> list[int]:
    """Return the sizes of a tensor; empty if they are not integers."""
    return sizes if all(isinstance(size, int) for size in sizes) else []


def _scalars(args: object) -> dict[str, Any]:
    """Non-tensor arguments of a call by name; those of ``F.conv2d`` may be positional."""
    return {
        str(arg.get("name") or _CONV_POSITIONS.get(position, position)): arg.get("value")
        for position, arg in enumerate(args if isinstance(args, list) else [])
        if isinstance(arg, dict) and arg.get("type") != "tensor"
    }


_CONV_POSITIONS = {3: "stride", 4: "padding", 5: "dilation"}


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
