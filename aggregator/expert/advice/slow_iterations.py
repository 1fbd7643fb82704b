"""Single steps of the loop that take much longer than the others."""

from __future__ import annotations

import numpy as np

from aggregator.expert.advice.evidence import MOST_ITEMS, iteration_item
from aggregator.expert.advice.facts import Facts
from aggregator.expert.advice.finding import (
    LEAST_GAIN_PCT,
    Answer,
    Certainty,
    Finding,
    Link,
    Proof,
    View,
)
from aggregator.expert.advice.queries import quoted
from aggregator.profile import Bool, Int64
from aggregator.texts import Text, say

NAME = "slow_iterations"
SLOW_RATIO = 1.5
"""A step is slow that takes more than this times the median."""
FEWEST_STEPS = 8
"""With fewer steps an odd one is no pattern."""
LARGEST_SHARE = 0.34
"""Where more than a third is slow, the loop has no usual pace to return to."""


def period_of(number: Int64) -> int | None:
    """Distance between slow steps if it is the same throughout; None: there is no period."""
    distances = np.diff(number)
    regular = len(distances) >= 2 and int(distances.min()) == int(distances.max())
    return int(distances[0]) if regular else None


def advise(facts: Facts) -> Answer:
    """What the slow steps take more than the median one."""
    steps = facts.steps
    median = float(np.median(steps.length_ns))
    slow = steps.length_ns > SLOW_RATIO * median
    slow[-1:] = False  # what follows the loop may be counted into its last step
    count = int(slow.sum())
    if len(slow) < FEWEST_STEPS or not count or count > LARGEST_SHARE * len(slow):
        return None
    extra = float((steps.length_ns[slow] - median).sum())
    gain = 100.0 * extra / float(steps.length_ns.sum())
    if gain < LEAST_GAIN_PCT:
        return None
    worst = np.flatnonzero(slow)[np.argsort(-steps.length_ns[slow], kind="stable")][:MOST_ITEMS]
    return Finding(
        advice=NAME,
        gain_pct=gain,
        problem=_problem(count, len(slow), period_of(steps.number[slow])),
        recommendation=say(
            "See what these steps do besides: checkpoints, evaluation, logging, garbage "
            "collection, a data loader that starts anew. Do it more rarely or in the background"
        ),
        reasoning=say(
            "What these steps take beyond the median step of {median:.1f} ms, over the time of "
            "all steady steps",
            median=median / 1e6,
        ),
        certainty=Certainty.SURE,
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
    numbers = ", ".join(str(number) for number in facts.steps.number[slow].tolist())
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
        f" AND length > {SLOW_RATIO} * {float(np.median(facts.steps.length_ns))!r}"
    )
    return Proof(query, "slow_iterations", int(slow.sum()))
