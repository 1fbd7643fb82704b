"""Settings of the run, for the advice and for the system table: ``{"model_config": {...}}``.

Each is written when it becomes known, and all again when a profiled range begins and every few
seconds, because a capture may begin late (``--delay``, ``--nsys_profile_range``).
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
import weakref
from typing import Any

from dlprof_nvtx.state import STATE

REPEAT_S = 2.0
_NOTED: dict[str, None] = {}
_SEEN: set[str] = set()
_OPTIMIZERS: weakref.WeakSet[Any] = weakref.WeakSet()
_LAST_REPEAT = [0.0]
_PEAKS: dict[int, int] = {}


def note_config(values: dict[str, Any], of: str = "") -> None:
    """Write settings once each, as a range without length."""
    plain = {k: v for k, v in values.items() if v is None or isinstance(v, (bool, int, float, str))}
    config = {of: plain} if of else plain
    _note(json.dumps({"model_config": config}, separators=(",", ":")))


def _note(text: str) -> None:
    if STATE.on and text not in _NOTED:
        _NOTED[text] = None
        STATE.note(text)


def repeat() -> None:
    """Write everything again."""
    _LAST_REPEAT[0] = time.monotonic()
    for text in list(_NOTED):
        STATE.note(text)


def describe_process() -> None:
    """Versions and flags that are known before the training; creates no CUDA context."""
    import torch

    _NOTED.clear()
    _SEEN.clear()
    _PEAKS.clear()
    _LAST_REPEAT[0] = time.monotonic()
    torch_any: Any = torch
    note_config(
        {
            "framework": f"PyTorch {torch.__version__}",
            "cuda_version": torch_any.version.cuda,
            "cudnn_version": _cudnn_version(torch),
            "markers": "dlprof_nvtx",
        }
    )
    note_config({"emit_nvtx": bool(STATE.ops_thread)})


def _cudnn_version(torch: Any) -> int | None:
    if not torch.version.cuda:
        return None
    try:
        version = torch.backends.cudnn.version()
    except RuntimeError:
        return None
    return int(version) if version else None


def note_training_flags() -> None:
    """Flags as they are at an optimizer's step: scripts set them on the way."""
    import torch

    flags: dict[str, Any] = {
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "detect_anomaly": torch.is_anomaly_enabled(),
        "amp_enabled": "autocast" in _SEEN,
        "torch_compile": _compiled_graphs() > 0,
    }
    try:
        # PyTorch refuses to tell where a script mixes its old and its new switches.
        flags["cudnn_allow_tf32"] = torch.backends.cudnn.allow_tf32
        precision = torch.get_float32_matmul_precision()
        flags.update(matmul_precision=precision, matmul_allow_tf32=precision != "highest")
    except RuntimeError:
        pass
    note_config(flags)


def _compiled_graphs() -> int:
    """Graphs that TorchDynamo compiled in this process; it is not imported for that."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    return int(dict(counters).get("stats", {}).get("unique_graphs", 0))


def note_memory() -> None:
    """What PyTorch's allocator held at most, by GPU; nothing before the first use of one."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not STATE.on or not torch.cuda.is_initialized():
        return
    for device in range(torch.cuda.device_count()):
        peak = int(torch.cuda.max_memory_reserved(device))
        if peak <= _PEAKS.get(device, 0):
            continue
        _PEAKS[device] = peak
        uuid = getattr(torch.cuda.get_device_properties(device), "uuid", "")
        told = {
            "device": device,
            "uuid": str(uuid),
            "pid": os.getpid(),
            "peak_reserved_bytes": peak,
            "peak_allocated_bytes": int(torch.cuda.max_memory_allocated(device)),
        }
        _note(json.dumps({"gpu_memory": told}, separators=(",", ":")))


def patch() -> None:
    """Look at the flags of a training when its optimizer steps; note what else is used."""
    import torch

    try:
        from torch.optim.optimizer import register_optimizer_step_pre_hook
    except ImportError:  # PyTorch 2.0: the flags stay unknown
        pass
    else:
        register_optimizer_step_pre_hook(_look_at)
    _look_at_clearing(torch.optim.Optimizer)
    _note_on_enter(torch.amp.autocast_mode.autocast)
    scaler = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
    _note_on_init(scaler)
    for name in ("gradcheck", "gradgradcheck"):
        _note_on_call(torch.autograd, name)
    runtime = getattr(torch._C, "_cudart", None)
    if runtime is not None:
        _repeat_after(runtime, "cudaProfilerStart")


def _look_at_clearing(owner: Any) -> None:
    """A gradient scaler skips steps; gradients are cleared all the same."""
    clear = owner.zero_grad

    @functools.wraps(clear)
    def cleared(self: Any, *args: Any, **kwargs: Any) -> Any:
        _look_at(self)
        return clear(self, *args, **kwargs)

    owner.zero_grad = cleared


def _look_at(optimizer: Any, *_: Any) -> None:
    if not STATE.on:
        return
    note_training_flags()
    if optimizer not in _OPTIMIZERS:
        _OPTIMIZERS.add(optimizer)
        _note_optimizer(optimizer)
    if time.monotonic() - _LAST_REPEAT[0] > REPEAT_S:
        note_memory()
        repeat()


def _note_optimizer(optimizer: Any) -> None:
    defaults = optimizer.defaults
    told = {name: defaults[name] for name in ("foreach", "fused") if name in defaults}
    note_config({"name": type(optimizer).__name__, **told}, "optimizer")
    import torch

    for group in optimizer.param_groups:
        for weight in group["params"]:
            # A filter of one pixel or one channel has both layouts at once.
            if len(weight.shape) == 4 and min(weight.shape[1], weight.shape[2:].numel()) > 1:
                is_last = weight.is_contiguous(memory_format=torch.channels_last)
                note_config({"channels_last": is_last})
                return


def _note_on_enter(owner: Any) -> None:
    enter = owner.__enter__

    @functools.wraps(enter)
    def entered(self: Any) -> Any:
        if STATE.on and getattr(self, "_enabled", False):
            _SEEN.add("autocast")
            dtype = str(getattr(self, "fast_dtype", "")).rpartition(".")[2]
            note_config({"amp_enabled": True, "dtype": dtype}, "autocast")
        return enter(self)

    owner.__enter__ = entered


def _note_on_init(owner: Any) -> None:
    begin = owner.__init__

    @functools.wraps(begin)
    def initialised(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        if STATE.on:
            note_config({"enabled": bool(self.is_enabled())}, "grad_scaler")

    owner.__init__ = initialised


def _note_on_call(owner: Any, name: str) -> None:
    function = getattr(owner, name)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        note_config({name: True})
        return function(*args, **kwargs)

    setattr(owner, name, called)


def _repeat_after(owner: Any, name: str) -> None:
    function = getattr(owner, name, None)
    if function is None:
        return

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        repeat()
        return result

    setattr(owner, name, called)
