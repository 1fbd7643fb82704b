"""Write a range for each call of an ``nn.Module``."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

from dlprof_nvtx.light import LIGHT, call_key, call_unmarked
from dlprof_nvtx.names import COMPILED, TRANSPARENT, Entry, Names, op_text
from dlprof_nvtx.patches import CALLS, PATCHES
from dlprof_nvtx.reference import REFERENCE
from dlprof_nvtx.settings import note_training_flags
from dlprof_nvtx.state import STATE, wrap

NAMES = Names()
CALLS_WITH_SHAPES = 3
"""Shapes are recorded in this many calls of a model with inputs of the same shapes."""
STEPS_WITH_SHAPES = 3
"""They are also recorded in all calls until this step of the optimizer, from the first step on:
a step may consist of several calls (gradient accumulation)."""
SHAPE_CALLS, SHAPE_SHARE = 32, 8
"""At most this many calls of a model record shapes, and one of this many of its later calls."""
_MOST_SIGNATURES = 4096
CALLS_BEFORE_FLAGS = 2
"""Inference has no optimizer steps, so the flags are recorded at this call of a model."""


class _Stack(threading.local):
    """Modules whose calls are active on this thread, outermost first, and their texts."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.texts: list[str] = []


_STACK = _Stack()


def patch() -> None:
    """Wrap ``nn.Module.__call__``; compiled code and traced graphs do not contain the wrapper."""
    import torch

    of_torch = (
        torch.Tensor,
        _is_compiling(torch),
        _autocast_dtype(torch),
        torch.jit.is_tracing,
        torch.is_grad_enabled,
    )
    module = torch.nn.Module
    of_models = functools.partial(_of_model, of_torch=of_torch)
    CALLS.patch(module, _wrapped(module.__call__, *of_torch), of_models)
    REFERENCE.on_found = begin_timing
    if hasattr(torch, "compile"):
        torch.compile = _naming_compile(torch.compile, module, of_torch)
    graph = getattr(torch.cuda, "CUDAGraph", None)
    if graph is not None and hasattr(graph, "capture_begin"):
        wrap(graph, "capture_begin", before=begin_before_capture)
        wrap(graph, "capture_end", before=end_after_capture)


def begin_timing() -> None:
    """Take out what only markers need: the steps that follow are those without profiling."""
    PATCHES.take_out()
    CALLS.see(CALLS.models if REFERENCE.clock == "call" else ())


def _naming_compile(
    original: Callable[..., Any], module_type: type, of_torch: tuple[Any, ...]
) -> Callable[..., Any]:
    """Give ``torch.compile(model.__call__)``, which calls no module, the range of the model."""

    @functools.wraps(original)
    def compile_and_name(*args: Any, **kwargs: Any) -> Any:
        compiled = original(*args, **kwargs)
        method = args[0] if args else kwargs.get("model")
        model = getattr(method, "__self__", None)
        if not isinstance(model, module_type) or getattr(method, "__name__", "") != "__call__":
            return compiled
        named = _wrapped(lambda _, *inputs, **more: compiled(*inputs, **more), *of_torch)

        @functools.wraps(compiled)
        def call(*inputs: Any, **more: Any) -> Any:
            return named(model, *inputs, **more)

        return call

    return compile_and_name


def _is_compiling(torch: Any) -> Callable[[], bool]:
    """Return ``is_compiling``; it is constant for TorchDynamo, which omits the wrapper then."""
    found = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    if found is None:
        found = getattr(torch, "_dynamo", None) and torch._dynamo.is_compiling
    result: Callable[[], bool] = found or (lambda: False)
    return result


def _autocast_dtype(torch: Any) -> Callable[[], object]:
    """Return a function that returns the data type of autocast on the GPU; None if it is off."""
    is_on = torch.is_autocast_enabled
    newer = getattr(torch, "get_autocast_dtype", None)

    def dtype() -> object:
        if not is_on():
            return None
        return newer("cuda") if newer else torch.get_autocast_gpu_dtype()

    return dtype


def _data_type(
    tensor: type, autocast_dtype: Callable[[], object]
) -> Callable[[Entry, tuple[Any, ...]], object]:
    """Return a function that returns the data type of the computation of a module."""

    def data_type(entry: Entry, args: tuple[Any, ...]) -> object:
        dtype = autocast_dtype() if entry.is_weighted else None
        if dtype is None and args and isinstance(args[0], tensor):
            dtype = args[0].dtype  # type: ignore[attr-defined]
        return dtype

    return data_type


