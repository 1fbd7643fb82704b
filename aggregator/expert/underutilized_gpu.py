"""GPUs that wait: low overall utilisation, and GPUs without any work."""

from __future__ import annotations

from aggregator.expert.evidence import Evidence, Issue
from aggregator.texts import Text, say

LOW_UTILIZATION_PCT = 50.0
"""Below this share of the wall time in kernels the GPU counts as underutilised (DLProf's guide)."""

_PARTS = ("cpu", "dataloader", "other", "io")


def _advice(part: str, share: float) -> Text:
    """What to do about the part that takes most of the time without a kernel."""
    match part:
        case "cpu":
            return say(
                "CPU has the highest (non-GPU) usage at {share:.1f}%. Consider swapping ops that "
                "are running on the CPU for equivalent GPU ops",
                share=share,
            )
        case "dataloader":
            return say(
                "Dataloader has the highest (non-GPU) usage at {share:.1f}%. Investigate the "
                "dataloader pipeline as this often indicates too much time is being spent there",
                share=share,
            )
        case "io":
            return say(
                "I/O has the highest (non-GPU) usage at {share:.1f}%. Investigate reading and "
                "writing of files during the iterations",
                share=share,
            )
    return say(
        "Other has the highest (non-GPU) usage at {share:.1f}%. Investigate the dataloader "
        "pipeline as this often indicates too much time is being spent there",
        share=share,
    )


def detect_unused(evidence: Evidence) -> Issue | None:
    """Fires when a GPU that the processes could see ran nothing."""
    devices = evidence.data.devices
    unused = [
        str(device_id)
        for device_id, used in zip(devices.device_ids, devices.used, strict=True)
        if not used
    ]
    if not unused:
        return None
    return Issue(
        detector="underutilized_gpu_detector",
        problem=say(
            "The following GPU device IDs are not being used: {names}", names=", ".join(unused)
        ),
        recommendation=say(
            "Limit the GPUs that the application can see (CUDA_VISIBLE_DEVICES, or the options "
            "of docker or of the framework), or spread the work over all of them"
        ),
    )


def detect(evidence: Evidence) -> Issue | None:
    """Fires when the GPUs that ran anything were busy with kernels for less than half the time."""
    totals = evidence.totals
    utilization = float(totals["used_gpu_utilization"])
    if utilization >= LOW_UTILIZATION_PCT:
        return None
    largest = max(_PARTS, key=lambda name: totals[f"{name}_duration_pct"])
    return Issue(
        detector="underutilized_gpu_detector",
        problem=say(
            "The GPU is underutilized: Only {utilization:.1f}% of the profiled time is spent on "
            "GPU kernel operations",
            utilization=utilization,
        ),
        recommendation=_advice(largest, float(totals[f"{largest}_duration_pct"])),
    )
