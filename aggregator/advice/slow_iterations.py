"""Single steps that take much longer than the others."""

from __future__ import annotations

import numpy as np

from aggregator.advice.evidence import MAX_ITEMS, MAX_PROOF_ROWS, iteration_item, quoted
from aggregator.advice.facts import Facts
from aggregator.advice.finding import MIN_GAIN_PCT, Answer, Finding, Link, Proof, View
from aggregator.profile.arrays import Bool, Int64
from aggregator.texts import Text, say

NAME = "slow_iterations"
SLOW_RATIO = 1.5  # A step is slow if it takes more than this times the median.
MIN_STEPS = 8  # Fewer steps are not judged.
MAX_SHARE = 0.25
"""If a larger share of the steps is slow, there is no usual step time to compare with."""


def period_of(number: Int64) -> int | None:
    """Return the distance between slow steps if it is constant, else None."""
    distances = np.diff(number)
    regular = len(distances) >= 2 and int(distances.min()) == int(distances.max())
    return int(distances[0]) if regular else None


def advise(facts: Facts) -> Answer:
    """Measure how much longer slow steps take than the median step."""
    steps = facts.steps
    if facts.has_several_loops:
        return None
    median = float(np.median(steps.length_ns))
    slow = steps.length_ns > SLOW_RATIO * median
    slow[-1:] = False  # the last step may include work after the loop
    count = int(slow.sum())
    if len(slow) < MIN_STEPS or not count or count > MAX_SHARE * len(slow):
        return None
    extra = float((steps.length_ns[slow] - median).sum())
    gain = 100.0 * extra / float(steps.length_ns.sum())
    if gain < MIN_GAIN_PCT:
        return None
    worst = np.flatnonzero(slow)[np.argsort(-steps.length_ns[slow], kind="stable")][:MAX_ITEMS]
    return Finding(
        advice=NAME,
        covered_by=("late_ranks",),
        gain_pct=gain,
        problem=_problem(count, len(slow), period_of(steps.number[slow])),
        recommendation=say(
            "Look at what else the program does in these steps: checkpoints, evaluation, logging, "
            "garbage collection (gc.freeze() after start-up), the start of an epoch. Do it less "
            "often or in the background"
        ),
        reasoning=say(
            "The time of these steps beyond the median step of {median:.1f} ms, divided by "
            "the time of all steady steps",
            median=median / 1e6,
        ),
        evidence=tuple(
            iteration_item(int(steps.number[row]), int(steps.length_ns[row])) for row in worst
        ),
        proof=_proof(facts, slow),
        link=Link(View.ITERATIONS, {}),
    )


def _problem(count: int, total: int, period: int | None) -> Text:
    if period is not None:
        return say(
            "One iteration in {period} is slow: {count} of {total} take more than 1.5 times as "
            "long as the median",
            period=period,
            count=count,
            total=total,
        )
    return say(
        "{count} of {total} iterations take more than 1.5 times as long as the median",
        count=count,
        total=total,
    )


def _proof(facts: Facts, slow: Bool) -> Proof:
    slow = slow & (np.cumsum(slow) <= MAX_PROOF_ROWS)
    numbers = ", ".join(str(number) for number in facts.steps.number[slow].tolist())
    limit = f"> {SLOW_RATIO} * {float(np.median(facts.steps.length_ns))!r}"
    if facts.steps.is_stored:
        query = (
            f"SELECT count(*) AS slow_iterations FROM view_steps WHERE aggr_id = {facts.aggr}"
            f" AND iter_value IN ({numbers}) AND duration {limit}"
        )
        return Proof(query, "slow_iterations", int(slow.sum()))
    begins = (
        "SELECT iter_value, min(row_id), kernel_timestamp AS begin FROM view_kernel_launches"
        f" WHERE aggr_id = {facts.aggr} AND domain_name = {quoted(facts.domain)}"
        " GROUP BY iter_value"
    )
    graphs = (
        "SELECT i.iter_value, min(g.row_id), g.timestamp FROM view_graph_launches AS g JOIN"
        f" view_iterations_all AS i ON i.aggr_id = {facts.aggr} AND g.api_start >= i.start_time"
        " AND g.api_start < i.stop_time GROUP BY i.iter_value"
    )
    both = f"{begins} UNION ALL {graphs}" if facts.has_graphs else begins
    query = (
        f"WITH begins AS (SELECT iter_value, min(begin) AS begin FROM ({both})"
        " GROUP BY iter_value), lengths AS (SELECT iter_value,"
        " lead(begin) OVER (ORDER BY iter_value) - begin AS length"
        " FROM begins) SELECT count(*) AS slow_iterations FROM lengths"
        f" WHERE iter_value IN ({numbers})"
        f" AND length {limit}"
    )
    return Proof(query, "slow_iterations", int(slow.sum()))
