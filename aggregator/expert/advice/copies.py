"""Copies between host and GPU during which nothing else runs: pageable ones, and others."""

from __future__ import annotations

import numpy as np

from aggregator.expert.advice.evidence import op_items
from aggregator.expert.advice.facts import (
    COPY,
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    PAGEABLE,
    Facts,
)
from aggregator.expert.advice.finding import (
    LEAST_GAIN_PCT,
    Answer,
    Certainty,
    Finding,
    Item,
    Proof,
    Unknown,
)
from aggregator.profile import Bool, Int64
from aggregator.texts import say

PAGEABLE_NAME, OVERLAP_NAME = "pageable_copies", "unoverlapped_copies"
LEAST_BYTES = 1 << 20
"""Smaller copies take their time for other reasons than their memory."""
PINNED_BYTES_PER_S = (((9, 0), 45e9), ((8, 0), 20e9), ((0, 0), 10e9))
"""What copies from pinned memory reach at least, by compute capability: PCIe 5.0, 4.0 and 3.0 x16.

Measured on an H200: 63 GB/s.
"""


def exposed_ns(facts: Facts) -> Int64:
    """Time of each copy in which no kernel ran on its GPU. Unit: ns."""
    work = facts.work
    result = np.zeros(len(work), dtype=np.int64)
    for gpu in facts.gpus:
        rows = np.flatnonzero((work.device == gpu.device) & (work.kind == COPY))
        start, end = work.start_ns[rows], work.end_ns[rows]
        covered = np.zeros(len(rows), dtype=np.int64)
        for kernels in (gpu.computing, gpu.moving):
            covered += kernels.covered_before(end) - kernels.covered_before(start)
        result[rows] = np.maximum(end - start - covered, 0)
    return result


def _large(facts: Facts) -> Bool:
    work = facts.work
    between = np.isin(work.copy_kind, (HOST_TO_DEVICE, DEVICE_TO_HOST))
    large: Bool = facts.launched & (work.kind == COPY) & between
    return large & (work.num_bytes >= LEAST_BYTES)


def _proof(facts: Facts, rows: Bool, condition: str) -> Proof:
    query = (
        "SELECT coalesce(sum(duration), 0) AS copy_time_ns FROM view_memory_ops WHERE"
        f" kind = 'memcpy' AND copy_kind IN ({HOST_TO_DEVICE}, {DEVICE_TO_HOST})"
        f" AND bytes >= {LEAST_BYTES} AND {condition}"
        f" AND api_start >= {facts.steps.api_low_ns} AND api_start < {facts.steps.api_high_ns}"
    )
    return Proof(query, "copy_time_ns", int(facts.work.duration_ns[rows].sum()))


def _pinned_speed(facts: Facts) -> float:
    capability = max((gpu.capability or (0, 0) for gpu in facts.gpus), default=(0, 0))
    return next(speed for first, speed in PINNED_BYTES_PER_S if capability >= first)


def advise_pageable(facts: Facts) -> Answer:
    """Copies from and to ordinary memory go through a buffer of the driver, and block the CPU."""
    work, large = facts.work, _large(facts)
    if not large.any():
        return None
    if bool((work.host_kind[large] < 0).all()):
        return Unknown(
            PAGEABLE_NAME,
            say("Whether copies used pinned memory was not recorded"),
            say("An export of Nsight Systems that has srcKind and dstKind of copies"),
        )
    rows = large & (work.host_kind == PAGEABLE)
    exposed = exposed_ns(facts)
    pinned = work.num_bytes / _pinned_speed(facts) * 1e9
    saved = np.maximum(exposed - pinned, 0.0)
    gain = facts.share_pct(float(saved[rows].sum()))
    if gain < LEAST_GAIN_PCT:
        return None
    speed = work.num_bytes[rows].sum() / max(int(work.duration_ns[rows].sum()), 1)
    return Finding(
        advice=PAGEABLE_NAME,
        gain_pct=gain,
        problem=say(
            "Copies from or to pageable memory take {share:.0f}% of the step at {speed:.1f} GB/s, "
            "while no kernel runs",
            share=facts.share_pct(int(exposed[rows].sum())),
            speed=float(speed),
        ),
        recommendation=say(
            "Pin the memory: DataLoader(pin_memory=True) or tensor.pin_memory(), then "
            ".to(device, non_blocking=True)"
        ),
        reasoning=say(
            "The part of each copy of 1 MiB or more in which no kernel ran, less what the same "
            "bytes take from pinned memory at {speed:.0f} GB/s",
            speed=_pinned_speed(facts) / 1e9,
        ),
        certainty=Certainty.LIKELY,
        evidence=(*op_items(facts, rows, exposed), *_settings(facts)),
        proof=_proof(facts, rows, "host_memory = 'pageable'"),
    )


def advise_overlap(facts: Facts) -> Answer:
    """Copies that could run beside kernels, on a stream of their own."""
    rows = _large(facts) & (facts.work.host_kind != PAGEABLE)
    exposed = exposed_ns(facts)
    gain = facts.share_pct(int(exposed[rows].sum()))
    if gain < LEAST_GAIN_PCT:
        return None
    return Finding(
        advice=OVERLAP_NAME,
        gain_pct=gain,
        problem=say(
            "Copies between host and GPU take {share:.0f}% of the step while no kernel runs",
            share=gain,
        ),
        recommendation=say(
            "Copy the next batch while this one computes: on a stream of its own "
            "(torch.cuda.Stream, record_stream), from pinned memory with non_blocking=True"
        ),
        reasoning=say(
            "The part of each copy of 1 MiB or more in which no kernel ran; a copy on another "
            "stream hides behind the kernels of the step before"
        ),
        certainty=Certainty.LIKELY,
        evidence=(*op_items(facts, rows, exposed), *_settings(facts)),
        proof=_proof(facts, rows, "host_memory <> 'pageable'"),
    )


def _settings(facts: Facts) -> tuple[Item, ...]:
    if "pin_memory" not in facts.settings:
        return ()
    return (Item("setting", f"pin_memory={facts.settings['pin_memory']}"),)
