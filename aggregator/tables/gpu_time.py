"""Where a step goes on the GPU: busy and idle, and the parts of both, for every surface alike."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from aggregator.dldb.event_reader import stored_events
from aggregator.dldb.ownership import read_ownership, read_recorded_span, read_step_span
from aggregator.dldb.writer import has_table
from aggregator.events.model import WorkKind
from aggregator.metrics.owners import Span
from aggregator.metrics.ownership import CLASSES, HOST, LAUNCHING
from aggregator.metrics.ownership_host import IN_LOADER
from aggregator.profile.intervals import flatten, uncovered_between
from aggregator.tables.plotly.theme import PART_NAMES, split_communication

BUSY: Final = ("tc", "non_tc", "communication", "graph", "memory")
IDLE: Final = ("dataloader", "io", "cpu", "other")
CORRECTED: Final = "corrected_"
"""Begins the names of the shares of the step without profiling."""
_DIGITS: Final = 4


@dataclass(frozen=True)
class Part:
    """A part of the step. Unit: percent."""

    name: str
    pct: float
    is_busy: bool


@dataclass(frozen=True)
class GpuTime:
    """Busy and idle time of the GPU, which add up to the step. Units: percent."""

    parts: tuple[Part, ...]

    @property
    def busy_pct(self) -> float:
        """Time in which kernels, graphs, copies or sets run."""
        return round(sum(part.pct for part in self.parts if part.is_busy), _DIGITS)

    @property
    def idle_pct(self) -> float:
        """The rest."""
        return round(100.0 - self.busy_pct, _DIGITS)

    @property
    def text(self) -> str:
        """One line, without small parts."""
        parts = ", ".join(f"{part.name} {part.pct:.1f}" for part in self.parts if part.pct >= 0.05)
        return f"GPU busy {self.busy_pct:.1f} %, idle {self.idle_pct:.1f} %: {parts} %"


def split_step(usage: Mapping[str, Any], prefix: str = "") -> GpuTime | None:
    """Split a mean step, or None if it is unknown, or no work of a GPU was recorded in it.

    Args:
        usage: Shares ``<part>_pct``; what was not measured is in none.
        prefix: Of the names: ``CORRECTED``, or empty for the step as profiled.
    """
    known = {part: usage.get(f"{prefix}{part}_pct") for part in (*BUSY, *IDLE)}
    if known["non_tc"] is None or known["tc"] is None:
        return None
    shares = split_communication(known)
    total = sum(share or 0.0 for share in shares.values()) or 100.0
    parts = (
        Part(str(PART_NAMES[part]), round(100.0 * share / total, _DIGITS), part in BUSY)
        for part, share in shares.items()
        if share
    )
    found = GpuTime(tuple(parts))
    return found if found.busy_pct else None


def split_the_step(usage: Mapping[str, Any]) -> tuple[GpuTime | None, bool]:
    """Split the step without profiling where its parts are known, and say whether they are."""
    corrected = split_step(usage, CORRECTED)
    return (split_step(usage), False) if corrected is None else (corrected, True)


def read_unmarked_usage(connection: sqlite3.Connection, aggr: int) -> dict[str, float | None]:
    """Return the shares of what are no iterations; empty: the breakdown is that of iterations.

    Without ranges an aggregation is the whole profile, with the start of the program, and the
    iterations of processes with loops of their own hold the time between these: the shares are
    those of the steps, or without any of the recorded span.
    """
    span = recorded = read_recorded_span(connection, aggr)
    if recorded is None and _has_unmarked_steps(connection, aggr):
        span = read_step_span(connection, aggr)
    owned = None if span is None else read_ownership(connection, span)
    if span is None or owned is None or not owned.owned_ns.size:
        return {}
    whole_ns = float(owned.owned_ns.sum())
    owner_ns = owned.owned_ns.sum(axis=0)
    sums = 100.0 * np.bincount(owned.kind, owner_ns, len(CLASSES)) / whole_ns
    shares = dict(zip(CLASSES, sums.tolist(), strict=True))
    graph = 100.0 * _graph_ns(connection, span) / whole_ns
    found: dict[str, float | None] = {
        "tc": shares["tensor core compute"],
        "non_tc": shares["other compute"] + shares["communication"] - graph,
        "graph": graph,
        "memory": shares["copy"] + shares["set"],
        "cpu": 0.0,
    }
    if recorded is not None:
        on_host = (owned.kind == HOST) | (owned.kind == LAUNCHING)
        is_loading = on_host & (owned.reason == IN_LOADER)
        in_op = on_host & (owned.op >= 0) & ~is_loading
        found["cpu"] = 100.0 * float(owner_ns[in_op].sum()) / whole_ns
        found["dataloader"] = 100.0 * float(owner_ns[is_loading].sum()) / whole_ns
    found["other"] = 100.0 - sum(share or 0.0 for share in found.values())
    found["communication"] = shares["communication"]
    shown = {f"{part}_pct": found.get(part) for part in (*BUSY, *IDLE)}
    return shown | {"recorded_span_ns": None if recorded is None else int(span.lengths_ns.sum())}


def _has_unmarked_steps(connection: sqlite3.Connection, aggr: int) -> bool:
    if not has_table(connection, "typical_steps"):
        return False
    query = (
        "SELECT 1 FROM typical_steps WHERE aggr = ? AND steps > 0 AND (loop_reason <> ''"
        " OR EXISTS (SELECT 1 FROM dldb_meta WHERE key = 'are_ranks' AND value = '0'))"
    )
    return connection.execute(query, (aggr,)).fetchone() is not None


def _graph_ns(connection: sqlite3.Connection, span: Span) -> int:
    """Return the time, summed over GPUs, in which graphs run that were recorded as a whole alone.

    Ownership counts them as other compute, which comes before copies.
    """
    work = stored_events(connection).work()
    if not (work.kind == WorkKind.GRAPH).any():
        return 0
    total = 0
    for device in np.unique(work.device).tolist():
        of_kind = [
            (work.device == device) & (work.kind == kind)
            for kind in (WorkKind.GRAPH, WorkKind.KERNEL)
        ]
        graphs, kernels = (flatten(work.start_ns[rows], work.end_ns[rows]) for rows in of_kind)
        total += int(uncovered_between(graphs, kernels, span.edges_ns)[span.rows].sum())
    return total


def busy_pct(usage: Mapping[str, Any]) -> float | None:
    """Return the busy share of ``split_the_step``."""
    found, _ = split_the_step(usage)
    return None if found is None else found.busy_pct


def idle_pct(usage: Mapping[str, Any]) -> float | None:
    """Return the idle share of ``split_the_step``."""
    found, _ = split_the_step(usage)
    return None if found is None else found.idle_pct
