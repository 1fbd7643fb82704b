"""Pieces of evidence, largest first, with where the viewer shows them."""

from __future__ import annotations

import numpy as np

from aggregator.expert.advice.facts import Facts
from aggregator.expert.advice.finding import Item, Link, View
from aggregator.profile import Bool, Int64

MOST_ITEMS = 5
"""Pieces of one kind."""
MOST_LINKED_OPS = 40
"""Ops that one link can name: addresses of pages have a length that browsers and servers bear."""


def op_items(facts: Facts, rows: Bool, time_ns: Int64 | None = None) -> tuple[Item, ...]:
    """Ops with most time among some pieces of work.

    Args:
        facts: The facts.
        rows: The pieces of work.
        time_ns: What is added up; None: their length on the GPU. Unit: ns.
    """
    values = facts.work.duration_ns if time_ns is None else time_ns
    return _ops(facts, facts.work.op[rows], values[rows])


def _ops(facts: Facts, op: Int64, time_ns: Int64) -> tuple[Item, ...]:
    if not len(op):
        return ()
    found, inverse, count = np.unique(op, return_inverse=True, return_counts=True)
    total = np.zeros(len(found), dtype=np.int64)
    np.add.at(total, inverse, time_ns)
    order = np.lexsort((found, -total))[:MOST_ITEMS]
    return tuple(
        Item(
            "op",
            f"{facts.ops.op_ids[found[row]]} {facts.ops.names[found[row]]}",
            int(total[row]),
            int(count[row]),
            Link(View.OPS, {"op": facts.ops.op_ids[found[row]]}),
        )
        for row in order.tolist()
    )


def call_items(facts: Facts, rows: Bool, time_ns: Int64) -> tuple[Item, ...]:
    """Ops with most time among some waiting calls."""
    return _ops(facts, facts.waits.op[rows], time_ns[rows])


def kernel_items(facts: Facts, rows: Bool) -> tuple[Item, ...]:
    """Kernels with most time among some pieces of work."""
    work = facts.work
    found: dict[str, tuple[int, int]] = {}
    for code in np.unique(work.name[rows]).tolist():
        here = rows & (work.name == code)
        time, count = found.get(facts.names.short[code], (0, 0))
        total = time + int(work.duration_ns[here].sum())
        found[facts.names.short[code]] = (total, count + int(here.sum()))
    ordered = sorted(found.items(), key=lambda one: (-one[1][0], one[0]))[:MOST_ITEMS]
    return tuple(Item("kernel", name, time, count) for name, (time, count) in ordered)


def gpu_item(device: int, name: str, time_ns: int | None = None) -> Item:
    """One GPU."""
    return Item("gpu", f"{device} {name}".strip(), time_ns, None, Link(View.GPUS, {}))


def iteration_item(number: int, time_ns: int) -> Item:
    """One iteration."""
    link = Link(View.KERNELS_BY_ITERATION, {"iteration": str(number)})
    return Item("iteration", str(number), time_ns, None, link)


def ops_link(facts: Facts, rows: Bool) -> Link | None:
    """The ops with most time, as a filtered table; None: there are none."""
    work = facts.work
    op = work.op[rows]
    if not len(op):
        return None
    total = np.bincount(op, weights=work.duration_ns[rows].astype(np.float64) + 1.0)
    order = np.argsort(-total, kind="stable")[:MOST_LINKED_OPS]
    ids = [facts.ops.op_ids[row] for row in order.tolist() if total[row] > 0]
    return Link(View.OPS, {"ops.f.op_id__in": ",".join(ids)})
