"""SQL that proves a finding: over the public views alone, with the window's numbers in it.

Each builder mirrors one measurement of ``facts``; a test runs every query on every profile and
compares its number with the finding's.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from aggregator.expert.advice.facts import LATE_NS, QUEUED_NS, Facts
from aggregator.expert.advice.finding import Proof
from aggregator.profile import Bool


def quoted(text: str) -> str:
    """A text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def kernels_proof(facts: Facts, rows: Bool, column: str = "kernel_time_ns") -> Proof:
    """Kernel time of some launches of the window, told by op, short name and Tensor Core use."""
    work = facts.work
    pairs = np.unique(np.stack([work.op[rows], work.name[rows]]), axis=1).T.tolist()
    wanted = sorted({(facts.ops.op_ids[op], facts.names.long[name]) for op, name in pairs})
    values = ", ".join(f"({quoted(op)}, {quoted(name)})" for op, name in wanted)
    query = (
        f"SELECT coalesce(sum(kernel_duration), 0) AS {column} FROM view_kernel_launches"
        f" WHERE {launched(facts)} AND (op_node_id, long_kernel_name) IN (VALUES {values})"
    )
    return Proof(query, column, int(work.duration_ns[rows].sum()))


def launched(facts: Facts) -> str:
    """Condition on ``view_kernel_launches``: those of the window."""
    return (
        f"aggr_id = {facts.aggr} AND domain_name = {quoted(facts.domain)}"
        f" AND iter_value BETWEEN {facts.steps.first} AND {facts.steps.last}"
    )


def gpu_work(facts: Facts) -> str:
    """Common table expressions: ``work``, with when its GPU ran dry before each piece.

    Columns: device_id, start, stop, api_start, kind, op_node_id, reached.
    """
    bounds = ", ".join(f"({gpu.device}, {gpu.low_ns}, {gpu.high_ns})" for gpu in facts.gpus)
    return (
        f"WITH bounds (device_id, low, high) AS (VALUES {bounds}), work AS (SELECT w.device_id,"
        " w.timestamp AS start, w.timestamp + w.duration AS stop, w.api_start, w.kind,"
        " w.op_node_id, max(w.timestamp + w.duration) OVER (PARTITION BY w.device_id ORDER BY"
        " w.timestamp, w.timestamp + w.duration ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        " AS reached FROM view_gpu_work AS w JOIN bounds AS b ON b.device_id = w.device_id"
        " AND w.timestamp BETWEEN b.low AND b.high) "
    )


def gaps_proof(facts: Facts, rows: Bool, condition: str, column: str) -> Proof:
    """Time before pieces of work in which their GPU ran nothing.

    Args:
        facts: The facts.
        rows: The pieces of work.
        condition: The same in SQL, over the columns of ``gpu_work``.
        column: Name of the sum.
    """
    query = (
        f"{gpu_work(facts)}SELECT coalesce(sum(start - reached), 0) AS {column} FROM work"
        f" WHERE start > reached AND {condition}"
    )
    return Proof(query, column, int(facts.gap_ns[rows].sum()))


LATE = f"api_start >= reached - {LATE_NS}"
"""``facts.came_late`` in SQL."""
QUEUED = f"timestamp - api_start > {QUEUED_NS}"


def setting_proof(key: str, value: object) -> Proof:
    """What a marker told of the script."""
    text = "true" if value is True else "false" if value is False else quoted(str(value))
    query = (
        f"SELECT count(*) AS settings FROM view_model_settings WHERE key = {quoted(key)}"
        f" AND value = {quoted(text)}"
    )
    return Proof(query, "settings", 1)


def listed(texts: Iterable[str]) -> str:
    """Literals for ``IN``."""
    return ", ".join(quoted(text) for text in texts)
