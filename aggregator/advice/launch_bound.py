"""Kernels that are launched one by one, slower than the GPU runs them."""

from __future__ import annotations

import re

import numpy as np

from aggregator.advice.evidence import LATE, gap_items, gaps_proof
from aggregator.advice.facts import Facts
from aggregator.advice.finding import Answer, Finding, Item, Remedy
from aggregator.options import Mode
from aggregator.profile.arrays import Bool
from aggregator.replay.changes import launch_once
from aggregator.texts import Text, say

NAME = "launch_bound"
MIN_SHARE_PCT = 10.0  # A smaller share of the step is normal.
MIN_GAPS = 20  # With fewer gaps per step the cause is single stops, not launching, unless
MIN_LATE_RATIO = 1 / 3  # such a share of the launches is late.
MAX_GAP_NS = 1_000_000  # Longer gaps come from other work of the script, not from launching.
GRAPH_GAP_NS = 1_300  # Gap between two kernels of a CUDA graph, measured on an H200.
VALUE_SIZES = frozenset(
    {
        *("nonzero", "nonzero_numpy", "argwhere", "masked_select", "repeat_interleave", "bincount"),
        *("unique", "_unique2", "unique_dim", "unique_consecutive", "nms"),
    }
)
"""Types of ops whose result has a size that depends on values, which a CUDA graph cannot hold."""


_SELECTS = re.compile(r"DeviceSelect|nonzero|write_indices|DevicePartition", re.I)
"""Kernels that pick elements by their values, whatever op they are part of: the inner op of
torch.where(condition), of an index that is a mask, and of others is nonzero."""


def advise(facts: Facts) -> Answer:
    """Find short gaps before work that was launched when the GPU had no work left.

    Of several GPUs the slowest is judged: the others wait for it in any case.
    """
    gpu, waited = facts.slowest, short_gaps(facts)
    total, gaps = int(facts.gap_ns[waited].sum()), int(waited.sum())
    profiled = facts.gpu_share_pct(gpu, total)
    unprofiled = facts.without_profiling_pct(gpu, total)
    share = profiled if unprofiled is None else unprofiled
    if share < MIN_SHARE_PCT or not are_launches(facts):
        return None
    launches = _launches(facts) // facts.steps.count
    return Finding(
        advice=NAME,
        remedy=Remedy(
            say("with one launch for the work of a step"),
            (launch_once(MAX_GAP_NS),),
            what_if="graph_launch",
        ),
        gain_pct=facts.gpu_share_pct(gpu, max(total - GRAPH_GAP_NS * gaps, 0)),
        problem=_problem(gpu.device, launches, profiled, unprofiled),
        recommendation=_recommendation(facts),
        reasoning=say(
            "Gaps of up to 1 ms before work that was launched when the GPU had no work "
            "left, minus 1.3 us for each, which remain in a CUDA graph. Tracing and markers "
            "slow down launching, so the time is shorter without them"
        ),
        evidence=(
            *gap_items(facts, waited),
            Item("gap", "median gap", int(np.median(facts.gap_ns[waited])), gaps),
        ),
        proof=gaps_proof(
            facts,
            waited,
            f"device_id = {gpu.device} AND {LATE} AND start - reached <= {MAX_GAP_NS}",
            "waiting_ns",
        ),
    )


def short_gaps(facts: Facts) -> Bool:
    """Return before which late work of the slowest GPU the gap is short."""
    here = facts.work.device == facts.slowest.device
    rows: Bool = here & facts.launched_late & (facts.gap_ns > 0) & (facts.gap_ns <= MAX_GAP_NS)
    return rows


def are_launches(facts: Facts) -> bool:
    """Return whether so many gaps are short that launching makes them, and not single stops."""
    gaps = int(short_gaps(facts).sum())
    return gaps >= min(MIN_GAPS * facts.steps.count, MIN_LATE_RATIO * _launches(facts))


def _launches(facts: Facts) -> int:
    return int((facts.launched & (facts.work.device == facts.slowest.device)).sum())


def _problem(device: int, launches: int, profiled_pct: float, unprofiled_pct: float | None) -> Text:
    if unprofiled_pct is None:
        return say(
            "GPU {device} idles {share:.0f}% of the step in short gaps before late launches, "
            "whatever the CPU does in them ({count:,} launches a step)",
            device=device,
            share=profiled_pct,
            count=launches,
        )
    return say(
        "Without profiling, GPU {device} idles about {share:.0f}% of the step in short gaps before "
        "late launches, whatever the CPU does in them (as profiled {profiled:.0f}%; {count:,} "
        "launches a step)",
        device=device,
        share=unprofiled_pct,
        profiled=profiled_pct,
        count=launches,
    )


def _ops_of_value_sizes(facts: Facts) -> list[str]:
    """Types of ops of the steps whose result has a size that depends on values, sorted."""
    ran = {facts.ops.types[op] for op in np.unique(facts.work.op[facts.launched]).tolist()}
    found = ran & VALUE_SIZES
    selects = facts.named([_SELECTS.search(name) is not None for name in facts.names.long])
    outer = {facts.ops.types[op] for op in np.unique(facts.work.op[facts.launched & selects])}
    return sorted(found | ({"nonzero"} if outer - VALUE_SIZES else set()))


def _recommendation(facts: Facts) -> Text:
    if facts.has_graphs or facts.has_replays:
        return say(
            "Part of the step is replayed from CUDA graphs already. Capture what is launched "
            "between the replays, too, or let a replay do more: several steps or requests"
        )
    if facts.mode not in (Mode.PYTORCH, Mode.SIMPLE):
        return say(
            "Run fewer and larger kernels: compile the whole step (jax.jit, or tf.function with "
            "jit_compile=True), or a larger batch"
        )
    found = _ops_of_value_sizes(facts)
    if found:
        return say(
            "Run fewer and larger kernels: torch.compile(model), or a larger batch. CUDA graphs "
            "cannot hold this step as it is: sizes in it depend on values ({names}). Replace them "
            "by masks of a fixed size first, such as torch.where(mask, x, 0)",
            names=", ".join(found),
        )
    if facts.decode_bandwidth_pct is not None:
        return say(
            "At best the memory bandwidth bounds decoding, of which {pct:.1f}% is known to be "
            "used: launches bound it. Give the KV cache a fixed size and replay each step as one "
            "CUDA graph: generate(cache_implementation='static') compiles it so; vLLM and SGLang "
            "do, unless eager mode is enforced",
            pct=facts.decode_bandwidth_pct,
        )
    return say(
        "Launch many kernels at once with CUDA graphs. One graph of the whole step, with the "
        "optimizer (torch.cuda.graph, capturable=True), saves most; torch.compile(model, "
        "mode='reduce-overhead') needs the least work and leaves the launches of loss and "
        "optimizer: make that one fused, too. Shapes must not change from step to step. Else run "
        "fewer and larger kernels: torch.compile(model), or a larger batch"
    )
