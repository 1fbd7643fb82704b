"""Detectors that look at how much each GPU, and its memory, was used."""

from __future__ import annotations

import numpy as np

from aggregator.advice.dlprof.evidence import Evidence, Issue
from aggregator.options import Mode
from aggregator.texts import Text, say

LOW_UTILIZATION_PCT = 50.0
"""Below this share of the wall time in kernels a GPU is underutilized (from DLProf's guide)."""
IMBALANCE_RATIO = 0.75
"""A GPU that computes for less than this share of the busiest GPU's time is underused."""
LEAST_COMPUTING_PCT = 1.0
"""If every GPU computes for less than this, there is nothing to balance. Unit: percent."""
LOW_MEMORY_PCT = 50.0  # Below this share of its memory a GPU could hold twice the batch.
SUSPECT_RATIO = 0.5
"""With less than this share of the time of the category "Other" the data loader is no suspect."""
LARGEST_FACTOR = 4
"""Largest factor that DLProf recommended, observed at 2 %, 7 % and 23 % of the memory."""
_CATEGORIES = ("cpu", "dataloader", "other", "io")
BATCH_MODES = frozenset({Mode.PYTORCH, Mode.TENSORFLOW1, Mode.TENSORFLOW2})


def detect_unused(evidence: Evidence) -> Issue | None:
    """Detect GPUs that were visible to the processes and ran nothing."""
    devices = evidence.data.devices
    unused = [
        str(device_id)
        for device_id, used in zip(devices.device_ids, devices.used, strict=True)
        if not used
    ]
    # The other ranks of a job use the GPUs that this one can see and does not use.
    if not unused or (evidence.is_one_rank and any(devices.used)):
        return None
    if evidence.lost_gpu_work:
        return Issue(
            detector="underutilized_gpu_detector",
            problem=say("The capture holds no GPU work, although the program used a GPU"),
            recommendation=say(
                "Trace again with ProfilerActivity.CUDA among the activities; if it was, CUPTI "
                "could not record: it needs the permission, and no other profiler beside it"
            )
            if evidence.is_from_torch_profiler
            else say(
                "Profile again so that the program ends normally, or stop it earlier (--duration): "
                "what the GPU did is lost when a program ends by a signal, an error of the GPU or "
                "os._exit"
            ),
        )
    if devices.lost_records:
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


def detect_underutilized(evidence: Evidence) -> Issue | None:
    """Detect that the used GPUs were busy with kernels for less than half of the time."""
    totals = evidence.totals
    utilization = float(totals["used_gpu_utilization"])
    # With lost records the GPU did more than what is known, and the rest of the time less.
    is_unknown = evidence.lost_gpu_work or evidence.data.devices.lost_records
    if utilization >= LOW_UTILIZATION_PCT or is_unknown:
        return None
    # DLProf did not look for what else the GPU did.
    categories = _CATEGORIES if evidence.is_from_dlprof else (*_CATEGORIES, "memory")
    largest = max(categories, key=lambda name: totals[f"{name}_duration_pct"])
    return Issue(
        detector="underutilized_gpu_detector",
        problem=say(
            "The GPU is underutilized: Only {utilization:.1f}% of the profiled time is spent on "
            "GPU kernel operations",
            utilization=utilization,
        ),
        recommendation=_advice_for(largest, evidence),
    )


