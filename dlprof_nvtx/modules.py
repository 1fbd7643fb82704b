"""Write a range for each call of an ``nn.Module``."""

from __future__ import annotations

import functools
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

from dlprof_nvtx.baseline_timing import REFERENCE
from dlprof_nvtx.guard import Refused, fields, find_is_compiling, find_is_traced, guarded, report
from dlprof_nvtx.marker_sampling import LIGHT, call_key
from dlprof_nvtx.names import TRANSPARENT, Entry, Names, compiled_module, op_text, shape_of
from dlprof_nvtx.patches import CALLS, PATCHES
from dlprof_nvtx.settings import note_training_flags
from dlprof_nvtx.state import STATE, Backend, wrap
from dlprof_nvtx.trial import TRIAL
from dlprof_nvtx.windows import WINDOWS

NAMES = Names()
REFUSED = Refused()
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
_DIRECT = ("_compiled_call_impl", "_call_impl")
"""What ``nn.Module.__call__`` of PyTorch 2.1 and newer names, and nothing else."""


class _Stack(threading.local):
    """Modules whose calls are active on this thread, outermost first, and their texts."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.texts: list[str] = []
        self.is_quiet = False  # Whether a model is called whose modules are not looked at.


_STACK = _Stack()


def patch() -> None:
    """Wrap ``nn.Module.__call__``; compiled code and traced graphs do not contain the wrapper."""
    import torch

    module = torch.nn.Module
    opener = _Opener(torch)
    CALLS.patch(module, _wrapped(module.__call__, opener))
    REFERENCE.on_found = begin_timing
    if hasattr(torch, "compile"):
        torch.compile = _naming_compile(torch.compile, module, opener)
    graph = getattr(torch.cuda, "CUDAGraph", None)
    if graph is not None and hasattr(graph, "capture_begin"):
        wrap(graph, "capture_begin", before=begin_before_capture)
        wrap(graph, "capture_end", before=end_after_capture)
        if TRIAL.is_active:
            wrap(graph, "replay", after=REFERENCE.end_replay)


def begin_timing() -> None:
    """Take out what only markers need: the steps that follow are those without profiling."""
    PATCHES.take_out()
    if REFERENCE.clock != "call":
        CALLS.take_out()


def _naming_compile(
    original: Callable[..., Any], module_type: type, opener: _Opener
) -> Callable[..., Any]:
    """Let a compiled function that is no module have a range and end steps.

    ``torch.compile(model.__call__)`` has the range of its model. A compiled training step calls
    neither models nor optimizers at run time: there a step ends where the function returns.
    """

    def prepare(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function: Any = args[0] if args else kwargs.get("model")
        model = function.__self__ if type(function) is types.MethodType else None
        is_of_module = issubclass(type(model), module_type)
        if is_of_module and function.__func__ is module_type.__call__:
            unwrapped = types.MethodType(CALLS.original(function.__func__), model)
            if args:
                return (unwrapped, *args[1:]), kwargs, functools.partial(_named, opener, model)
            return (), {**kwargs, "model": unwrapped}, functools.partial(_named, opener, model)
        is_function = type(function) in _FUNCTIONS and not is_of_module
        # TorchDynamo looks where the code of a method lies, and takes another path for ours.
        is_wrapped = is_function and not _is_in_a_class_body(function)
        return args, kwargs, _ending_steps if is_wrapped else None

    def rename(wrap_it: Callable[..., Any], compiled: Any) -> Any:
        return wrap_it(compiled)

    begin, end = guarded(prepare), guarded(rename)
    take_out, put_back = guarded(CALLS.take_out), guarded(CALLS.put_back)

    @functools.wraps(original)
    def compile_and_name(*args: Any, **kwargs: Any) -> Any:
        args, kwargs, wrap_it = begin(args, kwargs) or (args, kwargs, None)
        # TorchDynamo would not compile the wrapper, but what the wrapper calls.
        is_out = take_out()
        try:
            compiled = original(*args, **kwargs)
        finally:
            if is_out:
                put_back()
        named = None if wrap_it is None else end(wrap_it, compiled)
        return compiled if named is None else named

    return compile_and_name


def _is_in_a_class_body(function: Any) -> bool:
    """Return whether a decorator compiles a method, as ``@torch.compile def forward``."""
    name = str(getattr(function, "__qualname__", ""))
    return type(function) is types.FunctionType and "." in name.rpartition("<locals>.")[2]


_WRAPPER_ID = "_torchdynamo_wrapper_id"
_FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial)


def _named(opener: _Opener, model: Any, compiled: Callable[..., Any]) -> Callable[..., Any]:
    """Give a compiled ``__call__`` the range of its model."""

    def run_compiled(_: Any, *inputs: Any, **more: Any) -> Any:
        return compiled(*inputs, **more)

    call_model = _wrapped(run_compiled, opener)

    @functools.wraps(compiled)
    def call(*inputs: Any, **more: Any) -> Any:
        return call_model(model, *inputs, **more)

    return _as_compiled(call)


def _ending_steps(compiled: Callable[..., Any]) -> Callable[..., Any] | None:
    if type(compiled) is not types.FunctionType:
        return None
    end = guarded(_end_compiled)

    @functools.wraps(compiled)
    def call(*inputs: Any, **more: Any) -> Any:
        result = compiled(*inputs, **more)
        end(compiled)
        return result

    return _as_compiled(call)


def _as_compiled(call: Callable[..., Any]) -> Callable[..., Any]:
    """Let TorchDynamo see through a wrapper: a compiled function may be compiled again.

    Newer versions follow the copied attributes only if this one is the id of the wrapper.
    """
    if hasattr(call, _WRAPPER_ID):
        setattr(call, _WRAPPER_ID, id(call))
    return call


def _end_compiled(compiled: Callable[..., Any]) -> None:
    if STATE.is_noting and not _STACK.entries and not _STACK.is_quiet:
        REFERENCE.end_compiled(compiled)


class _Opener:
    """Opens the ranges of a call of a module."""

    def __init__(self, torch: Any) -> None:
        self._tensor = torch.Tensor
        self._is_compiling = find_is_compiling()
        self._is_tracing = torch.jit.is_tracing
        self._is_grad_enabled = torch.is_grad_enabled
        self._autocast_dtype = _autocast_dtype(torch)
        self._script = torch.jit.ScriptModule
        # What is read of tensors is not seen by the program's own modes and classes.
        self._unseen = torch._C.DisableTorchFunction

    def open(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """Open the ranges of a call; returns their number for ``close``, or ``NOT_OPENED``."""
        try:
            if module in REFUSED or self._is_compiling():
                return NOT_OPENED
            with self._unseen():
                return self._open(module, args, kwargs)
        except Exception as error:  # noqa: BLE001 - a module of the program may be anything
            REFUSED.add(module, error)
            return NOT_OPENED

    def _open(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        if type(module).__name__ in TRANSPARENT:
            return NOT_OPENED
        if not STATE.on:
            if not (STATE.is_held or STATE.is_light):
                return NOT_OPENED
            opened = self._open_timed(module, args, kwargs)
            if opened != MARKED_NOW:
                return opened
        if STATE.backend is None or self._is_tracing():
            return NOT_OPENED
        return self._open_marked(STATE.backend, module, args, kwargs)

    def _open_timed(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """Note a call while steps are timed or light; the modules in it are not looked at."""
        flags = self._flags(module)
        REFERENCE.call(module, is_training=all(flags))
        if TRIAL.is_active:
            TRIAL.note_call(module, args, kwargs)
        if STATE.on:  # The collection begins with this call.
            return MARKED_NOW
        text = ""
        if STATE.is_light:
            entry = NAMES.find(module)
            # Others are called on other threads, when a checkpoint is recomputed.
            if not entry.name:
                key = call_key(entry.model, args, kwargs, self._tensor, *flags)
                if LIGHT.resume_for(key):
                    REFERENCE.is_repeated = True
                    return MARKED_NOW
                text = self._text(entry, args)
        return _open_quiet(text)

    def _flags(self, module: Any) -> tuple[bool, bool]:
        """Return whether a module is in training mode, and gradients are recorded."""
        # What torch.compile() returns has the mode of the module that it stands for.
        original = compiled_module(module)
        is_training = fields(module if original is None else original).get("training")
        if is_training is None and isinstance(module, self._script):
            is_training = getattr(module, "training", False)  # A frozen one has no mode.
        return bool(is_training), self._is_grad_enabled()

    def _text(self, entry: Entry, args: tuple[Any, ...]) -> str:
        return entry.text(NAMES.label(entry, None), self._data_type(entry, args))

    def _data_type(self, entry: Entry, args: tuple[Any, ...]) -> object:
        """Return the data type of the computation of a layer; None if it is unknown."""
        if not entry.is_leaf:
            return None
        dtype = self._autocast_dtype() if entry.is_weighted else None
        if dtype is None and args and issubclass(type(args[0]), self._tensor):
            dtype = args[0].dtype
        return dtype

    def _open_marked(
        self, backend: Backend, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> int:
        entries, texts = _STACK.entries, _STACK.texts
        around = entries[-1] if entries else None
        entry = NAMES.find(module)
        if entry is around and entry.stands_in:  # and was not compiled
            return NOT_OPENED
        label = NAMES.label(entry, around)
        if around is None and entry.chain:
            label = entry.label  # That of its forward call, in whose ranges it is called below.
        site = _call_site() if STATE.call_sites else ""
        text = entry.text(label, self._data_type(entry, args), site)
        ranges = [text]
        if around is not None:
            entry.chain, entry.label = tuple(texts), label
        elif not entry.name:
            if self._begin_model(entry, module, args, kwargs):
                return _open_quiet(text if STATE.is_light else "")
        else:
            # Called outside its model, when a checkpoint is recomputed on another thread. Its path
            # is that of its forward call.
            ranges = [*entry.chain, text]
        if entry.op and not STATE.ops_thread and not STATE.has_ops:
            ranges.append(op_text(entry, module, args))
        _push_all(backend, ranges)
        entries.append(entry)
        texts.append(text)
        return len(ranges)

    def _begin_model(
        self, entry: Entry, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> bool:
        """Note the call of a model with markers; returns whether these have just ended."""
        entry.calls += 1
        flags = self._flags(module)
        REFERENCE.call(module, is_training=all(flags))
        if not STATE.on:  # The collection ends with this call.
            return True
        if LIGHT.is_due and LIGHT.end_markers():
            return True
        LIGHT.see(call_key(entry.model, args, kwargs, self._tensor, *flags))
        if entry.calls == CALLS_BEFORE_FLAGS:
            note_training_flags()
        if STATE.shapes == "first":
            signature = _signature(args, kwargs, self._tensor, *flags)
            STATE.record_shapes(wanted=_wants_shapes(entry, signature))
        return False


NOT_OPENED, MARKED_NOW = -1, -2
QUIET = 1 << 30
"""Added to the number of ranges of a model whose modules are not looked at."""


def _open_quiet(text: str) -> int:
    """Open the range of a model, whose modules are not looked at; empty text: none."""
    if text and STATE.backend is not None:
        STATE.backend.push(text)
        _STACK.is_quiet = True
        return QUIET + 1
    _STACK.is_quiet = True
    return QUIET


def _push_all(backend: Backend, ranges: list[str]) -> None:
    """Open ranges, all or none of them."""
    opened = 0
    try:
        for text in ranges:
            backend.push(text)
            opened += 1
    except BaseException:
        for _ in range(opened):
            backend.pop()
        raise


def close(opened: int) -> None:
    """Close the ranges of a call."""
    try:
        if opened & QUIET:
            _STACK.is_quiet = False
        else:
            _STACK.entries.pop()
            _STACK.texts.pop()
        if STATE.backend is not None:
            for _ in range(opened & ~QUIET):
                STATE.backend.pop()
    except Exception as error:  # noqa: BLE001 - markers must never stop a training
        report(error)


def _wrapped(original: Callable[..., Any], opener: _Opener) -> Callable[..., Any]:
    """Return the wrapper of ``nn.Module.__call__``.

    It does what PyTorch's own function does instead of calling that, so that the calls of a
    recursive model are no deeper than without it.
    """
    is_traced, open_ranges, stack = find_is_traced(), opener.open, _STACK
    code = getattr(original, "__code__", None)
    is_direct = code is not None and tuple(dict.fromkeys(code.co_names)) == _DIRECT

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_traced():
            return original(self, *args, **kwargs)
        opened = NOT_OPENED if stack.is_quiet else open_ranges(self, args, kwargs)
        try:
            if not is_direct:
                return original(self, *args, **kwargs)
            if self._compiled_call_impl is not None:
                return self._compiled_call_impl(*args, **kwargs)
            return self._call_impl(*args, **kwargs)
        finally:
            if opened != NOT_OPENED:
                close(opened)

    return call


def _autocast_dtype(torch: Any) -> Callable[[], object]:
    """Return a function that returns the data type of autocast on the GPU; None if it is off."""
    is_on = torch.is_autocast_enabled
    newer = getattr(torch, "get_autocast_dtype", None)

    def dtype() -> object:
        if not is_on():
            return None
        return newer("cuda") if newer else torch.get_autocast_gpu_dtype()

    return dtype


_OPENED: list[Entry] = []
"""Models whose ranges were opened for the capture of a graph."""


def begin_before_capture(*_: Any, **__: Any) -> None:
    """Begin the markers before a CUDA graph is captured: its replays are named by its capture."""
    if STATE.is_light:
        LIGHT.resume_for(("capture", LIGHT.resumed))
    if not STATE.is_held or (REFERENCE.is_held and REFERENCE.is_asked):
        return
    if REFERENCE.is_held:
        REFERENCE.reason = "graph_capture"
        REFERENCE.finish()
    elif WINDOWS.may_attach:
        WINDOWS.attach(WINDOWS.current)
    _STACK.is_quiet = False  # The modules of the model that is called have markers from now on.
    model = _called_model()
    if model is not None and STATE.on and STATE.backend is not None:
        entry = NAMES.find(model)
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
    shapes: list[Any] = list(flags)
    for value in (*args, *kwargs.values()):
        kind = type(value)
        if issubclass(kind, tensor):
            shapes.append(shape_of(value))
        elif issubclass(kind, (dict, list, tuple)):
            # As the builtin types do it: a class of the program may compute its items.
            base = next(base for base in (dict, list, tuple) if issubclass(kind, base))
            parts = dict.values(value) if base is dict else base.__iter__(value)
            shapes += [shape_of(part) for part in parts if issubclass(type(part), tensor)]
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
