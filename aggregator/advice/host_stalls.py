"""Long idle times of the GPU while the script does other work."""

from __future__ import annotations

from aggregator.advice import launch_bound
from aggregator.advice.evidence import LATE, MAX_PROOF_ROWS, gap_items, gaps_proof
from aggregator.advice.facts import Facts
from aggregator.advice.finding import Answer, Finding, Proof, Remedy
from aggregator.advice.input_bound import loading_in_gaps
from aggregator.profile.arrays import Bool
from aggregator.profile.intervals import flatten
from aggregator.replay.changes import without_cpu_time
from aggregator.texts import Text, say

NAME = "host_stalls"
MIN_SHARE_PCT = 5.0  # A smaller share of the step is not reported.


def advise(facts: Facts) -> Answer:
    """Find gaps of more than 1 ms before a late launch, unless a data loader range covers them.

    Shorter ones count, too, if they take much of the step and are too few to come from launching.
    Of several GPUs the slowest is judged.
    """
    gpu, least_ns = facts.slowest, _least_ns(facts)
    waited = facts.launched_late & (facts.gap_ns > least_ns) & (facts.work.device == gpu.device)
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
        problem=_problem(gpu.device, share, least_ns),
        recommendation=say(
            "Look at the Python code before {ops}: input, logging, metrics, checkpoints. Move it "
            "to another thread or process, or do it less often",
            ops=", ".join(item.name.partition(" ")[2] for item in gap_items(facts, waited)[:2]),
        ),
        reasoning=say(
            "Gaps of more than {least} ms before work that was launched when the GPU had no work "
            "left; gaps that a data loader's range covers by half or more are not counted",
            least=least_ns // 1_000_000,
        ),
        needs=_needs(facts),
        evidence=gap_items(facts, waited),
        proof=_proof(facts, waited),
    )


def _least_ns(facts: Facts) -> int:
    short_ns = int(facts.gap_ns[launch_bound.short_gaps(facts)].sum())
    is_much = facts.gpu_share_pct(facts.slowest, short_ns) >= launch_bound.MIN_SHARE_PCT
    return 0 if is_much and not launch_bound.are_launches(facts) else launch_bound.MAX_GAP_NS


def _problem(device: int, share_pct: float, least_ns: int) -> Text:
    if not least_ns:
        return say(
            "GPU {device} is idle for {share:.0f}% of the step while the program does other work",
            device=device,
            share=share_pct,
        )
    return say(
        "GPU {device} is idle for {share:.0f}% of the step, more than 1 ms at a time, while "
        "the program does other work",
        device=device,
        share=share_pct,
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
    gaps = f"device_id = {gpu.device} AND {LATE} AND start - reached > {_least_ns(facts)}"
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
