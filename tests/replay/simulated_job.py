"""A simulated data-parallel job: what its GPUs would record, from times known by construction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aggregator.replay.rank_steps import RankEvents

Float64 = npt.NDArray[np.float64]
LAUNCH_NS = 4_000


@dataclass(frozen=True)
class Job:
    """Sizes of a job. Times in ns."""

    ranks: int
    steps: int
    kernels: int  # Per pass.
    buckets: int  # All-reduces of a step, which overlap the backward pass.
    kernel_ns: float
    transfer_ns: float
    jitter: float  # Standard deviation of a kernel's time over its mean, and of a step's speed.
    synchronizes: bool  # Whether the CPU waits for the GPU at the end of each step.


def speeds(job: Job, seed: int) -> Float64:
    """Relative time of the kernels of each rank and step, without any slow rank."""
    noise = np.random.default_rng(seed).normal(0.0, job.jitter, (job.ranks, job.steps))
    return 1.0 + np.clip(noise, -3 * job.jitter, 3 * job.jitter)


def simulate(job: Job, factor: Float64, seed: int) -> tuple[list[RankEvents], Float64]:
    """Events of each rank, and the end of the last all-reduce of each step.

    ``factor``: relative time of the kernels of each rank and step.
    """
    random = np.random.default_rng(seed + 1)
    base = job.kernel_ns * random.lognormal(0.0, 0.5, 2 * job.kernels)
    noise = 1.0 + np.clip(
        random.normal(0.0, job.jitter, (job.ranks, job.steps, len(base))), -0.5, 1
    )
    bucket_at = set(np.linspace(job.kernels, 2 * job.kernels - 1, job.buckets).astype(int).tolist())
    rows: list[list[tuple[int, int, int, int, bool]]] = [[] for _ in range(job.ranks)]
    calls: list[list[list[int]]] = [[] for _ in range(job.ranks)]
    gpu, cpu, network = (np.zeros(job.ranks) for _ in range(3))
    ends = np.zeros(job.steps)
    for step in range(job.steps):
        for rank in range(job.ranks):
            calls[rank].append([])
        for number, duration in enumerate(base):
            for rank in range(job.ranks):
                start = max(gpu[rank] + 1_000, cpu[rank] + LAUNCH_NS)
                gpu[rank] = start + duration * factor[rank, step] * noise[rank, step, number]
                rows[rank].append(_row(start, gpu[rank], cpu[rank], True))
                cpu[rank] += LAUNCH_NS
            if number in bucket_at:
                begun = np.maximum(np.maximum(gpu, network) + 2_000, cpu + LAUNCH_NS)
                ended = begun.max() + job.transfer_ns + random.uniform(0, 500, job.ranks)
                for rank in range(job.ranks):
                    calls[rank][step].append(len(rows[rank]))
                    rows[rank].append(_row(begun[rank], ended[rank], cpu[rank], False))
                cpu += LAUNCH_NS
                network = ended
        ends[step] = network.max()
        gpu = np.maximum(gpu, network)  # The optimizer needs all gradients.
        if job.synchronizes:
            cpu = gpu + 5_000
    return [_events(rows[rank], calls[rank]) for rank in range(job.ranks)], ends


def _row(start: float, end: float, api: float, computes: bool) -> tuple[int, int, int, int, bool]:
    return int(start), int(end), int(api), int(api + 3_000), computes


def _events(rows: list[tuple[int, int, int, int, bool]], calls: list[list[int]]) -> RankEvents:
    start, end, api_start, api_end, computes = (np.array(one) for one in zip(*rows, strict=True))
    return RankEvents(start, end, api_start, api_end, computes, np.array(calls, dtype=np.int64))
