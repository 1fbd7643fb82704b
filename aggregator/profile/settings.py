"""Settings and versions of the training script, as recorded by markers.

A marker is a range without length whose text is ``{"model_config": {...}}``, in the default domain.
``dlprof_nvtx`` writes them; so did ``nvidia_dlprof_pytorch_nvtx``. Being ranges, they are part of
every capture and of every export of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from aggregator.system.untrusted_json import read_object
from aggregator.texts import say

MARKER_PREFIX: Final = '{"model_config"'
FROM_OURS: Final = "dlprof_nvtx"
FROM_DLPROF: Final = "nvidia_dlprof_pytorch_nvtx"
NOT_RECORDED: Final = say("The capture does not contain it; dlprof_nvtx records it.")

KNOWN: Final = (
    *("framework", "cuda_version", "cudnn_version", "num_workers", "pin_memory"),
    *("prefetch_factor", "persistent_workers", "batch_size", "cudnn_benchmark"),
    *("cudnn_deterministic", "cudnn_allow_tf32", "matmul_allow_tf32", "matmul_precision"),
    *("detect_anomaly", "gradcheck", "gradgradcheck", "autograd_profile", "emit_nvtx"),
    *("amp_enabled", "amp_dtype", "grad_scaler_enabled", "optimizer", "optimizer_foreach"),
    *("optimizer_fused", "torch_compile", "channels_last"),
)
"""Settings that are listed even if they were not recorded."""

_RENAMED: Final = {
    ("autocast", "dtype"): "amp_dtype",
    ("grad_scaler", "enabled"): "grad_scaler_enabled",
    ("optimizer", "name"): "optimizer",
    ("optimizer", "foreach"): "optimizer_foreach",
    ("optimizer", "fused"): "optimizer_fused",
    ("", "autograd_set_detect_anomaly"): "detect_anomaly",
}
_FIRST_COUNTS: Final = frozenset({"DataLoader", "optimizer"})
"""Groups of which the first occurrence is used: later ones are not those of the training."""
_FLAGS: Final = frozenset(
    {
        *("pin_memory", "cudnn_benchmark", "detect_anomaly", "gradcheck", "gradgradcheck"),
        *("autograd_profile", "emit_nvtx", "amp_enabled"),
    }
)
"""DLProf's databases hold them as 0 and 1."""
_ONCE_TRUE: Final = frozenset({"amp_enabled", "detect_anomaly", "torch_compile", "emit_nvtx"})
"""Settings that are true if they were true for a part of the run."""


@dataclass(frozen=True)
class Setting:
    """One setting."""

    key: str  # Its name.
    value: Any  # JSON value; None: not recorded, or recorded as "the default".
    source: str  # The library that recorded it; empty: not recorded.

    @property
    def is_recorded(self) -> bool:
        """Whether the capture contains it."""
        return bool(self.source)


def read_settings(range_names: Iterable[str]) -> dict[str, Setting]:
    """Return the settings by name, in the order of ``KNOWN`` and then of the capture.

    ``range_names`` are distinct range texts in the order of the capture.
    """
    found: dict[str, Setting] = {}
    source = FROM_DLPROF
    for text in range_names:
        if not text.startswith(MARKER_PREFIX):
            continue
        config = _content(text)
        if config.get("markers") == FROM_OURS:
            source = FROM_OURS
        for group, key, value in _flat(config):
            _take(found, group, key, value, source)
    known = {key: found.pop(key, Setting(key, None, "")) for key in KNOWN}
    return known | found


def recorded_settings(range_names: Iterable[str]) -> dict[str, Any]:
    """Return the values of the settings that the capture contains."""
    found = read_settings(range_names).values()
    return {setting.key: setting.value for setting in found if setting.is_recorded}


def cudnn_version_text(value: Any) -> str:
    """Return a cuDNN version as text: 91002 is 9.10.2, 8902 is 8.9.2."""
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        return value if isinstance(value, str) else ""
    width = 10_000 if value >= 90_000 else 1_000
    return f"{value // width}.{value % width // 100}.{value % 100}"


def _content(text: str) -> dict[str, Any]:
    config = read_object(text).get("model_config")
    return config if isinstance(config, dict) else {}


def _flat(config: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """Return the (group, key, value) of everything in a marker; groups are one level deep."""
    rows: list[tuple[str, str, Any]] = []
    for key, value in config.items():
        if isinstance(value, dict):
            rows += [(str(key), str(name), inner) for name, inner in value.items()]
        elif not isinstance(value, list):
            rows.append(("", str(key), value))
    return rows


def _take(found: dict[str, Setting], group: str, key: str, value: Any, source: str) -> None:
    if key == "cudnn_benchmark_disabled":
        key, value = "cudnn_benchmark", not value
    name = _RENAMED.get((group, key), key)
    if name in _FLAGS and value in (0, 1):
        value = bool(value)
    before = found.get(name)
    if before is not None:
        if group in _FIRST_COUNTS:
            return
        if name in _ONCE_TRUE:
            value = bool(before.value) or bool(value)
    found[name] = Setting(name, value, source)
