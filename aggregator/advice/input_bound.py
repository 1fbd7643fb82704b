"""A GPU that waits for the next batch of the data loader."""

from __future__ import annotations

import numpy as np

from aggregator.advice.evidence import gpu_work, quoted, setting_items
from aggregator.advice.facts import Facts
from aggregator.advice.finding import Answer, Finding, Proof, Remedy, Unknown
from aggregator.profile.arrays import Int64
from aggregator.replay.loading import data_ready
from aggregator.texts import Text, say

NAME = "input_bound"
MIN_SHARE_PCT = 5.0  # A smaller share of the step is not reported.
START_NS = 100_000_000
"""Time that worker processes usually take to start; without persistent_workers in each epoch.

With ten batches an epoch workers made a program slower, of which 5% were predicted to be saved."""
STALL_NS = 1_000_000
"""Gaps that are at least this long may be waits for input; shorter ones come from launching."""
LOADER_PATTERNS = ("enumerate(DataLoader)%", "DataLoader%")
"""Types of the ops that wait for the next batch, as SQL LIKE patterns."""


def loading_in_gaps(facts: Facts) -> Int64:
    """Return the time of each gap that data loader ranges cover. Unit: ns."""
    work = facts.work
    result = np.zeros(len(work), dtype=np.int64)
    for gpu in facts.gpus:
        rows = np.flatnonzero((work.device == gpu.device) & (facts.gap_ns > 0))
        start = work.start_ns[rows]
        before = gpu.loading.covered_before(start)
        result[rows] = before - gpu.loading.covered_before(start - facts.gap_ns[rows])
    return result


def advise(facts: Facts) -> Answer:
    """Measure the idle time of the GPU during data loader ranges."""
    if facts.mode != "pytorch":
        return None
    if not facts.has_loader or not any(len(gpu.loading.start_ns) for gpu in facts.gpus):
        stalls = facts.gap_ns[facts.launched_late & (facts.gap_ns > STALL_NS)]
        if facts.share_pct(int(stalls.sum())) < MIN_SHARE_PCT:
            return None
        return Unknown(
            NAME,
            say("Whether the GPU waits for input is unknown: no range shows when input is read"),
            say("Ranges of a torch.utils.data.DataLoader, or record_function around the input code")
            if facts.is_kineto
            else say(
                "Ranges of a torch.utils.data.DataLoader, or NVTX ranges around the input code"
            ),
        )
    total = int(loading_in_gaps(facts).sum())
    share = facts.share_pct(total)
    if share < MIN_SHARE_PCT:
        return None
    return Finding(
        advice=NAME,
        remedy=Remedy(say("with every batch ready in time"), (data_ready,), what_if="data_ready"),
        gain_pct=share,
        problem=say(
            "The GPU waits {share:.0f}% of {count} whole steps for the next batch of the data "
            "loader",
            share=share,
            count=facts.steps.count,
        ),
        recommendation=_advice(facts, total / facts.steps.count / len(facts.gpus)),
        is_guess=_is_short(facts, total / facts.steps.count / len(facts.gpus)),
        reasoning=say(
            "Time in which no GPU work ran while a data loader range was open; all of it is "
            "saved if batches are ready in time"
        ),
        frameworks="PyTorch",
        evidence=setting_items(facts, "num_workers", "prefetch_factor"),
        proof=_proof(facts, total),
    )


def _is_short(facts: Facts, waiting_ns: float) -> bool:
    """Whether worker processes take longer to start than ready batches save in an epoch."""
    batches = facts.batches_per_epoch
    return batches is not None and batches * waiting_ns < START_NS


def _advice(facts: Facts, waiting_ns: float) -> Text:
    workers = facts.settings.get("num_workers")
    if _is_short(facts, waiting_ns):
        if workers and not facts.settings.get("persistent_workers"):
            return say(
                "Keep the worker processes (persistent_workers=True): an epoch has {count:.0f} "
                "batches, and each epoch starts new ones, which takes about 0.1 s",
                count=facts.batches_per_epoch or 0,
            )
        return say(
            "Make the batches once and keep them, on the GPU if they fit. Worker processes do not "
            "pay: an epoch of {count:.0f} batches waits {waiting:.3g} ms, and to start them takes "
            "about 0.1 s",
            count=facts.batches_per_epoch or 0,
            waiting=(facts.batches_per_epoch or 0) * waiting_ns / 1e6,
        )
    if workers == 0:
        return say(
            "Load the data in other processes: DataLoader(num_workers=4, pin_memory=True, "
            "persistent_workers=True), with a core for each. Now the training process loads it "
            "itself (num_workers=0)"
        )
    if not isinstance(workers, int):
        return say(
            "Give the DataLoader worker processes (num_workers=4 or more, a core for each), or "
            "cheaper transforms or faster storage; NVIDIA DALI decodes on the GPU"
        )
    return say(
        "Give the DataLoader more worker processes (num_workers={more}, now {now}, a core for "
        "each), or cheaper transforms or faster storage; NVIDIA DALI decodes on the GPU",
        now=workers,
        more=2 * workers,
    )


def _proof(facts: Facts, total: int) -> Proof:
    like = " OR ".join(f"o.op_node_type LIKE {quoted(pattern)}" for pattern in LOADER_PATTERNS)
    pairs = ", ".join(f"({gpu.device}, {pid})" for gpu in facts.gpus for pid in gpu.processes)
    query = (
        f"{gpu_work(facts)}, loaders AS (SELECT u.device_id, j.start_time AS a, j.stop_time AS b"
        " FROM view_op_instances AS j JOIN view_op_metrics AS o ON o.op_node_id = j.op_node_id"
        f" AND o.domain_name = j.domain_name AND o.aggr_id = {facts.aggr}"
        f" JOIN (SELECT column1 AS device_id, column2 AS pid FROM (VALUES {pairs})) AS u"
        f" ON u.pid = j.process_id WHERE j.domain_name = {quoted(facts.domain)} AND ({like}))"
        " SELECT coalesce(sum(max(0, min(l.b, work.start) - max(l.a, work.reached))), 0)"
        " AS waiting_ns FROM work JOIN loaders AS l ON l.device_id = work.device_id"
        " AND l.a < work.start AND l.b > work.reached WHERE work.start > work.reached"
    )
    return Proof(query, "waiting_ns", total)
