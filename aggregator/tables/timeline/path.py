"""The critical path of an aggregation as a lane: what the steps waited for, one after the other."""

from __future__ import annotations

import io
import sqlite3
from typing import Final

import numpy as np
import pyarrow as pa

from aggregator.errors import ReplayError
from aggregator.events.model import WorkKind
from aggregator.profile.arrays import Int64, row_codes
from aggregator.replay.analysis import ReplayedProfile
from aggregator.replay.inputs import ReplayInput
from aggregator.replay.op_spans import op_time_ns
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.counts import QueryCache
from aggregator.tables.replay import replayed_profile
from aggregator.tables.timeline.events import COPY_NAMES, GRAPH_NAME, SET_NAME, path_end
from aggregator.tables.timeline.items import EventLane, Items
from aggregator.tables.timeline.lanes import CPU
from aggregator.tables.timeline.stored import (
    StoredLane,
    StoredTimeline,
    TimelineWriter,
    read_timeline,
)

PATH_KEY: Final = "path.0"
_MOST_BYTES: Final = 2**27

_lanes: QueryCache[StoredTimeline] = QueryCache(_MOST_BYTES, lambda found: found.size)


def has_path(data: AggregationData) -> bool:
    """Whether the steps of the aggregation were replayed when it was made."""
    if not data.database.has("view_critical_path"):
        return False
    sql = "SELECT 1 FROM view_critical_path WHERE aggr_id = :aggr_id LIMIT 1"
    return bool(data.database.rows(sql, {"aggr_id": data.params["aggr_id"]}))


def path_lane(data: AggregationData, stored: StoredTimeline) -> StoredLane | None:
    """The lane; None: the steps cannot be replayed. Made at first use, then kept in memory.

    Raises:
        DatabaseError: The database is damaged.
    """

    def make() -> StoredTimeline:
        try:
            found, _ = replayed_profile(data)
            items = data.database.read_with(lambda connection: _items(connection, found, stored))
        except ReplayError:
            items = Items(*np.zeros((6, 0), dtype=np.int64))
        out = io.BytesIO()
        writer = TimelineWriter(out, origin_ns=stored.origin_ns, state=stored.state)
        if len(items):
            writer.add(EventLane(PATH_KEY, "path", "", "", items))
        writer.close(())
        return read_timeline(pa.py_buffer(out.getvalue()))

    params = {"aggr_id": data.params["aggr_id"]}
    return _lanes.get(data.database.state, "path", params, make).lanes.get(PATH_KEY)


def _items(connection: sqlite3.Connection, found: ReplayedProfile, stored: StoredTimeline) -> Items:
    """Measured times of what lies on the path, cut where the next one begins."""
    numbers = {
        (item.name, item.category >= 0, item.op_id): row for row, item in enumerate(stored.labels)
    }
    start, end, label, row = np.concatenate(
        [_work(connection, found, numbers), _calls(found, numbers)], axis=1
    )
    order = np.lexsort((end, start))
    ends = np.maximum.accumulate(end[order]) if len(order) else end
    begins = np.maximum(start[order], np.append(start[order][:1], ends[:-1]))
    kept = ends > begins
    begins, ends = begins[kept] - stored.origin_ns, ends[kept] - stored.origin_ns
    one = np.ones_like(begins)
    return Items(begins, ends, one, ends - begins, label[order][kept], row[order][kept])


Numbers = dict[tuple[str, bool, str | None], int]


def _work(connection: sqlite3.Connection, found: ReplayedProfile, numbers: Numbers) -> Int64:
    graph = found.graph
    work = graph.data.work
    rows = np.unique(graph.work_row[found.path.work])
    names = [
        str(item[0])
        for item in connection.execute("SELECT readable_name FROM kernel_names ORDER BY id")
    ]
    kind, name, op = work.kind[rows], work.name[rows], work.op[rows]
    heads, codes = row_codes(kind, name, op, work.copy_kind[rows])
    labels = [
        _number(
            numbers,
            _name(graph.data, names, row),
            graph.data.ops.op_ids[work.op[row]],
            is_work=True,
        )
        for row in rows[heads].tolist()
    ]
    first = np.array(
        [
            np.count_nonzero(work.kind == WorkKind.KERNEL),
            np.count_nonzero(work.kind != WorkKind.GRAPH),
        ]
    )
    row = (
        rows
        - np.where(kind == WorkKind.KERNEL, 0, np.where(kind == WorkKind.GRAPH, first[1], first[0]))
        + 1
    )
    label = np.array(labels, dtype=np.int64)[codes] if labels else np.zeros(0, dtype=np.int64)
    return np.stack([work.start_ns[rows], work.end_ns[rows], label, row])


def _name(data: ReplayInput, names: list[str], row: int) -> str:
    kind = int(data.work.kind[row])
    if kind == WorkKind.KERNEL:
        return names[int(data.work.name[row])]
    if kind == WorkKind.GRAPH:
        return GRAPH_NAME
    return (
        SET_NAME
        if kind == WorkKind.SET
        else COPY_NAMES.get(int(data.work.copy_kind[row]), "Memcpy")
    )


def _calls(found: ReplayedProfile, numbers: Numbers) -> Int64:
    graph, calls = found.graph, found.graph.data.calls
    position = np.flatnonzero(found.path.steps)
    row, is_call = graph.call_row[position // 2], position % 2 == 1
    op_ids, op_names = graph.data.ops.op_ids, graph.data.ops.names
    heads, codes = row_codes(calls.name[row], calls.op[row], is_call)
    labels = [
        _number(
            numbers,
            graph.data.call_names[calls.name[row[head]]]
            if is_call[head]
            else path_end(op_names[calls.op[row[head]]] or "") or op_ids[calls.op[row[head]]],
            op_ids[calls.op[row[head]]],
            is_work=False,
        )
        for head in heads.tolist()
    ]
    label = np.array(labels, dtype=np.int64)[codes] if labels else np.zeros(0, dtype=np.int64)
    end = graph.cpu_time_ns[position]
    start = end - np.maximum(found.measured.cpu_step_ns[position], 0)
    # What passes before the op of a call begins is not the op's.
    cut = np.where(is_call, start, np.maximum(start, end - op_time_ns(graph.data, row)))
    before = np.flatnonzero(cut > start)
    nameless = np.full(len(before), numbers[CPU, False, None])
    own = np.stack([cut, end, label, np.where(is_call, row + 1, 0)])
    return np.hstack([own, np.stack([start[before], cut[before], nameless, 0 * before])])


def _number(numbers: Numbers, name: str, op_id: str, *, is_work: bool) -> int:
    """The number of a label of the timeline; that of the CPU where it has no such label."""
    return numbers.get((name, is_work, op_id), numbers[CPU, False, None])
