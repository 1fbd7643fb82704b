"""One event of a timeline: what is known of it, and the events that it belongs to."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Final

import numpy as np
from msgspec import UNSET, UnsetType

from aggregator.dldb.event_reader import EventRows, Launched
from aggregator.kernels.tensor_cores import Capability
from aggregator.kernels.traits import ASSUMED_CAPABILITY, kernel_traits
from aggregator.profile.arrays import Bool
from aggregator.system.replies import doc
from aggregator.tables.timeline.events import Category
from aggregator.tables.timeline.items import Items
from aggregator.tables.timeline.range_totals import CategoryCode, RangeEvent
from aggregator.tables.timeline.stored import StoredTimeline

MOST_LAUNCHED: Final = 50
"""Work of one call that is shown: a CUDA graph launches thousands of kernels."""
_OP: Final = """
    SELECT op_id, op_name, op_type, direction, data_type, tc_support_status = 0 AS tc_eligible,
           tc_fit_reason, name_reason, id AS op_row, forward FROM ops WHERE id = :id
"""
_PLACE: Final = """
    SELECT 1 + (SELECT count(*) FROM op_metrics AS b WHERE b.aggr = a.aggr
                AND b.gpu_time_sum > a.gpu_time_sum) AS place,
           (SELECT count(*) FROM op_metrics AS b WHERE b.aggr = a.aggr) AS of_ops,
           100.0 * gpu_time_sum / (SELECT nullif(sum(gpu_time_sum), 0) FROM op_metrics AS b
                                   WHERE b.aggr = a.aggr) AS share_pct
    FROM op_metrics AS a WHERE a.aggr = :aggr AND a.op = :id
