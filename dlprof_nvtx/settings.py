"""Record settings of the run, for advice and the system table: ``{"model_config": {...}}``.

Each is written when it becomes known. All are repeated when a profiled range begins and every few
seconds, because a capture may begin late (``--delay``, ``--nsys_profile_range``).
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from typing import Any

from dlprof_nvtx.baseline_timing import REFERENCE
from dlprof_nvtx.guard import ById, fields, guarded
from dlprof_nvtx.names import shape_of
from dlprof_nvtx.state import STATE, wrap

REPEAT_S = 2.0
_NOTED: dict[str, None] = {}
_SEEN: set[str] = set()
_OPTIMIZERS = ById()
_LAST_REPEAT = [0.0]
_PEAKS: dict[int, int] = {}


def note_config(values: dict[str, Any], of: str = "") -> None:
    """Write each setting once, as an empty range."""
    plain = {k: v for k, v in values.items() if v is None or isinstance(v, (bool, int, float, str))}
    config = {of: plain} if of else plain
    _note(json.dumps({"model_config": config}, separators=(",", ":")))


def _note(text: str) -> None:
    if STATE.is_noting and text not in _NOTED:
        _NOTED[text] = None
        STATE.note(text)


def note_marks(name: str, count: int) -> None:
    """Write when markers end or begin; only the last of each kind is repeated."""
    for text in [text for text in _NOTED if f'"{name}":' in text]:
        del _NOTED[text]
    note_config({name: count})


def repeat(*_: Any, **__: Any) -> None:
    """Write all settings again."""
    _LAST_REPEAT[0] = time.monotonic()
    for text in list(_NOTED):
        STATE.note(text)


def describe_process() -> None:
    """Record versions and flags that are known before the training; creates no CUDA context."""
    import torch

    _NOTED.clear()
    _SEEN.clear()
    _PEAKS.clear()
    STATE.steps = 0
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
    if not STATE.is_held:
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
    """Record flags at a step of an optimizer, because scripts set them before."""
    import torch

    flags: dict[str, Any] = {
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "detect_anomaly": torch.is_anomaly_enabled(),
        "amp_enabled": "autocast" in _SEEN,
        "torch_compile": _compiled_graphs() > 0,
    }
    try:
        # PyTorch raises an error if a script mixes its old and its new settings.
        flags["cudnn_allow_tf32"] = torch.backends.cudnn.allow_tf32
        precision = torch.get_float32_matmul_precision()
        flags.update(matmul_precision=precision, matmul_allow_tf32=precision != "highest")
    except RuntimeError:
        pass
    note_config(flags)


def _compiled_graphs() -> int:
    """Return the number of graphs that TorchDynamo compiled; does not import it."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    return int(dict(counters).get("stats", {}).get("unique_graphs", 0))


def note_memory() -> None:
    """Record the peak memory of PyTorch's allocator by GPU, after the first use of a GPU."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not (STATE.on or STATE.is_light) or not torch.cuda.is_initialized():
        return
    for device in range(torch.cuda.device_count()):
        peak = int(torch.cuda.max_memory_reserved(device))
        if peak <= _PEAKS.get(device, 0):
            continue
        _PEAKS[device] = peak
        uuid = getattr(torch.cuda.get_device_properties(device), "uuid", "")
        memory = {
            "device": device,
            "uuid": str(uuid),
            "pid": os.getpid(),
            "peak_reserved_bytes": peak,
            "peak_allocated_bytes": int(torch.cuda.max_memory_allocated(device)),
        }
        _note(json.dumps({"gpu_memory": memory}, separators=(",", ":")))


def patch() -> None:
    """Record flags at optimizer steps, and the use of autocast, scalers and gradient checks."""
    import torch

    try:
        from torch.optim.optimizer import (
            register_optimizer_step_post_hook,
            register_optimizer_step_pre_hook,
        )
    except ImportError:  # PyTorch 2.0: the flags are unknown
        pass
    else:
        register_optimizer_step_pre_hook(guarded(_count_step))
        register_optimizer_step_post_hook(guarded(_end_step))
    # Also when gradients are cleared, because gradient scalers skip steps.
    wrap(torch.optim.Optimizer, "zero_grad", before=_observe, is_marker=True)
    autocast = torch.amp.autocast_mode.autocast
    wrap(autocast, "__enter__", before=_note_autocast, is_marker=True)
    scaler = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
    wrap(scaler, "__init__", after=_note_scaler)
    for name in ("gradcheck", "gradgradcheck"):
        wrap(torch.autograd, name, before=functools.partial(_note_check, name))
    runtime = getattr(torch._C, "_cudart", None)
    if hasattr(runtime, "cudaProfilerStart"):
        wrap(runtime, "cudaProfilerStart", after=repeat)


def _count_step(optimizer: Any, *_: Any, **__: Any) -> None:
    STATE.steps += 1
    _observe(optimizer)


def _end_step(optimizer: Any, *_: Any, **__: Any) -> None:
    if STATE.is_noting:
        REFERENCE.step(optimizer)


def _observe(optimizer: Any, *_: Any, **__: Any) -> None:
    if STATE.on:
        note_training_flags()
        if not _OPTIMIZERS.get(optimizer):
            _OPTIMIZERS.put(optimizer, True)
            _note_optimizer(optimizer)
    elif not STATE.is_light:
        return
    if time.monotonic() - _LAST_REPEAT[0] > REPEAT_S:
        note_memory()
        repeat()


def _note_optimizer(optimizer: Any) -> None:
    values = fields(optimizer)
    defaults = values.get("defaults") or {}
    choices = {name: defaults[name] for name in ("foreach", "fused") if name in defaults}
    note_config({"name": type(optimizer).__name__, **choices}, "optimizer")
    import torch

    weights = [item for group in values.get("param_groups") or () for item in group["params"]]
    # What is read of tensors is not seen by the program's own modes and classes.
    with torch._C.DisableTorchFunction():
        for weight in weights:
            shape = shape_of(weight)
            # A filter of one pixel or one channel has both layouts.
            if len(shape) == 4 and min(shape[1], shape[2] * shape[3]) > 1:
                is_last = weight.is_contiguous(memory_format=torch.channels_last)
                note_config({"channels_last": is_last})
                return


def _note_autocast(region: Any) -> None:
    if (STATE.on or STATE.is_held) and getattr(region, "_enabled", False):
        dtype = str(getattr(region, "fast_dtype", "")).rpartition(".")[2]
        if f"autocast {dtype}" in _SEEN:
            return
        _SEEN.update(("autocast", f"autocast {dtype}"))
        note_config({"amp_enabled": True, "dtype": dtype}, "autocast")


def _note_scaler(scaler: Any, *_: Any, **__: Any) -> None:
    if STATE.is_noting:
        note_config({"enabled": bool(scaler.is_enabled())}, "grad_scaler")


def _note_check(name: str, *_: Any, **__: Any) -> None:
    note_config({name: True})
