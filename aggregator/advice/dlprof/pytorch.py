"""Detectors for PyTorch: data loading, settings and markers."""

from __future__ import annotations

import re

from aggregator.advice.dlprof.evidence import Evidence, Issue
from aggregator.advice.dlprof.gpus import LOW_UTILIZATION_PCT
from aggregator.correlate.op_table import UNASSOCIATED
from aggregator.options import Mode
from aggregator.texts import say

HIGH_DATALOADER_PCT = 20.0
"""Share of the wall time; DLProf's own threshold is not public, it reported 87.3 %."""
SLOW_SETTINGS = (
    "detect_anomaly",
    "gradcheck",
    "gradgradcheck",
    "record_function",
    "autograd_profile",
)
"""Settings listed in DLProf's guide; ``set_detect_anomaly`` is recorded as ``detect_anomaly``."""
COMBINED = "backward"  # Type of the one op that represents a backward pass without named ops.
LARGE_SHARE = 0.2  # Ranges are missing if at least this share of the kernel time belongs to no op.
_TRAINING = re.compile(r"^Optimizer\.|backward", re.IGNORECASE)
_CALL = re.compile(r"^cu(da)?[A-Z]")


def detect_dataloader(evidence: Evidence) -> Issue | None:
    """Detect a data loader that keeps the GPU waiting, or a PyTorch profile without DALI ops.

    DLProf 1.8 reported the second form for every PyTorch profile without DALI ops.
    """
    if evidence.data.mode != Mode.PYTORCH:
        return None
    share = float(evidence.totals["dataloader_duration_pct"])
    if share >= HIGH_DATALOADER_PCT and evidence.totals["gpu_utilization"] < LOW_UTILIZATION_PCT:
        return Issue(
            detector="dataloader_detector",
            problem=say(
                "{share:.1f}% of the aggregated run was spent in the dataloader while not "
                "simultaneously running on the GPU",
                share=share,
            ),
            recommendation=say(
                "Focus on reducing time spent in the training data input process. This could be "
                "time spent in file reading, preprocessing and augmentation or file transfer.\n"
                "Consider using NVIDIA DALI, a library that is a high performance alternative to "
                "built-in data loaders and data iterators. Learn more here: "
                "https://developer.nvidia.com/DALI"
            ),
        )
    if any("dali" in name.lower() for name in evidence.data.ops.names):
        return None
    return Issue(
        detector="dataloader_detector",
        problem=say("No DALI ops detected"),
        recommendation=say(
            "Consider using NVIDIA DALI, a library that is a high performance alternative to "
            "built-in data loaders and data iterators. Learn more here: https://developer.nvidia.com/DALI"
        ),
    )


def is_convolution(op_type: str) -> bool:
    """Return whether cuDNN computes an op of this type as a convolution."""
    return op_type.startswith(("conv1d", "conv2d", "conv3d", "conv_transpose", "convolution"))


def detect_cudnn_benchmark(evidence: Evidence) -> Issue | None:
    """Detect convolutions that ran while ``cudnn.benchmark`` was recorded as off."""
    data = evidence.data
    if data.mode != Mode.PYTORCH or data.settings.get("cudnn_benchmark") is not False:
        return None
    if not any(is_convolution(data.ops.types[op]) for op in evidence.ops.op.tolist()):
        return None
    return Issue(
        detector="cudnn_benchmark_detector",
        problem=say(
            "Convolution operations were detected but torch.backends.cudnn.benchmark was not "
            "enabled."
        ),
        recommendation=say(
            "Try setting torch.backends.cudnn.benchmark = True in your network. For best "
            "performance, the input shapes should be relatively stable."
        ),
    )


def detect_slow_api(evidence: Evidence) -> Issue | None:
    """Detect debugging settings of PyTorch that were recorded as on."""
    settings = evidence.data.settings
    if evidence.data.mode != Mode.PYTORCH:
        return None
    found = [name for name in SLOW_SETTINGS if settings.get(name) is True]
    if not found:
        return None
    return Issue(
        detector="slow_api_detector",
        problem=say(
            "The following PyTorch APIs, which slow down a run, are enabled: {names}",
            names=", ".join(found),
        ),
        recommendation=say("Disable them when not debugging"),
    )


def detect_no_emit_nvtx(evidence: Evidence) -> Issue | None:
    """Detect markers without the ranges of ``emit_nvtx``.

    The signs are its setting, one combined op for the backward pass, or, in training, much time of
    kernels whose launches lie in no op. A trace of torch.profiler has no such ranges to record.
    """
    data, ops = evidence.data, evidence.ops
    if data.mode != Mode.PYTORCH or data.settings.get("emit_nvtx") is True:
        return None
    if evidence.is_from_torch_profiler:
        return None
    rows = ops.op.tolist()
    backward = {data.ops.types[op] for op in rows if data.ops.directions[op] == "bprop"}
    if backward - {COMBINED}:
        return None
    combined = COMBINED in backward or any(data.ops.types[op] == COMBINED for op in rows)
    if not combined and not (_trains(evidence) and _has_strays(evidence)):
        return None
    return Issue(
        detector="emit_nvtx_detector",
        problem=say("emit_nvtx was not used: the ops of the backward pass cannot be identified"),
        recommendation=say(
            "Wrap the training loop in: with torch.autograd.profiler.emit_nvtx(). The markers that "
            "dlprof adds automatically do this"
        ),
    )


def _trains(evidence: Evidence) -> bool:
    """Return whether a range names an optimizer or a backward pass; DLProf did not ask."""
    return evidence.is_from_dlprof or any(map(_TRAINING.search, evidence.data.ranges.names))


def _has_strays(evidence: Evidence) -> bool:
    """Return whether much kernel time was launched outside all ops."""
    ops, data = evidence.ops, evidence.data.ops
    time = ops.columns["kernel_time"].tolist()
    # Without a recorded call such an op has the name of the kernel: nothing is known of its launch.
    stray = sum(
        ns
        for op, ns in zip(ops.op.tolist(), time, strict=True)
        if data.names[op].startswith(UNASSOCIATED) and _CALL.match(data.types[op])
    )
    return bool(stray > 0 and stray >= LARGE_SHARE * sum(time))
