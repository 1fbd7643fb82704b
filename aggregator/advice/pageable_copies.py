"""Copies from and to pageable memory during which no kernel runs."""

from __future__ import annotations

import numpy as np

from aggregator.advice.evidence import op_items, setting_items
from aggregator.advice.facts import DEVICE_TO_HOST, HOST_TO_DEVICE, PAGEABLE, Facts
from aggregator.advice.finding import (
    MIN_GAIN_PCT,
    Answer,
    Finding,
    Proof,
    Remedy,
    Unknown,
)
from aggregator.events.model import WorkKind
from aggregator.profile.arrays import Bool, Int64
from aggregator.replay.changes import copy_unwaited
from aggregator.texts import say

NAME = "pageable_copies"
MIN_BYTES = 1 << 20  # The time of smaller copies hardly depends on the kind of memory.
PINNED_BYTES_PER_S = (((9, 0), 45e9), ((8, 0), 20e9), ((0, 0), 10e9))
"""Least speed of copies from pinned memory, by compute capability: PCIe 5.0, 4.0 and 3.0 x16.

Measured on an H200: 63 GB/s.
"""


def advise(facts: Facts) -> Answer:
    """Find copies from and to pageable memory, which use a driver buffer and block the CPU."""
    work, large = facts.work, large_copies(facts)
    if not large.any():
        return None
    if bool((work.host_kind[large] < 0).all()):
        return Unknown(
            NAME,
            say("Whether copies used pinned memory was not recorded"),
            say("An Nsight Systems export with the srcKind and dstKind of copies"),
        )
    rows = large & (work.host_kind == PAGEABLE)
    exposed = exposed_ns(facts)
    pinned = work.num_bytes / _pinned_speed(facts) * 1e9
    saved = np.maximum(exposed - pinned, 0.0)
    gain = facts.share_pct(float(saved[rows].sum()))
    if gain < MIN_GAIN_PCT:
        return None
    speed = work.num_bytes[rows].sum() / max(int(work.duration_ns[rows].sum()), 1)
    return Finding(
        advice=NAME,
        remedy=_remedy(facts, rows),
        gain_pct=gain,
        problem=say(
            "Copies from or to pageable memory take {share:.0f}% of {span} at {speed:.1f} GB/s, "
            "while no kernel runs",
            share=facts.share_pct(int(exposed[rows].sum())),
            span=facts.span,
            speed=float(speed),
        ),
        recommendation=say(
            "Pin the memory: DataLoader(pin_memory=True) or tensor.pin_memory(), then "
            ".to(device, non_blocking=True)"
        )
        if any(len(gpu.loading.start_ns) for gpu in facts.gpus)
        else say("Pin the memory: tensor.pin_memory(), then .to(device, non_blocking=True)"),
        reasoning=say(
            "For each copy of 1 MiB or more, the time in which no kernel ran, minus the time "
            "that a copy of the same size takes from pinned memory at {speed:.0f} GB/s",
            speed=_pinned_speed(facts) / 1e9,
        ),
        evidence=(*op_items(facts, rows, exposed), *setting_items(facts, "pin_memory")),
        proof=copies_proof(facts, rows, "host_memory = 'pageable'"),
    )


def _remedy(facts: Facts, rows: Bool) -> Remedy:
    start, num_bytes = facts.work.start_ns[rows], facts.work.num_bytes[rows]
    order = np.argsort(start, kind="stable")
    pinned = np.rint(num_bytes[order] / _pinned_speed(facts) * 1e9).astype(np.int64)

    def duration_ns(start_ns: Int64) -> Int64:
        return pinned[np.searchsorted(start[order], start_ns)]

    return Remedy(
        say(
            "with these copies from pinned memory, at {speed:.0f} GB/s, without waiting for them",
            speed=_pinned_speed(facts) / 1e9,
        ),
        (copy_unwaited(facts.rows_of_replay(rows), duration_ns),),
    )


def _pinned_speed(facts: Facts) -> float:
    capability = max((gpu.capability or (0, 0) for gpu in facts.gpus), default=(0, 0))
    return next(speed for first, speed in PINNED_BYTES_PER_S if capability >= first)


def exposed_ns(facts: Facts) -> Int64:
    """Return the time of each copy in which no kernel ran on its GPU. Unit: ns."""
    work = facts.work
    result = np.zeros(len(work), dtype=np.int64)
    for gpu in facts.gpus:
        rows = np.flatnonzero((work.device == gpu.device) & (work.kind == WorkKind.COPY))
        start, end = work.start_ns[rows], work.end_ns[rows]
        covered = np.zeros(len(rows), dtype=np.int64)
        for kernels in (gpu.computing, gpu.moving):
            covered += kernels.covered_before(end) - kernels.covered_before(start)
        result[rows] = np.maximum(end - start - covered, 0)
    return result


def large_copies(facts: Facts) -> Bool:
    """Return which work is a copy between host and GPU of ``MIN_BYTES`` or more."""
    work = facts.work
    between = np.isin(work.copy_kind, (HOST_TO_DEVICE, DEVICE_TO_HOST))
    large: Bool = facts.launched & (work.kind == WorkKind.COPY) & between
    return large & (work.num_bytes >= MIN_BYTES)


def copies_proof(facts: Facts, rows: Bool, condition: str) -> Proof:
    """Build the query for the time of copies in the window that meet a condition in SQL."""
    query = (
        "SELECT coalesce(sum(duration), 0) AS copy_time_ns FROM view_memory_ops WHERE"
        f" kind = 'memcpy' AND copy_kind IN ({HOST_TO_DEVICE}, {DEVICE_TO_HOST})"
        f" AND bytes >= {MIN_BYTES} AND {condition}"
        f" AND api_start >= {facts.steps.api_low_ns} AND api_start < {facts.steps.api_high_ns}"
    )
    return Proof(query, "copy_time_ns", int(facts.work.duration_ns[rows].sum()))
