"""Ranges around a launch: PyProf's markers, PyTorch's sequence numbers, and others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from aggregator.costs.formulas.call import Shape, sizes_of
from aggregator.costs.formulas.registry import NEEDS_OUTPUT, is_counted

KERNEL_HOLE = "#kernel#"
"""Replaced by the number of the kernel within its operator."""
_WRAPPER = "autograd::engine::evaluate_function: "
_DROPPED = (
    "/torch/nn/modules/",
    "/torch/nn/functional.py",
    "/torch/tensor.py",
    "/torch/_tensor.py",
    "/torch/autograd/__init__.py",
    "/torch/_jit_internal.py",
    "/pyprof/nvtx/nvmarker.py",
    "/apex/optimizers/",
    "/torch/_utils.py",
    "/torch/optim/",
)
MAX_LITERAL = 1 << 17
MAX_RECORD = 1 << 22


@dataclass(frozen=True)
class Around:
    """The ranges around a launch by kind."""

    layer: list[str]  # User's layers, outermost first.
    trace: list[str]  # Call stack of the user's program, innermost last.
    representations: list[str]  # PyProf's markers of modules.
    markers: list[str]  # PyProf's markers of functions.
    sequence: list[str]  # PyTorch's ranges with a sequence number.
    seq_ids: list[int]  # Their numbers, ascending.
    direction: str  # ``fprop`` or ``bprop``.
    modules: list[str]  # Module per function; ``na``: unknown.
    ops: list[str]  # Function or op names, the best known first.


NUMBER = "1"  # Replaces sequence numbers in ``canonical``.
_SEQ = ", seq = "


def canonical(text: str) -> tuple[str, str]:
    """Return a range's text as of PyTorch 1.11, ``name, seq = 1`` or ``name``, and its number.

    The number in the text becomes 1 (0 stays 0), so that texts are equal in all steps.
    """
    head, found, _ = text.partition(", op_id = ")
    text = head if found else text
    name, separator, number = text.rpartition(_SEQ)
    if not separator or not number.isdigit() or number == "0":
        return text, ""
    return name + _SEQ + NUMBER, number


_NODE = re.compile(
    r"(?:\w*Convolution|\w*Pool)\w*Backward\w*, seq = (\d+)(?:, op_id = \d+)?, sizes = (\[\[.*)"
)


def outputs_of(texts: Iterable[str]) -> dict[str, Shape]:
    """Return the sizes of the outputs of convolutions and pools, by sequence number.

    Ranges have no outputs, but the backward node of an operator has the sizes of its gradient. If
    two threads have the same number for operators of different sizes, both are unknown.
    """
    found: dict[str, Shape] = {}
    for text in texts:
        match = _NODE.match(text) if "Backward" in text else None
        if match is None:
            continue
        shape = next(iter(sizes_of(match[2])), ())
        if found.setdefault(match[1], shape) != shape:
            found[match[1]] = ()
    return found


def sizes_marker(text: str, outputs: Mapping[str, Shape]) -> str:
    """Return a PyProf marker for an operator that current PyTorch recorded with its sizes.

    Empty: no operator with a formula. The element type comes from the kernel's name.
    """
    head, _, sizes = text.partition(", sizes = ")
    namespace, separator, name = head.partition(",")[0].rpartition("::")
    if not separator or not sizes or not is_counted(name):
        return ""
    output: Shape = ()
    if name in NEEDS_OUTPUT:
        output = outputs.get(head.partition(_SEQ)[2].partition(",")[0], ())
    return _sizes_marker(namespace, name, sizes, output)


@lru_cache(maxsize=65536)
def _sizes_marker(namespace: str, name: str, sizes: str, output: Shape) -> str:
    shapes = sizes_of(sizes)
    args = [{"name": "", "type": "tensor", "shape": shape} for shape in shapes]
    marker: dict[str, object] = {"mod": namespace, "op": name, "args": args, "kernel": KERNEL_HOLE}
    if output and shapes and output[:1] == shapes[0][:1] and len(output) == len(shapes[0]):
        marker["output"] = output
    return repr(marker).replace(repr(KERNEL_HOLE), KERNEL_HOLE)


@lru_cache(maxsize=65536)
def literal(text: str) -> Any:
    """Return the value of a Python literal; None for any other text. Nothing is evaluated."""
    return long_literal(text) if len(text) <= MAX_LITERAL else None


def long_literal(text: str) -> Any:
    """Read what ``literal`` reads, uncached: names of kernels may have a megabyte."""
    if len(text) > MAX_RECORD:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None


class _Numbered(NamedTuple):
    """A range with a sequence number; sorted like in PyProf, the number as text."""

    number: str
    name: str


def sort_out(texts: tuple[str, ...]) -> Around:
    """Sort the ranges around a launch by kind; ``texts`` are outermost first."""
    kinds: dict[str, list[str]] = {name: [] for name in _KINDS}
    numbered: set[_Numbered] = set()
    for text in texts:
        name, separator, number = text.rpartition(_SEQ)
        if "CheckpointFunctionBackward" in text:
            continue
        kind = _kind(text)
        if kind == "other" and separator and number.isdigit():
            numbered.add(_Numbered(number, name))
        else:
            kinds[kind].append(text)
    sequence = _pruned(sorted(numbered, key=lambda item: item.number + item.name))
    ids = sorted({int(marker.number) for marker in sequence})
    if any(ids) and 0 in ids:
        ids.remove(0)
    other = [text.removeprefix(_WRAPPER) for text in kinds["other"]]
    backward = any(map(_is_backward, sequence)) or other != kinds["other"]
    modules, ops = _names(kinds["marker"], sequence, other)
    return Around(
        layer=[text.split(":")[1] for text in kinds["layer"]],
        trace=_trace(kinds["trace"]),
        representations=kinds["representation"],
        markers=kinds["marker"],
        sequence=[f"{marker.name}, seq = {marker.number}" for marker in sequence],
        seq_ids=ids,
        direction="bprop" if backward else "fprop",
        modules=modules,
        ops=ops,
    )


_KINDS = ("marker", "layer", "trace", "representation", "other")


def _kind(text: str) -> str:
    if "mod" in text and "op" in text and "args" in text and "type" in text and text[:1] == "{":
        return "marker"
    if "layer:" in text:
        return "layer"
    if "traceMarker" in text:
        return "trace"
    if "strRepr" in text:
        return "representation"
    return "other"


def _is_backward(one: _Numbered) -> bool:
    return one.name.rstrip("0123456789").endswith(("Backward", "backward"))


def _pruned(ordered: list[_Numbered]) -> list[_Numbered]:
    """Keep the first of consecutive ranges with similar names and the same number."""
    kept = ordered[:1]
    for before, marker in pairwise(ordered):
        is_similar = marker.name in before.name or before.name in marker.name
        if not (is_similar and marker.number == before.number):
            kept.append(marker)
    return kept


def _trace(texts: list[str]) -> list[str]:
    """Return the frames of the innermost call stack that are in the user's program."""
    content = literal(texts[-1]) if texts else None
    frames = content.get("traceMarker") if isinstance(content, dict) else None
    if not isinstance(frames, list):
        return []
    # torch.profiler writes paths relative to the package: torch/nn/functional.py.
    return [str(frame) for frame in frames if not any(path in f"/{frame}" for path in _DROPPED)]


def _names(
    markers: list[str], sequence: list[_Numbered], other: list[str]
) -> tuple[list[str], list[str]]:
    """Modules and ops: from PyProf's markers, else backward nodes, any nodes, or any ranges."""
    contents = [content for text in markers if isinstance(content := literal(text), dict)]
    ops = [str(content.get("op", "")) for content in contents]
    if ops:
        return [str(content.get("mod", "na")) for content in contents], ops
    ops = [_node(marker.name) for marker in sequence if _is_backward(marker)]
    ops = ops or [marker.name for marker in sequence]
    if ops:
        return ["na"] * len(ops), ops
    return ["na"], other[:1]


def _node(name: str) -> str:
    for part in ("torch", "autograd", "_backward", "::", "jit", "(anonymous namespace)"):
        name = name.replace(part, "")
    return name.partition("Backward")[0]
