"""Copies between host and GPU, other than pageable ones, during which no kernel runs."""

from __future__ import annotations

from aggregator.advice.evidence import op_items, setting_items
from aggregator.advice.facts import PAGEABLE, Facts
from aggregator.advice.finding import MIN_GAIN_PCT, Answer, Finding, Remedy
from aggregator.advice.pageable_copies import (
    copies_proof,
    exposed_ns,
    large_copies,
)
from aggregator.replay.changes import overlap_rows
from aggregator.texts import say

NAME = "unoverlapped_copies"


def advise(facts: Facts) -> Answer:
    """Find copies that could run at the same time as kernels, on a separate stream."""
    rows = large_copies(facts) & (facts.work.host_kind != PAGEABLE)
    exposed = exposed_ns(facts)
    gain = facts.share_pct(int(exposed[rows].sum()))
    if gain < MIN_GAIN_PCT:
        return None
    return Finding(
        advice=NAME,
        remedy=Remedy(
            say("with these copies beside the kernels"), (overlap_rows(facts.rows_of_replay(rows)),)
        ),
        gain_pct=gain,
        problem=say(
            "Copies between host and GPU take {share:.0f}% of {span} while no kernel runs",
            share=gain,
            span=facts.span,
        ),
        recommendation=say(
            "Copy on a separate stream while kernels run (torch.cuda.Stream, record_stream), from "
            "pinned memory with non_blocking=True. If weights or optimizer states are kept on the "
            "host, keep more of them on the GPU"
        ),
        reasoning=say(
            "For each copy of 1 MiB or more, the time in which no kernel ran. A copy on "
            "another stream can overlap the kernels of the previous step"
        ),
        evidence=(*op_items(facts, rows, exposed), *setting_items(facts, "pin_memory")),
        proof=copies_proof(facts, rows, "host_memory <> 'pageable'"),
    )
