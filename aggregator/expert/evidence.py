"""What the detectors look at, and what they say."""

from __future__ import annotations

from dataclasses import dataclass

from aggregator.metrics.model import RollupInput
from aggregator.metrics.op_metrics import OpMetrics
from aggregator.metrics.window import Window
from aggregator.texts import Text


@dataclass(frozen=True)
class Evidence:
    """One aggregation with what it was computed from.

    Attributes:
        data: The imported profile.
        window: The aggregated window.
        ops: Metrics of its ops.
        totals: Totals by column name of ``model_metrics``.
        requested_key_node: Key node that the user named; empty: none.
    """

    data: RollupInput
    window: Window
    ops: OpMetrics
    totals: dict[str, int | float]
    requested_key_node: str


@dataclass(frozen=True)
class Issue:
    """One problem with what to do about it.

    Attributes:
        detector: Stable name, DLProf's where it has one.
        problem: One sentence.
        recommendation: One or two sentences.
        drill_down: Name of a view with the details, from a fixed list; empty: none.
    """

    detector: str
    problem: Text
    recommendation: Text
    drill_down: str = ""