"""
Facts = dict[str, Any]


class RelatedEvent(RangeEvent, kw_only=True):
    """An event that another one belongs to."""

    relation: Annotated[
        str,
        doc(
            "launched by, launched, op (in which it was launched), forward or backward (the same "
            "call of the op in the other direction)."
        ),
    ]
    category: CategoryCode
    op_type: str


class TimelineEvent(RangeEvent, kw_only=True):
    """One event; what is not known, or is not of its kind, is left out or null."""

    category: CategoryCode
    op_type: str
    related: list[RelatedEvent]
    op_name: str | UnsetType = UNSET
    module: Annotated[str | UnsetType, doc("Path of the op without its last part.")] = UNSET
    direction: str | UnsetType = UNSET
    data_type: Annotated[str | UnsetType, doc("Element type; empty: not recorded.")] = UNSET
    input_shapes: str | UnsetType | None = UNSET
    output_shapes: str | UnsetType | None = UNSET
    tc_eligible: Annotated[bool | UnsetType, doc("Whether the op can use Tensor Cores.")] = UNSET
    tc_fit_reason: Annotated[str | UnsetType, doc("Why.")] = UNSET
    name_reason: Annotated[str | UnsetType, doc("How it is known that it is of the op.")] = UNSET
    place: Annotated[int | UnsetType, doc("Of the op by GPU time, from 1.")] = UNSET
    of_ops: Annotated[int | UnsetType, doc("Number of ops.")] = UNSET
    share_pct: Annotated[float | UnsetType | None, doc("Of the GPU time of all ops.")] = UNSET
    long_name: Annotated[str | UnsetType, doc("Full name of the kernel.")] = UNSET
    readable_name: str | UnsetType = UNSET
    source_ops: Annotated[str | UnsetType, doc("Ops that TorchInductor fused into it.")] = UNSET
    grid: str | UnsetType = UNSET
    block: str | UnsetType = UNSET
    uses_tc: bool | UnsetType | None = UNSET
    tc_evidence: Annotated[str | UnsetType, doc("What in the name of the kernel says so.")] = UNSET
    bytes: Annotated[int | UnsetType | None, doc("Moved or set.")] = UNSET
    host_memory: Annotated[str | UnsetType, doc("pageable, pinned or empty.")] = UNSET
    api_start_ns: Annotated[int | UnsetType, doc("Start of the launching call. Unit: ns.")] = UNSET
    api_time_ns: Annotated[int | UnsetType, doc("Its duration; 0: not recorded.")] = UNSET
    correlation_id: int | UnsetType = UNSET
    gpu_time_ns: Annotated[int | UnsetType, doc("Of this execution of the op.")] = UNSET
    cpu_time_ns: Annotated[int | UnsetType, doc("Of this execution of the op.")] = UNSET
    value: Annotated[int | UnsetType, doc("Of a sample; percent in hundredths.")] = UNSET
    unit: Annotated[str | UnsetType, doc("Of a sample: bytes or percent.")] = UNSET


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
        self._events = EventRows(connection)

    def read(self, key: str, start_ns: int, row: int) -> TimelineEvent | None:
        """Return all about the event of a lane with a start and a row id, or None if there is none.

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
            known = self._events.op_call(row)
        elif row > 0 and lane.kind in {"calls", "waits"}:
            known = self._events.call(row)
        related = list(self._related(lane.kind, row, known)) if known else []
        return TimelineEvent(**(event | self._about(known)), related=related)

    def _about(self, known: Facts) -> Facts:
        """Return what the page shows, without the rows that link the tables."""
        facts: Facts = {}
        if known.get("op"):
            facts |= self._events.one(_OP, known["op"])
            facts |= self._events.one(_PLACE, known["op"], aggr=self._aggregation)
            facts["module"] = str(facts.get("op_name", "")).rpartition("/")[0]
        if known.get("instance"):
            shapes = self._events.op_call(known["instance"])
            facts |= {name: shapes.get(name) for name in ("input_shapes", "output_shapes")}
        if "tc_eligible" in facts:
            facts["tc_eligible"] = bool(facts["tc_eligible"])
        shown = {_SHOWN.get(name, name): value for name, value in (facts | known).items()}
        return {name: value for name, value in shown.items() if name}

    def _work(self, category: int, row: int) -> Facts:
        if category == Category.GRAPH:
            return self._events.graph(row)
        if category in {Category.COPY, Category.SET}:
            return self._events.memory_op(row)
        found = self._events.kernel(row)
        if not found:
            return found
        verdict = found.pop("tc_verdict")
        gpu = _capability(found["cuda_major"], found["cuda_minor"])
        found["uses_tc"] = None if verdict is None else bool(verdict)
        found["tc_evidence"] = kernel_traits(found["long_name"]).tensor_cores(gpu).evidence
        return found

    def _related(self, kind: str, row: int, known: Facts) -> Iterator[RelatedEvent]:
        if kind == "work":
            yield from self._launching_call(known)
        if kind in {"calls", "waits"}:
            yield from self._launched(self._events.launched_by(known, MOST_LAUNCHED))
        if kind in {"ops", "loader"}:
            yield from self._launched(self._events.kernels_of(row, MOST_LAUNCHED))
        elif known.get("instance"):
            yield from self._placed("op", "ops", self._events.place_of(known["instance"]))
        if known.get("instance"):
            yield from self._partners(int(known["op"]), int(known["instance"]))

    def _launching_call(self, known: Facts) -> Iterator[RelatedEvent]:
        if not known["api_duration"]:
            return
        threads = self._rows("SELECT id FROM threads WHERE process = ?", known["process"])
        for (thread,) in threads:
            for kind in ("calls", "waits"):
                found = self._find(
                    f"thread{thread}.{kind}", known["api_start"], known["api_duration"], None
                )
                if found is not None:
                    yield RelatedEvent(relation="launched by", **found)
                    return

    def _launched(self, work: Iterable[Launched]) -> Iterator[RelatedEvent]:
        for row, device, process, stream, start in work:
            found = self._find(f"gpu{device}.{process}.{stream}", start, None, row)
            if found is not None:
                yield RelatedEvent(relation="launched", **found)

    def _partners(self, op: int, instance: int) -> Iterator[RelatedEvent]:
        forward = self._rows("SELECT forward FROM ops WHERE id = ?", op)[0][0]
        backward = self._rows("SELECT id FROM ops WHERE forward = ? LIMIT 10", op)
        others = [(forward, "forward")] if forward is not None else []
        others += [(row[0], "backward") for row in backward]
        for other, relation in others:
            found = self._events.same_call(op, int(other), instance)
            if found is not None:
                yield from self._placed(relation, "ops", found)

    def _placed(
        self, relation: str, kind: str, where: tuple[int, int, int] | None
    ) -> Iterator[RelatedEvent]:
        """Yield an execution of an op by thread, start and row id, where it is in the timeline."""
        if where is None:
            return
        thread, start, row = where
        found = self._find(f"thread{thread}.{kind}", start, None, row)
        if found is not None:
            yield RelatedEvent(relation=relation, **found)

    def _find(
        self, prefix: str, start_ns: int, duration_ns: int | None, row: int | None
    ) -> Facts | None:
        """Return the event of a start and a duration or row id in the lanes of a prefix."""
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


def _capability(major: int | None, minor: int | None) -> Capability:
    return ASSUMED_CAPABILITY if major is None else (int(major), int(minor or 0))
