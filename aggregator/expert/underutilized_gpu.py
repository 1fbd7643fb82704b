"""GPUs that wait: low overall utilisation, or a GPU without any work."""

from __future__ import annotations

from aggregator.expert.evidence import Evidence, Issue

LOW_UTILIZATION_PCT = 50.0
"""Below this share of the wall time in kernels the GPU counts as underutilised (DLProf's guide)."""

_ADVICE = {
    "cpu": (
        "CPU has the highest (non-GPU) usage at {share}%. Consider swapping ops that are running "
        "on the CPU for equivalent GPU ops"
    ),
    "dataloader": (
        "Dataloader has the highest (non-GPU) usage at {share}%. Investigate the dataloader "
        "pipeline as this often indicates too much time is being spent there"
    ),
    "other": (
        "Other has the highest (non-GPU) usage at {share}%. Investigate the dataloader pipeline as "
        "this often indicates too much time is being spent there"
    ),
    "io": (
        "I/O has the highest (non-GPU) usage at {share}%. Investigate reading and writing of files "
        "during the iterations"
    ),
}


def detect(evidence: Evidence) -> Issue | None:
    """Fires when the mean utilisation of the GPUs is below 50 %, or a GPU ran nothing."""
    devices, totals = evidence.data.devices, evidence.totals
    unused = [
        str(device_id)
        for device_id, used in zip(devices.device_ids, devices.used, strict=True)
        if not used
    ]
    if unused:
        return Issue(
            detector="underutilized_gpu_detector",
            problem=f"The following GPU device IDs are not being used: {', '.join(unused)}",
            recommendation=(
                "Limit the GPUs that the application can see (CUDA_VISIBLE_DEVICES, or the options "
                "of docker or of the framework), or spread the work over all of them"
            ),
        )
    utilization = float(totals["gpu_utilization"])
    if utilization >= LOW_UTILIZATION_PCT:
        return None
    largest = max(_ADVICE, key=lambda name: totals[f"{name}_duration_pct"])
    share = f"{totals[f'{largest}_duration_pct']:.1f}"
    return Issue(
        detector="underutilized_gpu_detector",
        problem=(
            f"The GPU is underutilized: Only {utilization:.1f}% of the profiled time is spent on "
            "GPU kernel operations"
        ),
        recommendation=_ADVICE[largest].format(share=share),
    )
