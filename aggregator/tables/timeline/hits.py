"""Events of a timeline that a search, an op, a kernel or another row of a table selects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Final, Self

import numpy as np

from aggregator.errors import InvalidValueError
from aggregator.profile.arrays import Bool, Int32, Int64
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.counts import QueryCache
from aggregator.tables.timeline.items import Items, Label, joined
from aggregator.tables.timeline.stored import StoredLane, StoredTimeline
from aggregator.texts import say

MOST_HITS: Final = 2_000_000
"""Events of a selection that can be stepped through; more are counted only."""
_MOST_KEPT: Final = 4_000_000


@dataclass(frozen=True)
class Selection:
    """Which events are wanted; each field that is not empty is a condition."""

    op: str = ""  # Op ID.
    op_type: str = ""  # Type of the op.
    group: str = ""  # Beginning of the path of the op, with a slash at its end.
    kernel: str = ""  # Full, short or readable name of a kernel.
    # Part of any name of the event or its op, or of its op's id; case does not matter.
    search: str = ""
    iteration: str = ""  # Only events that begin in this iteration.

    @classmethod
    def of(cls, params: Mapping[str, str]) -> Self | None:
        """The selection that a request names; None: it names none."""
        given = {name: params.get(name, "") for name in NAMES}
        return cls(**given) if any(given.values()) else None


NAMES: Final = tuple(field.name for field in fields(Selection))
"""Names of the parameters of a selection."""


@dataclass(frozen=True)
class Hits:
    """Selected events in order of start."""

    count: int  # All of them, also where there are too many to list.
    lanes: tuple[str, ...]  # Keys of lanes.
    lane: Int32  # Index into them, by event.
    items: Items

    def __len__(self) -> int:
        return len(self.items)

    def of_lane(self, key: str) -> Items:
        """The events in one lane."""
        number = self.lanes.index(key) if key in self.lanes else -1
        return self.items.rows(np.flatnonzero(self.lane == number))


_hits: QueryCache[Hits] = QueryCache(_MOST_KEPT, lambda found: len(found) + 1_000)


def find_hits(data: AggregationData, stored: StoredTimeline, wanted: Selection) -> Hits:
    """The events of a selection: work of GPUs; ops and calls where there is no such work.

    A search finds events of all kinds.

    Raises:
        InvalidValueError: The iteration is none.
        DatabaseError: The database is damaged.
    """
    params = {"aggr_id": data.params["aggr_id"], **vars(wanted)}
    return _hits.get(data.database.state, "hits", params, lambda: _find(data, stored, wanted))


def _find(data: AggregationData, stored: StoredTimeline, wanted: Selection) -> Hits:
    labels = _labels(data, stored, wanted)
    kinds = [{"work", "ops", "calls", "waits"}] if wanted.search else [{"work"}, {"ops"}, {"calls"}]
    low_ns, high_ns = _bounds(data, stored, wanted.iteration)
    hits = Hits(0, (), np.zeros(0, dtype=np.int32), joined([]))
    for chosen in kinds:
        lanes = [lane for lane in stored.lanes.values() if lane.kind in chosen]
        hits = _collect(lanes, labels, (low_ns, high_ns))
        if hits.count:
            break
    return hits


def _collect(lanes: list[StoredLane], labels: Bool, bounds: tuple[int, int]) -> Hits:
    count = sum(number for lane in lanes for label, number in lane.labels if labels[label])
    if count > MOST_HITS and bounds[0] == _FIRST:
        return Hits(count, (), np.zeros(0, dtype=np.int32), joined([]))
    parts: list[Items] = []
    numbers: list[int] = []
    for number, lane in enumerate(lanes):
        for items in lane.labeled(labels, *bounds):
            kept = (items.start_ns >= bounds[0]) & (items.start_ns < bounds[1])
            parts.append(items.rows(kept))
            numbers.append(number)
    lane_of = np.repeat(np.array(numbers, dtype=np.int32), [len(part) for part in parts])
    items = joined(parts)
    order = np.lexsort((lane_of, items.start_ns))[:MOST_HITS]
    keys = tuple(lane.key for lane in lanes)
    return Hits(len(items), keys, lane_of[order], items.rows(order))


_FIRST: Final = -(2**63)
_LAST: Final = 2**63 - 1


def _bounds(data: AggregationData, stored: StoredTimeline, iteration: str) -> tuple[int, int]:
    """Times between which events begin, from the origin of the timeline."""
    if not iteration:
        return _FIRST, _LAST
    sql = (
        "SELECT start_time, stop_time FROM view_iterations_all"
        " WHERE aggr_id = :aggr_id AND iter_value = :number"
    )
    is_number = iteration.isascii() and iteration.isdecimal() and len(iteration) < 10
    params = {"aggr_id": data.params["aggr_id"], "number": int(iteration) if is_number else -1}
    found = data.database.rows(sql, params)
    if not found:
        raise InvalidValueError(
            say("The profile has no iteration {iteration}.", iteration=iteration)
        )
    return int(found[0][0]) - stored.origin_ns, int(found[0][1]) - stored.origin_ns


def _labels(data: AggregationData, stored: StoredTimeline, wanted: Selection) -> Bool:
    conditions = list(_conditions(data, wanted))
    return np.array(
        [all(fits(label) for fits in conditions) for label in stored.labels], dtype=bool
    )


def _conditions(data: AggregationData, wanted: Selection) -> Iterator[Callable[[Label], bool]]:
    if wanted.op:
        yield lambda label: label.op_id == wanted.op
    if wanted.op_type:
        yield lambda label: label.op_id is not None and label.op_type == wanted.op_type
    if wanted.group:
        ids = _ops_in(data, wanted.group)
        yield lambda label: label.op_id in ids
    if wanted.kernel:
        kernels = _kernels(data, "{name} = :text", wanted.kernel)
        yield lambda label: label.full_name in kernels
    if wanted.search:
        text = wanted.search.lower()
        found = _kernels(data, "instr(lower({name}), :text)", text)
        yield (
            lambda label: (
                label.full_name in found
                or any(
                    text in name.lower() for name in (label.name, label.op_id or "", label.op_name)
                )
            )
        )


def _ops_in(data: AggregationData, group: str) -> frozenset[str]:
    sql = (
        "SELECT op_node_id FROM view_op_nodes WHERE aggr_id = :aggr_id"
        " AND substr(op_node_name || '/', 1, length(:group)) = :group"
    )
    params = {"aggr_id": data.params["aggr_id"], "group": group}
    return frozenset(str(row[0]) for row in data.database.rows(sql, params))


def _kernels(data: AggregationData, condition: str, text: str) -> frozenset[str]:
    names = ("readable_name", "name", "long_name")
    where = " OR ".join(condition.format(name=name) for name in names)
    sql = f"SELECT long_name FROM kernel_names WHERE {where}"  # noqa: S608
    return frozenset(str(row[0]) for row in data.database.rows(sql, {"text": text}))


def hit_at(hits: Hits, time_ns: int) -> int:
    """Number of the first hit that begins at a time or later; that of the first, if none does."""
    place = int(np.searchsorted(hits.items.start_ns, time_ns, side="left"))
    return place if place < len(hits) else 0


def chosen_hits(hits: Hits) -> dict[str, int]:
    """Numbers of the first, the longest and the median hit."""
    if not len(hits):
        return {}
    time: Int64 = hits.items.busy_ns
    by_time = np.argsort(time, kind="stable")
    return {
        "first": 0,
        "longest": int(np.argmax(time)),
        "median": int(by_time[(len(hits) - 1) // 2]),
    }
