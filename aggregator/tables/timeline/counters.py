"""Counters of GPUs: memory, utilization and other quantities, as samples that stand for a time.

Times without a sample are unknown: nothing is shown there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from aggregator.dldb.column_blobs import read_columns
from aggregator.dldb.memory_reader import read_counts
from aggregator.dldb.writer import has_table
from aggregator.profile.arrays import Int64
from aggregator.tables.timeline.events import Window, limited
from aggregator.tables.timeline.items import Items, Scale

BYTES: Final = "bytes"
_MOST_ROW: Final = 2**30
"""Values are sent as 32-bit numbers: larger ones in steps."""


@dataclass(frozen=True)
class Counter:
    """A quantity of a GPU over time: samples in order of start that do not overlap."""

    key: str  # Stable name of its lane.
    device: int  # Number of the GPU.
    title: str
    unit: str  # bytes or percent (whose values are hundredths).
    start_ns: Int64
    end_ns: Int64
    value: Int64


def read_counters(connection: sqlite3.Connection, window: Window | None = None) -> list[Counter]:
    """Return the counters of a database by number of the GPU, and their samples in some time.

    All errors are those of ``Events``.
    """
    found = [*_sampled(connection), *_recorded(connection)]
    found = [_within(track, window or Window()) for track in found]
    return sorted(
        (track for track in found if len(track.value)), key=lambda item: (item.device, item.title)
    )


def _within(counter: Counter, window: Window) -> Counter:
    """Return the samples of some time, cut at its ends."""
    rows = window.holds(counter.start_ns, counter.end_ns)
    start = np.maximum(counter.start_ns[rows], window.low_ns)
    stop = np.minimum(counter.end_ns[rows], window.high_ns)
    return replace(counter, start_ns=start, end_ns=stop, value=counter.value[rows])


def _sampled(connection: sqlite3.Connection) -> Iterator[Counter]:
    if not has_table(connection, "counters"):
        return
    sql = (
        "SELECT c.id, d.device_id, c.name, c.unit FROM counters AS c"
        " JOIN devices AS d ON d.id = c.device ORDER BY c.id"
    )
    rows = connection.execute(sql).fetchall()
    if not rows:
        return
    columns = ("counter", "start", "stop", "value")
    counter, start, stop, value = (
        column.astype(np.int64, copy=False)
        for column in read_columns(connection, "counter_samples", columns)
    )
    # Ranks on one machine have all sampled the same GPUs.
    largest: dict[tuple[int, str], tuple[int, str, Int64]] = {}
    for number, device, name, unit in rows:
        mine = np.flatnonzero(counter == number)
        known = largest.get((device, name))
        if known is None or len(mine) > len(known[2]):
            largest[device, name] = (number, unit, mine)
    for (device, name), (number, unit, mine) in largest.items():
        yield _counter(
            f"counter.{number}", device, name, unit, (start[mine], stop[mine], value[mine])
        )


def _recorded(connection: sqlite3.Connection) -> Iterator[Counter]:
    """What processes had allocated, and taken from the driver, after each event of a recording."""
    for curve in read_counts(connection):
        if curve.clock_offset_ns is None or not len(curve.time_ns) or curve.time_ns.min() < 0:
            continue
        at = limited(np.maximum.accumulate(curve.time_ns) - curve.clock_offset_ns)
        ends = np.append(at[1:], at[-1:])
        counts = {"allocated": curve.allocated, "reserved": curve.reserved}
        if np.array_equal(
            curve.allocated, curve.reserved
        ):  # nothing lies between it and the driver
            counts.pop("reserved")
        for name, value in counts.items():
            title = f"Memory {name}"
            key = f"memory.{curve.number}.{name}"
            yield _counter(key, curve.device, title, BYTES, (at, ends, value))


def _counter(
    key: str, device: int, title: str, unit: str, samples: tuple[Int64, Int64, Int64]
) -> Counter:
    start, stop, value = samples
    order = np.argsort(start, kind="stable")
    start, stop = limited(start[order]), limited(stop[order])
    stop = np.maximum(np.minimum(stop, np.append(start[1:], stop[-1:])), start)
    return Counter(key, device, title, unit, start, stop, np.maximum(value[order], 0))


def counter_items(counter: Counter, label: int, origin_ns: int) -> tuple[Items, Scale]:
    """Return the samples as items, whose rows are values in steps of a scale."""
    start, stop = counter.start_ns - origin_ns, counter.end_ns - origin_ns
    step = -(-int(counter.value.max(initial=1)) // _MOST_ROW)
    row = -(-counter.value // step)
    one = np.ones_like(start)
    items = Items(start, stop, one, stop - start, np.full(len(start), label), row)
    return items, Scale(counter.unit, step, int(row.max(initial=0)))
