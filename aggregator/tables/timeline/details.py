"""One event of a timeline: what is known of it, and the events that it belongs to."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from aggregator.dldb.column_blobs import first_row
from aggregator.kernels.tensor_cores import Capability
from aggregator.kernels.traits import ASSUMED_CAPABILITY, kernel_traits
from aggregator.profile.arrays import Bool
from aggregator.tables.timeline.events import Category
from aggregator.tables.timeline.items import Items
from aggregator.tables.timeline.stored import StoredTimeline

MOST_LAUNCHED: Final = 50
"""Work of one call that is shown: a CUDA graph launches thousands of kernels."""
_TABLES: Final = {
    Category.TENSOR_CORE: "kernels",
    Category.COMPUTE: "kernels",
    Category.COMMUNICATION: "kernels",
    Category.COPY: "memory_ops",
    Category.SET: "memory_ops",
    Category.GRAPH: "graph_launches",
}
_OP: Final = """
    SELECT op_id, op_name, op_type, direction, data_type, tc_support_status = 0 AS tc_eligible,
           tc_fit_reason, name_reason, id AS op_row, forward FROM ops WHERE id = :id
"""
_KERNEL: Final = """
    SELECT n.long_name, n.readable_name, n.tc_verdict, n.source_ops,
           s.grid_x || ' x ' || s.grid_y || ' x ' || s.grid_z AS grid,
           s.block_x || ' x ' || s.block_y || ' x ' || s.block_z AS block,
           p.op, k.instance, k.process, k.api_start, k.api_duration, d.cuda_major, d.cuda_minor
    FROM kernels AS k JOIN kernel_names AS n ON n.id = k.name
    JOIN launch_sizes AS s ON s.id = k.size
    JOIN op_kernels AS p ON p.id = k.op_kernel JOIN devices AS d ON d.id = k.device WHERE k.id = :id
"""
_COPY: Final = """
    SELECT op, process, api_start, api_duration, nullif(bytes, -1) AS bytes,
           CASE host_kind WHEN 0 THEN 'pageable' WHEN 1 THEN 'pinned' ELSE '' END AS host_memory
    FROM memory_ops WHERE id = :id
"""
_GRAPH: Final = "SELECT op, process, api_start, api_duration FROM graph_launches WHERE id = :id"
_CALL: Final = """
    SELECT c.op, t.process, c.start AS api_start, c.duration AS api_duration, c.correlation_id
    FROM api_calls AS c JOIN threads AS t ON t.id = c.thread WHERE c.id = :id
"""
_INSTANCE: Final = """
    SELECT i.id AS instance, i.op, i.gpu_time AS gpu_time_ns, i.cpu_time AS cpu_time_ns,
           nullif(x.input_shapes, '') AS input_shapes, nullif(x.output_shapes, '') AS output_shapes
    FROM op_instances AS i LEFT JOIN shape_texts AS x ON x.id = i.shapes WHERE i.id = :id
"""
_PLACE: Final = """
    SELECT 1 + (SELECT count(*) FROM op_metrics AS b WHERE b.aggr = a.aggr
                AND b.gpu_time_sum > a.gpu_time_sum) AS place,
           (SELECT count(*) FROM op_metrics AS b WHERE b.aggr = a.aggr) AS of_ops,
           100.0 * gpu_time_sum / (SELECT nullif(sum(gpu_time_sum), 0) FROM op_metrics AS b
                                   WHERE b.aggr = a.aggr) AS share_pct
    FROM op_metrics AS a WHERE a.aggr = :aggr AND a.op = :op
