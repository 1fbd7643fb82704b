"""Evidence of a finding: what it was measured on, links to the viewer, and queries that prove it.

Each query uses only public views and mirrors one measurement of ``Facts``. A test runs the queries
on every profile and compares their numbers with those of the findings.
"""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from aggregator.advice.facts import LATE_NS, Facts
from aggregator.advice.finding import Item, Link, Proof, View
from aggregator.profile.arrays import Bool, Int64, dense_codes, row_codes

MAX_ITEMS = 5  # Largest number of items of one kind.
MAX_PROOF = 50_000
"""Most letters of the names in a query: a profile may have tens of thousands of ops."""
MAX_PROOF_ROWS = 500
"""Most numbers or intervals that a query lists."""
MAX_LINKED_OPS = 40
"""Largest number of ops in a link: browsers and servers limit the length of an address."""


def op_items(facts: Facts, rows: Bool, time_ns: Int64 | None = None) -> tuple[Item, ...]:
    """Return the ops with most time among some work.

    Args:
        facts: The facts.
        rows: The work.
        time_ns: Time to add up; None for the time on the GPU. Unit: ns.
    """
    values = facts.work.duration_ns if time_ns is None else time_ns
    return _ops(facts, facts.work.op[rows], values[rows])


def gap_items(facts: Facts, rows: Bool) -> tuple[Item, ...]:
    """Return the ops before whose work the GPU was idle longest: an op does not own that time."""
    return _ops(facts, facts.work.op[rows], facts.gap_ns[rows], kind="before")


def _ops(facts: Facts, op: Int64, time_ns: Int64, kind: str = "op") -> tuple[Item, ...]:
    if not len(op):
        return ()
    found, code = dense_codes(op)
    count = np.bincount(code)
    total = np.zeros(len(found), dtype=np.int64)
    np.add.at(total, code, time_ns)
    order = np.lexsort((found, -total))[:MAX_ITEMS]
    return tuple(
        Item(
            kind,
            f"{facts.ops.op_ids[found[row]]} {facts.ops.names[found[row]]}",
            int(total[row]),
            int(count[row]),
            Link(View.OPS, {"op": facts.ops.op_ids[found[row]]}),
        )
        for row in order.tolist()
    )


def call_items(facts: Facts, rows: Bool, time_ns: Int64) -> tuple[Item, ...]:
    """Return the ops with most time among some waiting calls."""
    return _ops(facts, facts.waits.op[rows], time_ns[rows])


def kernel_items(facts: Facts, rows: Bool) -> tuple[Item, ...]:
    """Return the kernels with most time among some work."""
    work = facts.work
    found: dict[str, tuple[int, int]] = {}
    for code in np.unique(work.name[rows]).tolist():
        here = rows & (work.name == code)
        time, count = found.get(facts.names.short[code], (0, 0))
        total = time + int(work.duration_ns[here].sum())
        found[facts.names.short[code]] = (total, count + int(here.sum()))
    ordered = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))[:MAX_ITEMS]
    return tuple(Item("kernel", name, time, count) for name, (time, count) in ordered)


def gpu_item(device: int, name: str, time_ns: int | None = None) -> Item:
    """Return the item of a GPU."""
    return Item("gpu", f"{device} {name}".strip(), time_ns, None, Link(View.GPUS, {}))


def iteration_item(number: int, time_ns: int) -> Item:
    """Return the item of an iteration."""
    link = Link(View.KERNELS_BY_ITERATION, {"iteration": str(number)})
    return Item("iteration", str(number), time_ns, None, link)


def setting_items(facts: Facts, *names: str) -> tuple[Item, ...]:
    """Return the items of those settings that were recorded."""
    known = [name for name in names if name in facts.settings]
    return tuple(Item("setting", f"{name}={facts.settings[name]}") for name in known)