def _of_model(original: Callable[..., Any], of_torch: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the wrapper of a class of models, which is there while no module has markers."""
    tensor, is_compiling, autocast_dtype, _, is_grad_enabled = of_torch
    needed = (tensor, _data_type(tensor, autocast_dtype), is_grad_enabled)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling() or CALLS.sees_all or REFERENCE.is_inside:
            return original(self, *args, **kwargs)
        if type(self).__name__ in TRANSPARENT:
            return original(self, *args, **kwargs)
        return timed(original, original, self, args, kwargs, needed)

    call.__name__, call.__qualname__ = "__call__", "Module.__call__"
    call.__wrapped__ = original  # type: ignore[attr-defined]
    return call


def _wrapped(  # noqa: C901, PLR0915 - runs for each call of a module: more functions would cost time
    original: Callable[..., Any],
    tensor: type,
    is_compiling: Callable[[], bool],
    autocast_dtype: Callable[[], object],
    is_tracing: Callable[[], bool],
    is_grad_enabled: Callable[[], bool],
) -> Callable[..., Any]:
    data_type = _data_type(tensor, autocast_dtype)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: C901, PLR0911, PLR0912, PLR0915
        if is_compiling():
            return original(self, *args, **kwargs)
        if not STATE.on:
            is_timed = STATE.is_held or STATE.is_light
            if not is_timed or REFERENCE.is_inside or type(self).__name__ in TRANSPARENT:
                return original(self, *args, **kwargs)
            of_torch = (tensor, data_type, is_grad_enabled)
            return timed(original, call, self, args, kwargs, of_torch)
        if is_tracing():
            return original(self, *args, **kwargs)
        backend = STATE.backend
        kind = type(self).__name__
        if backend is None or kind in TRANSPARENT:
            return original(self, *args, **kwargs)
        stack = _STACK
        entries, texts = stack.entries, stack.texts
        around = entries[-1] if entries else None
        if kind == COMPILED:
            entry = NAMES.compiled(self)
        else:
            entry = NAMES.get(self) or NAMES.learn(self)
            if entry is around and entry.stands_in:  # and was not compiled
                return original(self, *args, **kwargs)
        dtype = data_type(entry, args) if entry.is_leaf else None
        site = _call_site() if STATE.call_sites else ""
        label = NAMES.label(entry, around)
        if around is None and entry.chain:
            label = entry.label  # That of its forward call, in whose ranges it is called below.
        text = entry.text(label, dtype, site)
        opened = 1
        if around is not None:
            entry.chain, entry.label = tuple(texts), label
        elif not entry.name:
            entry.calls += 1
            flags = (self.training, is_grad_enabled())
            REFERENCE.call(self, is_training=all(flags))
            if LIGHT.is_due and LIGHT.end_markers():
                return call_unmarked(original, self, args, kwargs, text)
            CALLS.models.add(type(self))
            LIGHT.see(call_key(entry.root, args, kwargs, tensor, *flags))
            if entry.calls == CALLS_BEFORE_FLAGS:
                note_training_flags()
            if STATE.shapes == "first":
                signature = _signature(args, kwargs, tensor, *flags)
                STATE.record_shapes(wanted=_wants_shapes(entry, signature))
        else:
            # Called outside its model, when a checkpoint is recomputed on another thread. Its path
            # is that of its forward call.
            for outer in entry.chain:
                backend.push(outer)
                opened += 1
        backend.push(text)
        if entry.op and not STATE.ops_thread and not STATE.has_ops:
            backend.push(op_text(entry, self, args))
            opened += 1
        entries.append(entry)
        texts.append(text)
        try:
            return original(self, *args, **kwargs)
        finally:
            entries.pop()
            texts.pop()
            for _ in range(opened):
                backend.pop()

    call.__name__, call.__qualname__ = "__call__", "Module.__call__"
    call.__wrapped__ = original  # type: ignore[attr-defined]
    return call


def timed(
    original: Callable[..., Any],
    again: Callable[..., Any],
    module: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    of_torch: tuple[type, Callable[..., object], Callable[[], bool]],
) -> Any:
    """Call a model while steps are timed; the modules in it are not looked at.

    Args:
        original: The function that is wrapped.
        again: The wrapper, for a call that gets markers after all.
        module: The model.
        args: Its arguments.
        kwargs: Its arguments by name.
        of_torch: The type of tensors, and functions of PyTorch.
    """
    tensor, data_type, is_grad_enabled = of_torch
    flags = (module.training, is_grad_enabled())
    CALLS.models.add(type(module))
    REFERENCE.call(module, is_training=all(flags))
    if STATE.on:  # The collection begins with this call.
        return again(module, *args, **kwargs)
    text = ""
    if STATE.is_light:
        entry = _entry(module)
        if not entry.name:  # Others are called on other threads, when a checkpoint is recomputed.
            if LIGHT.resume_for(call_key(entry.root, args, kwargs, tensor, *flags)):
                REFERENCE.is_repeated = True
                return again(module, *args, **kwargs)
            dtype = data_type(entry, args) if entry.is_leaf else None
            text = entry.text(NAMES.label(entry, None), dtype)
    return call_unmarked(original, module, args, kwargs, text)


def _entry(module: Any) -> Entry:
    if type(module).__name__ == COMPILED:
        return NAMES.compiled(module)
    return NAMES.get(module) or NAMES.learn(module)


_OPENED: list[Entry] = []
"""Models whose ranges were opened for the capture of a graph."""


def begin_before_capture(*_: Any, **__: Any) -> None:
    """Begin the markers before a CUDA graph is captured: its replays are named by its capture."""
    if STATE.is_light:
        LIGHT.resume_for(("capture", LIGHT.resumed))
    if not STATE.is_held or REFERENCE.is_asked:
        return
    REFERENCE.reason = "graph_capture"
    REFERENCE.finish()
    model = _called_model()
    if model is not None and STATE.on and STATE.backend is not None:
        entry = _entry(model)
        STATE.backend.push(entry.text(NAMES.label(entry, None), None))
        _OPENED.append(entry)


def end_after_capture(*_: Any, **__: Any) -> None:
    """Close the range of the model that captured a graph."""
    if _OPENED and STATE.backend is not None:
        _OPENED.pop()
        STATE.backend.pop()


def _called_model() -> Any:
    """The outermost module whose call is active on this thread; None: there is none."""
    torch: Any = sys.modules["torch"]
    code = torch.nn.Module._call_impl.__code__
    found: Any = None
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code is code and type(frame.f_locals["self"]).__name__ not in TRANSPARENT:
            found = frame.f_locals["self"]
        frame = frame.f_back
    return found


def _signature(
    args: tuple[Any, ...], kwargs: dict[str, Any], tensor: type, *flags: bool
) -> tuple[Any, ...]:
    """Return the flags and the shapes of all tensors in the arguments and in their collections."""
    shapes: list[Any] = list(flags)
    for value in (*args, *kwargs.values()):
        if isinstance(value, tensor):
            shapes.append(value.shape)  # type: ignore[attr-defined]
        elif isinstance(value, (dict, list, tuple)):
            parts = value.values() if isinstance(value, dict) else value
            shapes += [part.shape for part in parts if isinstance(part, tensor)]  # type: ignore[attr-defined]
    return tuple(shapes)


def _wants_shapes(entry: Entry, signature: tuple[Any, ...]) -> bool:
    """Count a call of a model; return whether its shapes are new and the limit allows them."""
    calls = entry.signatures.get(signature, 0)
    if calls or len(entry.signatures) < _MOST_SIGNATURES:
        entry.signatures[signature] = calls + 1
    is_training = all(signature[:2])
    if LIGHT.limit:
        is_new = not calls or (is_training and LIGHT.has_shapes)
    else:
        is_new = calls < CALLS_WITH_SHAPES or (is_training and 0 < STATE.steps < STEPS_WITH_SHAPES)
    if not is_new or entry.shape_calls >= SHAPE_CALLS + entry.calls // SHAPE_SHARE:
        return False
    entry.shape_calls += 1
    return True


def _call_site() -> str:
    """Return file and line of the first caller outside torch and this package."""
    frame = sys._getframe(2)
    while frame.f_back is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(("torch.", "dlprof_nvtx.")):
            break
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