"""
Facts = dict[str, Any]
_SHOWN: Final = {
    **dict.fromkeys(
        ("op", "process", "instance", "op_row", "forward", "cuda_major", "cuda_minor"), ""
    ),
    "api_start": "api_start_ns",
    "api_duration": "api_time_ns",
}
"""Names of values in the answer; empty: not shown."""


class EventDetails:
    """Reads what a database of this program says about events of its timeline.

    All methods raise what those of ``Events`` raise.
    """

    def __init__(
        self, connection: sqlite3.Connection, stored: StoredTimeline, aggregation: int
    ) -> None:
        self._connection, self._stored, self._aggregation = connection, stored, aggregation

    def read(self, key: str, start_ns: int, row: int) -> Facts | None:
        """All about the event of a lane with a start and a row id; None: there is none.

        Args:
            key: The lane.
            start_ns: Start on the clock of the profile.
            row: Row id in the table of its kind.
        """
        lane = self._stored.lanes[key]
        event = self._event(key, start_ns, lambda items: items.row == row)
        if event is None:
            return None
        known: Facts = {}
        if lane.scale is not None:
            event |= {"value": row * lane.scale.step, "unit": lane.scale.unit}
        if row > 0 and lane.kind == "work":
            known = self._work(event["category"], row)
        elif row > 0 and lane.kind in {"ops", "loader"}:
            known = self._one(_INSTANCE, id=row)
        elif row > 0 and lane.kind in {"calls", "waits"}:
            known = self._one(_CALL, id=row)
        related = list(self._related(lane.kind, row, known)) if known else []
        return event | self._about(known) | {"related": related}

    def _about(self, known: Facts) -> Facts:
        """What the page shows, without the rows that link the tables."""
        facts: Facts = {}
        if known.get("op"):
            facts |= self._one(_OP, id=known["op"])
            facts |= self._one(_PLACE, aggr=self._aggregation, op=known["op"])
            facts["module"] = str(facts.get("op_name", "")).rpartition("/")[0]
        if known.get("instance"):
            shapes = self._one(_INSTANCE, id=known["instance"])
            facts |= {name: shapes.get(name) for name in ("input_shapes", "output_shapes")}
        if "tc_eligible" in facts:
            facts["tc_eligible"] = bool(facts["tc_eligible"])
        shown = {_SHOWN.get(name, name): value for name, value in (facts | known).items()}
        return {name: value for name, value in shown.items() if name}

    def _work(self, category: int, row: int) -> Facts:
        table = _TABLES[Category(category)]
        if table != "kernels":
            return self._one(_COPY if table == "memory_ops" else _GRAPH, id=row)
        found = self._one(_KERNEL, id=row)
        if not found:
            return found
        verdict = found.pop("tc_verdict")
        gpu = _capability(found["cuda_major"], found["cuda_minor"])
        found["uses_tc"] = None if verdict is None else bool(verdict)
        found["tc_evidence"] = kernel_traits(found["long_name"]).tensor_cores(gpu).evidence
        return found

    def _related(self, kind: str, row: int, known: Facts) -> Iterator[Facts]:
        """The launching call or the launched work, and the partner of the other direction."""
        if kind == "work":
            yield from self._launching_call(known)
        if kind in {"calls", "waits"}:
            yield from self._launched(known)
        if kind in {"ops", "loader"}:
            yield from self._work_of(row)
        elif known.get("instance"):
            yield from self._placed("op", "ops", self._instance_start(known["instance"]))
        if known.get("instance"):
            yield from self._partners(int(known["op"]), int(known["instance"]))

    def _launching_call(self, known: Facts) -> Iterator[Facts]:
        if not known["api_duration"]:
            return
        threads = self._rows("SELECT id FROM threads WHERE process = ?", known["process"])
        for (thread,) in threads:
            for kind in ("calls", "waits"):
                found = self._find(
                    f"thread{thread}.{kind}", known["api_start"], known["api_duration"], None
                )
                if found is not None:
                    yield {"relation": "launched by", **found}
                    return

    def _launched(self, call: Facts) -> Iterator[Facts]:
        """Work whose launching call has this call's process, start and duration."""
        for table in ("kernels", "memory_ops", "graph_launches"):
            low = first_row(self._connection, table, "api_start", call["api_start"])
            sql = (
                f"SELECT id, device, process, stream_id, start FROM {table}"  # noqa: S608
                " WHERE id >= ? AND id < ? AND api_start = ? AND api_duration = ? AND process = ?"
            )
            values = (low, low + MOST_LAUNCHED, call["api_start"], call["api_duration"])
            for row, device, process, stream, start in self._rows(sql, *values, call["process"]):
                found = self._find(f"gpu{device}.{process}.{stream}", start, None, row)
                if found is not None:
                    yield {"relation": "launched", **found}

    def _work_of(self, instance: int) -> Iterator[Facts]:
        """The kernels of an execution of an op; their calls began within it."""
        start, stop = self._instance_times(instance)
        low, high = (
            first_row(self._connection, "kernels", "api_start", time) for time in (start, stop + 1)
        )
        sql = (
            "SELECT id, device, process, stream_id, start FROM kernels WHERE id >= ? AND id < ?"
            " AND instance = ? LIMIT ?"
        )
        for row, device, process, stream, at in self._rows(sql, low, high, instance, MOST_LAUNCHED):
            found = self._find(f"gpu{device}.{process}.{stream}", at, None, row)
            if found is not None:
                yield {"relation": "launched", **found}

    def _partners(self, op: int, instance: int) -> Iterator[Facts]:
        """The same call of the forward op, or of the backward ones that were called as often."""
        forward = self._rows("SELECT forward FROM ops WHERE id = ?", op)[0][0]
        backward = self._rows("SELECT id FROM ops WHERE forward = ? LIMIT 10", op)
        others = [(forward, "forward")] if forward is not None else []
        others += [(row[0], "backward") for row in backward]
        for other, relation in others:
            found = self._same_call(op, int(other), instance)
            if found is not None:
                yield from self._placed(relation, "ops", found)

    def _same_call(self, op: int, other: int, instance: int) -> tuple[int, int, int] | None:
        count = "SELECT count(*) FROM op_instances WHERE op = ?"
        if self._rows(count, op) != self._rows(count, other):
            return None
        start, _ = self._instance_times(instance)
        ((before,),) = self._rows(
            f"{count} AND (start < ? OR start = ? AND id < ?)", op, start, start, instance
        )
        sql = (
            "SELECT thread, start, id FROM op_instances WHERE op = ? ORDER BY start, id"
            " LIMIT 1 OFFSET ?"
        )
        rows = self._rows(sql, other, before)
        return (int(rows[0][0]), int(rows[0][1]), int(rows[0][2])) if rows else None

    def _placed(
        self, relation: str, kind: str, where: tuple[int, int, int] | None
    ) -> Iterator[Facts]:
        """An execution of an op by thread, start and row id, where it is in the timeline."""
        if where is None:
            return
        thread, start, row = where
        found = self._find(f"thread{thread}.{kind}", start, None, row)
        if found is not None:
            yield {"relation": relation, **found}

    def _instance_start(self, instance: int) -> tuple[int, int, int] | None:
        sql = "SELECT thread, start, id FROM op_instances WHERE id = ?"
        rows = self._rows(sql, instance)
        return (int(rows[0][0]), int(rows[0][1]), int(rows[0][2])) if rows else None

    def _instance_times(self, instance: int) -> tuple[int, int]:
        rows = self._rows("SELECT start, stop FROM op_instances WHERE id = ?", instance)
        return (int(rows[0][0]), int(rows[0][1])) if rows else (0, 0)

    def _find(
        self, prefix: str, start_ns: int, duration_ns: int | None, row: int | None
    ) -> Facts | None:
        """The event of a start and a duration or row id in the lanes of a prefix."""
        for key in self._stored.lanes:
            if key.startswith(f"{prefix}."):
                found = self._event(
                    key,
                    start_ns,
                    lambda items: items.busy_ns == duration_ns if row is None else items.row == row,
                )
                if found is not None:
                    return found
        return None

    def _event(self, key: str, start_ns: int, fits: Callable[[Items], Bool]) -> Facts | None:
        at = start_ns - self._stored.origin_ns
        items = self._stored.lanes[key].events(at, at + 1)
        places = np.flatnonzero((items.start_ns == at) & fits(items))
        if not len(places):
            return None
        place = int(places[0])
        label = self._stored.labels[int(items.label[place])]
        return {
            "lane": key,
            "row_id": int(items.row[place]),
            "name": label.name,
            "category": label.category,
            "op_id": label.op_id,
            "op_type": label.op_type,
            "start_ns": start_ns,
            "duration_ns": int(items.busy_ns[place]),
        }

    def _rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, values).fetchall()

    def _one(self, sql: str, **values: Any) -> Facts:
        cursor = self._connection.execute(sql, values)
        row = cursor.fetchone()
        if row is None:
            return {}
        return dict(zip((column[0] for column in cursor.description), row, strict=True))


def _capability(major: int | None, minor: int | None) -> Capability:
    return ASSUMED_CAPABILITY if major is None else (int(major), int(minor or 0))