def ops_link(facts: Facts, rows: Bool) -> Link | None:
    """Return a link to the table of the ops with most time; None if there are none."""
    work = facts.work
    op = work.op[rows]
    if not len(op):
        return None
    total = np.bincount(op, weights=work.duration_ns[rows].astype(np.float64) + 1.0)
    order = np.argsort(-total, kind="stable")[: np.count_nonzero(total)].tolist()
    ids = [facts.ops.op_ids[row] for row in order[:MAX_LINKED_OPS]]
    all_ops = len(order) if len(order) > len(ids) else None
    return Link(View.OPS, {"ops.f.op_id__in": ",".join(ids)}, all_ops)


def quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def kernels_proof(facts: Facts, rows: Bool, column: str = "kernel_time_ns") -> Proof:
    """Build the query for the kernel time of some launches, selected by op and kernel name.

    Of many ops it proves the time of those with most of it, as many as its length allows.
    """
    work = facts.work
    op, name = work.op[rows], work.name[rows]
    first, code = row_codes(op, name)
    time_ns = np.zeros(len(first), dtype=np.int64)
    np.add.at(time_ns, code, work.duration_ns[rows])
    values: list[str] = []
    length = total = 0
    for row in np.lexsort((first, -time_ns)).tolist():
        op_id, kernel = facts.ops.op_ids[op[first[row]]], facts.names.long[name[first[row]]]
        value = f"({quoted(op_id)}, {quoted(kernel)})"
        length += len(value)
        if values and length > MAX_PROOF:
            break
        values.append(value)
        total += int(time_ns[row])
    query = (
        f"SELECT coalesce(sum(kernel_duration), 0) AS {column} FROM view_kernel_launches"
        f" WHERE {launched(facts)} AND (op_node_id, long_kernel_name) IN"
        f" (VALUES {', '.join(sorted(values))})"
    )
    return Proof(query, column, total)


class KernelEvidence(TypedDict):
    """Fields of a ``Finding`` about some kernels."""

    evidence: tuple[Item, ...]
    proof: Proof
    link: Link | None


def kernel_evidence(
    facts: Facts, rows: Bool, *more: Item, column: str = "kernel_time_ns"
) -> KernelEvidence:
    """Return the kernels with most time and further items, the query for their time, the ops."""
    return {
        "evidence": (*kernel_items(facts, rows), *more),
        "proof": kernels_proof(facts, rows, column),
        "link": ops_link(facts, rows),
    }


def launched(facts: Facts) -> str:
    """Return the condition that selects the window in ``view_kernel_launches``."""
    return (
        f"aggr_id = {facts.aggr} AND domain_name = {quoted(facts.domain)}"
        f" AND iter_value BETWEEN {facts.steps.first} AND {facts.steps.last}"
    )


def gpu_work(facts: Facts) -> str:
    """Return a WITH clause for ``work``, the GPU work of the window.

    Its columns are device_id, start, stop, api_start, kind, op_node_id, and reached: the latest end
    of earlier work on the same GPU.
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
    """Build the query for the idle time of the GPU directly before some work.

    Args:
        facts: The facts.
        rows: The work.
        condition: The same selection in SQL, on the columns of ``gpu_work``.
        column: Name of the sum.
    """
    query = (
        f"{gpu_work(facts)}SELECT coalesce(sum(start - reached), 0) AS {column} FROM work"
        f" WHERE start > reached AND {condition}"
    )
    return Proof(query, column, int(facts.gap_ns[rows].sum()))


LATE = f"api_start >= reached - {LATE_NS}"  # ``facts.launched_late`` in SQL.


def setting_proof(key: str, value: object) -> Proof:
    """Build the query for a setting that markers recorded."""
    text = "true" if value is True else "false" if value is False else quoted(str(value))
    query = (
        f"SELECT count(*) AS settings FROM view_model_settings WHERE key = {quoted(key)}"
        f" AND value = {quoted(text)}"
    )
    return Proof(query, "settings", 1)
