"""Record the allocations of GPU memory: ``dlprof --memory python train.py``.

PyTorch's allocator keeps its history, with stacks of Python frames. With each event it stores a
text, which is set here: the part of the step and the path of the module (``F|encoder.layers.0``;
F forward, B backward, O optimizer, X elsewhere). At steps of the optimizer, the addresses of
parameters, gradients and states are noted. At the end, all is written as a snapshot.
"""

from __future__ import annotations

import atexit
import functools
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from dlprof_nvtx.guard import ById, fields, guarded, say, submodules

VARIABLE = "DLPROF_MEMORY"
"""Path of the snapshot without extension; the id of the process is added."""
KEY = "dlprof"
MAX_EVENTS = 2_000_000
STEPS_WITH_ADDRESSES = 16
"""Reading all addresses takes about a microsecond for each parameter."""
MAX_STEPS = 100_000


class _Recorder:
    """What is recorded; there is one per process."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.pid = os.getpid()
        self.on = False
        self.is_warned = False
        self.phase = "X"
        self.note: Callable[[str], object] | None = None
        self.steps: list[dict[str, Any]] = []
        self.parameters: list[list[Any]] = []
        self.states: list[list[Any]] = []
        self.counts: dict[str, int] = {}
        self.addresses_at_us = 0
        self.names = ById()  # Paths of modules.
        self.roots = ById()
        self.open = threading.local()
        self.reached: Callable[..., object] = lambda *_: None  # Called in the backward pass.

    def enter(self, phase: str, path: str = "") -> None:
        """Begin a part of the step."""
        self.phase = phase
        if self.note is not None:
            self.note(f"{phase}|{path}")


_RECORDER: list[_Recorder] = []


def patch() -> None:
    """Begin to record when CUDA is initialized, if the run asks for it."""
    path = os.environ.get(VARIABLE)
    if not path or _RECORDER:
        return
    import torch

    recorder = _Recorder(path)
    _RECORDER.append(recorder)
    torch_any: Any = torch
    torch_any.cuda._lazy_call(functools.partial(_start, recorder, torch_any))
    _wrap_modules(recorder, torch_any)
    _wrap_backward(recorder, torch_any)
    _hook_optimizers(recorder)
    atexit.register(_finish, recorder)
    os.register_at_fork(after_in_child=functools.partial(_stop, recorder))


def _start(recorder: _Recorder, torch: Any) -> None:
    try:
        torch.cuda.memory._record_memory_history(
            enabled="all", context="alloc", stacks="python", max_entries=MAX_EVENTS
        )
    except (RuntimeError, TypeError, AttributeError) as error:
        say(f"dlprof_nvtx: memory is not recorded: {error}")
        return
    recorder.note = getattr(torch._C, "_cuda_setMemoryMetadata", None)
    recorder.on = True


def _stop(recorder: _Recorder) -> None:
    recorder.on = False
    recorder.note = None


def _wrap_modules(recorder: _Recorder, torch: Any) -> None:
    inner = torch.nn.Module.__call__
    begin, end = guarded(_begin_call), guarded(_end_call)
    recorder.reached = guarded(functools.partial(_reached, recorder))
    hook, tensor = guarded(_hook_backward), torch.Tensor

    @functools.wraps(inner)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        begun = begin(recorder, self)
        if begun is None:
            return inner(self, *args, **kwargs)
        try:
            result = inner(self, *args, **kwargs)
        finally:
            end(recorder, begun)
        if begun[0] == "F":
            hook(recorder, result, tensor, f"B|{begun[1]}")
        return result

    torch.nn.Module.__call__ = call


def _begin_call(recorder: _Recorder, module: Any) -> tuple[str, str, str, str | None] | None:
    """Begin the call of a module; returns its phase, path, and what both were before."""
    if recorder.note is None:
        return None
    around = getattr(recorder.open, "path", None)
    path = recorder.names.get(module) or _learn(recorder, module, around)
    before = recorder.phase
    phase = "B" if before == "B" else "F"
    recorder.note(f"{phase}|{path}")
    recorder.phase, recorder.open.path = phase, path
    return phase, path, before, around


def _end_call(recorder: _Recorder, begun: tuple[str, str, str, str | None]) -> None:
    phase, _, before, around = begun
    recorder.phase, recorder.open.path = before, around
    if recorder.note is not None:
        recorder.note(f"{before}|" if around is None else f"{phase}|{around}")


def _learn(recorder: _Recorder, module: Any, around: str | None) -> str:
    """Name all modules below one that is called first; those of a model have its paths."""
    for name, part in submodules(module):
        if recorder.names.get(part) is None:
            recorder.names.put(part, name or type(part).__name__)
    if around is None:
        recorder.roots.put(module, True)
    path: str = recorder.names.get(module)
    return path


def _hook_backward(recorder: _Recorder, result: Any, tensor: type, text: str) -> None:
    """Set the text of a module when the backward pass reaches its output."""
    parts = result if isinstance(result, (tuple, list)) else (result,)
    for part in parts:
        node = part.grad_fn if isinstance(part, tensor) else None  # type: ignore[attr-defined]
        if node is None or KEY in node.metadata:
            continue
        node.metadata[KEY] = text
        node.register_prehook(functools.partial(recorder.reached, text))


def _reached(recorder: _Recorder, text: str, _: Any) -> None:
    if recorder.note is not None and recorder.phase == "B":
        recorder.note(text)


def _wrap_backward(recorder: _Recorder, torch: Any) -> None:
    enter = guarded(recorder.enter)
    for name in ("backward", "grad"):
        inner = getattr(torch.autograd, name)

        @functools.wraps(inner)
        def wrapped(*args: Any, inner: Any = inner, **kwargs: Any) -> Any:
            before = recorder.phase
            enter("B")
            try:
                return inner(*args, **kwargs)
            finally:
                enter(before)

        setattr(torch.autograd, name, wrapped)


def _hook_optimizers(recorder: _Recorder) -> None:
    try:
        from torch.optim.optimizer import (
            register_optimizer_step_post_hook,
            register_optimizer_step_pre_hook,
        )
    except ImportError:  # PyTorch 2.0 has only the first
        return
    register_optimizer_step_pre_hook(functools.partial(_guarded, _before_step, recorder))
    register_optimizer_step_post_hook(functools.partial(_guarded, _after_step, recorder))


def _guarded(hook: Callable[..., None], recorder: _Recorder, optimizer: Any, *_: Any) -> None:
    """Run a hook; an optimizer that holds something unexpected must not stop the training."""
    try:
        hook(recorder, optimizer)
    except Exception as error:  # noqa: BLE001 - a recording must never stop a training
        if not recorder.is_warned:
            recorder.is_warned = True
            say(f"dlprof_nvtx: a step was not recorded: {error}")


def _now_us() -> int:
    return time.time_ns() // 1000


def _before_step(recorder: _Recorder, optimizer: Any) -> None:
    if not recorder.on or len(recorder.steps) >= MAX_STEPS:
        return
    step: dict[str, Any] = {"start_us": _now_us()}
    if len(recorder.steps) < STEPS_WITH_ADDRESSES:
        names = _parameter_names(recorder)
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        step["gradients"] = _tensors(
            (names.get(id(weight), ""), weight.grad)
            for weight in weights
            if weight.grad is not None
        )
    recorder.steps.append(step)
    recorder.enter("O", type(optimizer).__name__)


def _after_step(recorder: _Recorder, optimizer: Any) -> None:
    if not recorder.on or not recorder.steps or "end_us" in recorder.steps[-1]:
        return
    recorder.enter("X")
    if len(recorder.steps) <= STEPS_WITH_ADDRESSES:
        names = _parameter_names(recorder)
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        recorder.parameters = _tensors((names.get(id(weight), ""), weight) for weight in weights)
        recorder.states = _tensors(
            (f"{names.get(id(weight), '')}.{key}", value)
            for weight, state in optimizer.state.items()
            for key, value in state.items()
        )
        recorder.addresses_at_us = _now_us()
        recorder.counts = {
            "parameters": sum(item[2] for item in recorder.parameters),
            "gradients": sum(item[2] for item in recorder.steps[-1].get("gradients", ())),
            "states": sum(item[2] for item in recorder.states),
        }
    recorder.steps[-1]["end_us"] = _now_us()


def _parameter_names(recorder: _Recorder) -> dict[int, str]:
    found: dict[int, str] = {}
    for root, _ in recorder.roots.values():
        for path, module in submodules(root):
            for name, weight in (fields(module).get("_parameters") or {}).items():
                found.setdefault(id(weight), f"{path}.{name}" if path else name)
    return found


def _tensors(items: Any) -> list[list[Any]]:
    """Name, address, bytes and device of the storages on a GPU, each once."""
    import torch

    found: dict[int, list[Any]] = {}
    for name, value in items:
        tensor = getattr(value, "_local_tensor", value)
        if not isinstance(tensor, torch.Tensor) or tensor.device.type != "cuda":
            continue
        try:
            storage = tensor.untyped_storage()
            address = storage.data_ptr()
        except RuntimeError:  # Sparse tensors have no storage of their own.
            continue
        found[address] = [name, address, storage.nbytes(), tensor.device.index]
    return list(found.values())


def _finish(recorder: _Recorder) -> None:
    torch: Any = sys.modules.get("torch")
    if not recorder.on or recorder.pid != os.getpid() or torch is None:
        return
    recorder.on = False
    try:
        stats = [
            {
                key: value
                for key, value in torch.cuda.memory_stats(device).items()
                if key.split(".")[0] in _STATISTICS
            }
            for device in range(torch.cuda.device_count())
        ]
        snapshot = torch.cuda.memory._snapshot()
        torch.cuda.memory._record_memory_history(enabled=None)
        snapshot[KEY] = {
            "version": 1,
            "steps": recorder.steps,
            "parameters": recorder.parameters,
            "states": recorder.states,
            "counts": recorder.counts,
            "addresses_at_us": recorder.addresses_at_us,
            "memory_stats": stats,
        }
        with open(f"{recorder.path}_{recorder.pid}.pickle", "wb") as file:  # noqa: PTH123
            pickle.dump(snapshot, file, protocol=4)
    except Exception as error:  # noqa: BLE001 - a recording must never stop a training
        say(f"dlprof_nvtx: memory was not recorded: {error}")


_STATISTICS = frozenset(
    {"allocated_bytes", "active_bytes", "reserved_bytes", "requested_bytes", "num_alloc_retries"}
)
