"""Long idle times of the GPU while the script does other work."""

from __future__ import annotations

from aggregator.advice.evidence import LATE, MAX_PROOF_ROWS, gap_items, gaps_proof
from aggregator.advice.facts import Facts
from aggregator.advice.finding import Answer, Finding, Proof, Remedy
from aggregator.advice.input_bound import loading_in_gaps
from aggregator.advice.launch_bound import MAX_GAP_NS
from aggregator.profile.arrays import Bool
from aggregator.profile.intervals import flatten
from aggregator.replay.changes import without_cpu_time
from aggregator.texts import Text, say

NAME = "host_stalls"
MIN_SHARE_PCT = 5.0  # A smaller share of the step is not reported.


def advise(facts: Facts) -> Answer:
    """Find gaps of more than 1 ms before a late launch, unless a data loader range covers them.

    Of several GPUs the slowest is judged.
    """
    gpu = facts.slowest
    waited = facts.launched_late & (facts.gap_ns > MAX_GAP_NS) & (facts.work.device == gpu.device)
    waited &= 2 * loading_in_gaps(facts) < facts.gap_ns
    total = int(facts.gap_ns[waited].sum())
    share = facts.gpu_share_pct(gpu, total)
    if share < MIN_SHARE_PCT:
        return None
    return Finding(
        advice=NAME,
        remedy=_remedy(facts, waited),
        covered_by=("slow_iterations",),
        gain_pct=share,
        problem=say(
            "GPU {device} is idle for {share:.0f}% of the step, more than 1 ms at a time, while "
            "the program does other work",
            device=gpu.device,
            share=share,
        ),
        recommendation=say(
            "Look at the Python code before {ops}: input, logging, metrics, checkpoints. Move it "
            "to another thread or process, or do it less often",
            ops=", ".join(item.name.partition(" ")[2] for item in gap_items(facts, waited)[:2]),
        ),
        reasoning=say(
            "Gaps of more than 1 ms before work that was launched when the GPU had no work "
            "left; gaps that a data loader's range covers by half or more are not counted"
        ),
        needs=_needs(facts),
        evidence=gap_items(facts, waited),
        proof=_proof(facts, waited),
    )


def _remedy(facts: Facts, waited: Bool) -> Remedy:
    end = facts.work.start_ns[waited]
    pauses = flatten(end - facts.gap_ns[waited], end)
    return Remedy(say("without what the CPU does in these gaps"), (without_cpu_time(pauses),))


def _needs(facts: Facts) -> Text:
    if facts.is_kineto:
        return say(
            "Ranges of torch.profiler.record_function around the parts of the script, or a "
            "trace made with with_stack=True"
        )
    return say(
        "NVTX ranges around the parts of the script, or CPU samples (--nsys_opts='-t "
        "cuda,nvtx,osrt -s cpu')"
    )


def _proof(facts: Facts, waited: Bool) -> Proof:
    """Build the query of the same gaps; with many waits for a loader, of those before some time."""
    gpu = facts.slowest
    gaps = f"device_id = {gpu.device} AND {LATE} AND start - reached > {MAX_GAP_NS}"
    loading = [
        (begin, end)
        for begin, end in zip(
            gpu.loading.start_ns.tolist(), gpu.loading.end_ns.tolist(), strict=True
        )
        if end > gpu.low_ns and begin < gpu.high_ns
    ]
    if len(loading) > MAX_PROOF_ROWS:
        until = loading[MAX_PROOF_ROWS][0]
        waited = waited & (facts.work.start_ns <= until)
        gaps = f"{gaps} AND start <= {until}"
    if loading:
        inside = ", ".join(f"({begin}, {end})" for begin, end in loading[:MAX_PROOF_ROWS])
        gaps = (
            f"{gaps} AND 2 * (SELECT coalesce(sum(max(0, min(column2, start) - max(column1, "
            f"reached))), 0) FROM (VALUES {inside})) < start - reached"
        )
    return gaps_proof(facts, waited, gaps, "waiting_ns")
