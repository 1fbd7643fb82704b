"""Read the phase of the step, the op and the module from the call stack of an allocation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Final

from aggregator.metrics.memory.model import OP_FILE, Stacks


class Phase(IntEnum):
    """Part of a training step."""

    UNKNOWN = 0
    FORWARD = 1
    BACKWARD = 2
    OPTIMIZER = 3
    OTHER = 4
    """The program's own code around the model: creating it, loading data, clearing gradients."""


PHASE_NAMES: Final = ("unknown", "forward", "backward", "optimizer", "other")

_ENGINE: Final = ("torch::autograd::Engine::", "torch::autograd::python::PythonEngine")
_OPTIMIZER_FILES: Final = ("/torch/optim/", "/apex/optimizers/", "/bitsandbytes/optim/")
_BACKWARD_FILES: Final = ("/torch/autograd/", "/torch/_tensor.py")
_MODULE_FILE: Final = "/torch/nn/modules/module.py"
_MOVES: Final = frozenset({"_apply", "to", "cuda", "convert", "half", "bfloat16", "to_empty"})
_RECOMPUTE_FILE: Final = "/torch/utils/checkpoint.py"
_RECOMPUTES: Final = frozenset({"backward", "unpack_hook", "recompute_fn"})
_LIBRARY: Final = ("/dlprof_nvtx/", "/site-packages/", "/dist-packages/", "/torch/", "/lib/python")
_OP: Final = re.compile(r"\bat::_ops::(\w+?)::(?:call|redispatch)\b")
_NODE: Final = re.compile(r"torch::autograd::generated::(\w+)::apply\b|\b(\w+Backward\d*)::apply")
_OVERLOAD: Final = re.compile(
    r"_(?:Tensor|Scalar|out|self|default|dim|int|dtype|layout|memory_format|IntList|Dimname|"
    r"Tensor_Scalar|Tensor_Tensor|ScalarList|TensorList)(?:_\w+)?$"
)
_WORKSPACE: Final = re.compile(
    r"CUDABlas(?:Lt)?Workspace|getCurrentCUDABlasHandle|CUDABlasLtHandle|cublas\w*Workspace|"
    r"parseChosenWorkspaceSize|cudnn\w*[Ww]orkspace|allocate_workspace",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class StackMeaning:
    """What one distinct stack means."""

    phase: Phase
    op: str  # "" if unknown.
    module: str  # Calls of ``forward`` from the outermost to the innermost; "" if there are none.
    is_workspace: bool
    is_python: bool  # Whether it has a frame of Python.
    makes_model: bool  # Whether a module is created, moved or converted.
    clears_gradients: bool


def read_stacks(stacks: Stacks) -> tuple[StackMeaning, ...]:
    """Return the meaning of each distinct stack; that of 0, the empty one, is unknown."""
    frames = [
        (name, file.replace("\\", "/"), line)
        for name, file, line in zip(stacks.names, stacks.files, stacks.lines, strict=True)
    ]
    return tuple(_meaning([frames[number] for number in stack]) for stack in stacks.frames)


def _meaning(frames: list[tuple[str, str, int]]) -> StackMeaning:
    python = [frame for frame in frames if frame[1].endswith(".py")]
    forwards = [
        f"{file.rpartition('/')[2]}:{line}"
        for name, file, line in reversed(python)
        if name == "forward" and not _is_library(file)
    ] or [
        f"{file.rpartition('/')[2]}:{line}"
        for name, file, line in reversed(python)
        if name == "forward"
    ]
    return StackMeaning(
        phase=_phase(frames, python),
        op=_op(frames, python),
        module=" / ".join(forwards),
        is_workspace=any(_is_workspace(name) for name, _, _ in frames[:24]),
        is_python=bool(python),
        makes_model=_makes_model(python),
        clears_gradients=any(name == "zero_grad" for name, _, _ in python),
    )


def _makes_model(python: list[tuple[str, str, int]]) -> bool:
    return any(
        (file.endswith(_MODULE_FILE) and name in _MOVES)
        or ("/torch/nn/modules/" in file and name in ("__init__", "reset_parameters"))
        for name, file, _ in python
    )


def _phase(  # noqa: PLR0911 - a rule a line
    frames: list[tuple[str, str, int]], python: list[tuple[str, str, int]]
) -> Phase:
    if any(name.startswith(_ENGINE) for name, _, _ in frames):
        return Phase.BACKWARD
    for name, file, _ in python:
        is_optimizer, is_backward = _parts_of(file)
        if is_optimizer and name != "zero_grad":
            return Phase.OPTIMIZER
        if is_backward and "backward" in name:
            return Phase.BACKWARD
        if file.endswith(_RECOMPUTE_FILE) and name in _RECOMPUTES:
            return Phase.BACKWARD
    if _makes_model(python):
        return Phase.OTHER
    if any(name == "forward" or file.endswith(_MODULE_FILE) for name, file, _ in python):
        return Phase.FORWARD
    return Phase.OTHER if python else Phase.UNKNOWN


def _op(frames: list[tuple[str, str, int]], python: list[tuple[str, str, int]]) -> str:
    # The innermost op allocates for itself or for the one that called it: the latter is the name
    # that the program knows, unless it is the autograd engine's.
    found = ""
    if frames and frames[0][1] == OP_FILE:
        return frames[0][0]
    for name, file, _ in frames:
        node, op = _node_and_op(name)
        if node:
            return node
        if op:
            found = op
        elif file.endswith(".py"):
            break
    if found:
        return f"aten::{_OVERLOAD.sub('', found)}"
    for name, file, line in python:
        if not _is_library(file):
            return f"{name} ({file.rpartition('/')[2]}:{line})"
    return f"{python[0][0]} ({python[0][1].rpartition('/')[2]}:{python[0][2]})" if python else ""


# Stacks differ far more than the names and files of their frames do.
_REMEMBERED: Final = 1 << 16


@lru_cache(_REMEMBERED)
def _is_library(file: str) -> bool:
    return any(part in file for part in _LIBRARY)


@lru_cache(_REMEMBERED)
def _parts_of(file: str) -> tuple[bool, bool]:
    """Return whether a file is of optimizers, and whether it is of the autograd engine."""
    return (
        any(part in file for part in _OPTIMIZER_FILES),
        any(part in file for part in _BACKWARD_FILES),
    )


@lru_cache(_REMEMBERED)
def _is_workspace(name: str) -> bool:
    return _WORKSPACE.search(name) is not None


@lru_cache(_REMEMBERED)
def _node_and_op(name: str) -> tuple[str, str]:
    """Return the node of the autograd graph and the op of ATen that a function of C++ is."""
    node, op = _NODE.search(name), _OP.search(name)
    return (node[1] or node[2]) if node else "", op[1] if op else ""
