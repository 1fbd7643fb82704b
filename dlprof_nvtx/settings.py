"""Settings of the run, for the advice and for the system table: ``{"model_config": {...}}``."""

from __future__ import annotations

import functools
import json
from typing import Any

from dlprof_nvtx.state import STATE

_NOTED: set[str] = set()


def note_config(values: dict[str, Any], of: str = "") -> None:
    """Write settings once each, as a range without length."""
    plain = {k: v for k, v in values.items() if v is None or isinstance(v, (bool, int, float, str))}
    config = {of: plain} if of else plain
    text = json.dumps({"model_config": config}, separators=(",", ":"))
    if STATE.on and text not in _NOTED:
        _NOTED.add(text)
        STATE.note(text)


def describe_process() -> None:
    """Versions and flags that are known before the training; creates no CUDA context."""
    import torch

    _NOTED.clear()
    torch_any: Any = torch
    note_config(
        {
            "framework": f"PyTorch {torch.__version__}",
            "cuda_version": torch_any.version.cuda,
            "cudnn_version": _cudnn_version(torch),
            "markers": "dlprof_nvtx",
        }
    )


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

    note_config(
        {
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "cudnn_deterministic": torch.backends.cudnn.deterministic,
            "cudnn_allow_tf32": torch.backends.cudnn.allow_tf32,
            "matmul_precision": torch.get_float32_matmul_precision(),
            "detect_anomaly": torch.is_anomaly_enabled(),
        }
    )


def patch() -> None:
    """Look at the flags of a training when its optimizer steps; note autocast and scalers."""
    import torch

    try:
        from torch.optim.optimizer import register_optimizer_step_pre_hook
    except ImportError:  # PyTorch 2.0: the flags stay unknown
        pass
    else:
        register_optimizer_step_pre_hook(_before_step)
    _note_on_enter(torch.amp.autocast_mode.autocast)
    scaler = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
    _note_on_init(scaler)


def _before_step(*_: Any) -> None:
    if STATE.on:
        note_training_flags()


def _note_on_enter(owner: Any) -> None:
    enter = owner.__enter__

    @functools.wraps(enter)
    def entered(self: Any) -> Any:
        if STATE.on and getattr(self, "_enabled", False):
            dtype = str(getattr(self, "fast_dtype", "")).removeprefix("torch.")
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
