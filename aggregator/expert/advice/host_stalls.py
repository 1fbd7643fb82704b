"""Long stops of the GPU while the script does something else."""

from __future__ import annotations

from aggregator.expert.advice.evidence import op_items
from aggregator.expert.advice.facts import Facts
from aggregator.expert.advice.finding import Answer, Certainty, Finding
from aggregator.expert.advice.input_bound import loading_in_gaps
from aggregator.expert.advice.launch_bound import LONGEST_GAP_NS
from aggregator.expert.advice.queries import LATE, gaps_proof
from aggregator.texts import Text, say

NAME = "host_stalls"
LEAST_SHARE_PCT = 5.0
"""Long stops below this share of the step are left alone."""


def advise(facts: Facts) -> Answer:
    """Gaps of more than 1 ms before a late launch, that no wait for input fills."""
    waited = facts.came_late & (facts.gap_ns > LONGEST_GAP_NS)
    waited &= 2 * loading_in_gaps(facts) < facts.gap_ns
    total = int(facts.gap_ns[waited].sum())
    share = facts.share_pct(total)
    if share < LEAST_SHARE_PCT:
        return None
    return Finding(
        advice=NAME,
        gain_pct=share,
        problem=say(
            "The GPU stands still for {share:.0f}% of the step, more than 1 ms at a time, while "
            "the script does something else",
            share=share,
        ),
        recommendation=say(
            "See what runs before the ops listed: input without a DataLoader, logging, metrics, "
            "checkpoints. Move it to another thread or process, or do it more rarely"
        ),
        reasoning=say(
            "Gaps of more than 1 ms before work whose launch began when the GPU had run dry; those "
            "that a data loader's range fills by half are not counted"
        ),
        certainty=Certainty.LIKELY,
        needs=_needs(facts),
        evidence=op_items(facts, waited, facts.gap_ns),
        proof=gaps_proof(facts, waited, _condition(facts), "waiting_ns"),
    )


def _needs(facts: Facts) -> Text:
    if facts.is_kineto:
        return say(
            "Ranges of torch.profiler.record_function around the script's own parts, or a trace "
            "with_stack=True, tell what it does"
        )
    return say(
        "NVTX ranges around the script's own parts, or CPU samples (--nsys_opts='-t cuda,nvtx,"
        "osrt -s cpu'), tell what it does"
    )


def _condition(facts: Facts) -> str:
    """The same in SQL. The time of a data loader is what its ranges cover of the gap."""
    if not any(len(gpu.loading.start_ns) for gpu in facts.gpus):
        return f"{LATE} AND start - reached > {LONGEST_GAP_NS}"
    from_loader = " UNION ALL ".join(
        f"SELECT {gpu.device}, {start}, {stop}"
        for gpu in facts.gpus
        for start, stop in zip(
            gpu.loading.start_ns.tolist(), gpu.loading.end_ns.tolist(), strict=True
        )
        if stop > gpu.low_ns and start < gpu.high_ns
    )
    loaders = f"(SELECT 0 AS d, 0 AS a, 0 AS b WHERE 0 UNION ALL {from_loader})"
    if not from_loader:
        return f"{LATE} AND start - reached > {LONGEST_GAP_NS}"
    return (
        f"{LATE} AND start - reached > {LONGEST_GAP_NS} AND 2 * (SELECT coalesce(sum(max(0,"
        f" min(l.b, start) - max(l.a, reached))), 0) FROM {loaders} AS l"
        " WHERE l.d = work.device_id) < start - reached"
    )