def _advice_for(category: str, evidence: Evidence) -> Text:
    """Return the advice for the category that takes most of the time without a kernel.

    DLProf suspects the data loader behind all time of the category "Other", also where it takes
    hardly any time. Only the conversion of a database of DLProf repeats that.
    """
    share = float(evidence.totals[f"{category}_duration_pct"])
    loading = float(evidence.totals["dataloader_duration_pct"])
    match category:
        case "cpu":
            return say(
                "CPU has the highest (non-GPU) usage at {share:.1f}%. Consider swapping ops that "
                "are running on the CPU for equivalent GPU ops",
                share=share,
            )
        case "dataloader":
            return say(
                "Dataloader has the highest (non-GPU) usage at {share:.1f}%. Investigate the "
                "dataloading pipeline as this often indicates too much time is being spent here",
                share=share,
            )
        case "memory":
            return say(
                "The GPU copied or set memory, and ran no kernel, for {share:.1f}% of the time. "
                "Copy less (offloading, pageable memory), or copy while kernels run",
                share=share,
            )
        case "io":
            return say(
                "I/O has the highest (non-GPU) usage at {share:.1f}%. Investigate reading and "
                "writing of files during the iterations",
                share=share,
            )
    if loading < SUSPECT_RATIO * share and not evidence.is_from_dlprof:
        return say(
            "Other has the highest (non-GPU) usage at {share:.1f}%: neither the GPU nor an op on "
            "the CPU ran. Look at what else the program did in that time, such as start-up, "
            "compilation, or code between the ops",
            share=share,
        )
    return say(
        '"Other" has the highest (non-GPU) usage at {share:.1f}%. Investigate the dataloading '
        "pipeline as this often indicates too much time is being spent here",
        share=share,
    )


def detect_imbalance(evidence: Evidence) -> Issue | None:
    """Detect GPUs that compute much less than the busiest one; unused GPUs are ignored."""
    devices = evidence.data.devices
    shares = {
        device: share
        for device, share, used in zip(
            devices.device_ids, _computing_pct(evidence), devices.used, strict=False
        )
        if used
    }
    if len(shares) < 2 or max(shares.values()) < LEAST_COMPUTING_PCT:
        return None
    most = max(shares.values())
    low = [device for device, share in shares.items() if share < IMBALANCE_RATIO * most]
    if not low:
        return None
    return Issue(
        detector="imbalanced_gpu_detector",
        problem=say(
            "The following GPU device IDs are used significantly less than the others: {names} "
            "({least:.1f}% of the time against {most:.1f}%)",
            names=", ".join(str(device) for device in low),
            least=min(shares.values()),
            most=most,
        ),
        recommendation=say(
            "Balance the work: give every GPU the same number of samples of similar size, and the "
            "same layers"
        ),
    )


def _computing_pct(evidence: Evidence) -> list[float]:
    """Return the share of the window in which each GPU computed.

    Communication kernels are excluded: a GPU that waits for another one in a collective runs such
    a kernel all the time.
    """
    window = evidence.window
    edges, wall = window.iterations.edges_ns, max(window.wall_ns, 1)
    covered = (computing.covered_before(edges) for computing, _ in evidence.data.collectives)
    return [100.0 * int(np.diff(before)[window.inside].sum()) / wall for before in covered]


def detect_small_batch(evidence: Evidence) -> Issue | None:
    """Detect that less than half of the memory of every GPU was used, if that was measured."""
    devices = evidence.data.devices
    shares = [
        100.0 * used / total
        for used, total in zip(devices.memory_used_bytes, devices.memory_bytes, strict=False)
        if used and total
    ]
    share = max(shares, default=LOW_MEMORY_PCT)
    is_known = evidence.data.mode in BATCH_MODES and not evidence.lost_gpu_work
    if not is_known or share >= LOW_MEMORY_PCT:
        return None
    return Issue(
        detector="batch_size_detector",
        problem=say(
            "GPU Memory is underutilized: Only {share}% of GPU Memory is used", share=int(share)
        ),
        recommendation=say(
            "Try increasing batch size by {factor}x to increase data throughput",
            factor=batch_factor(share),
        ),
    )


def batch_factor(share_pct: float) -> int:
    """Return how many times the batch fits in memory: a power of two, up to ``LARGEST_FACTOR``."""
    factor = 1
    while factor < LARGEST_FACTOR and 2 * factor * share_pct <= 100.0:
        factor *= 2
    return factor
