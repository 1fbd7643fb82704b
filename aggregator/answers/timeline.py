"""What a timeline answers: its lanes, what they show of some time, and what is selected."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from aggregator.errors import EventNotFoundError, InvalidValueError
from aggregator.system.replies import Unknown, doc
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.timeline.details import EventDetails, TimelineEvent
from aggregator.tables.timeline.hits import Hits, Selection, chosen_hits, find_hits, hit_at
from aggregator.tables.timeline.items import Items, joined
from aggregator.tables.timeline.levels import LARGEST_SHIFT, shown_items
from aggregator.tables.timeline.path import PATH_KEY, has_path, path_lane
from aggregator.tables.timeline.prepared import prepared_timeline
from aggregator.tables.timeline.range_totals import RangeEvent, TimelineRange, range_totals
from aggregator.tables.timeline.stored import StoredLane, StoredTimeline
from aggregator.texts import say

TILE_BINS: Final = 512
MOST_LANES: Final = 500
NOT_RECORDED = say("The database holds no single events: it was not written by this program.")
_ABOVE_PATH: Final = frozenset({"iterations", "key", "advice"})


class Scale(Struct):
    """What the rows of a counter's items mean: values, of joined samples the largest."""

    unit: Annotated[str, doc("bytes or percent.")]
    step: Annotated[int, doc("A row is so many units; percent in hundredths.")]
    most: Annotated[int, doc("Largest row.")]


class Lane(Struct, kw_only=True):
    """A row of a timeline."""

    key: Annotated[str, doc("Its name in the address of its items.")]
    kind: Annotated[
        str,
        doc(
            "iterations, key (node), advice, path (the critical one), idle, work (of a GPU), "
            "modules, ops, loader, calls, waits (calls that block) or counter."
        ),
    ]
    group: Annotated[str, doc("The GPU or thread that it belongs to.")]
    title: Annotated[str, doc("Empty: it continues the lane before.")]
    num_events: Annotated[
        int | None, doc("null: the lane is computed when its tiles are asked for.")
    ]
    busy_ns: Annotated[int | None, doc("Sum of the durations of its events.")]
    scale: Annotated[Scale | None, doc("Of a counter; null: it is none.")]
    is_in_steps: Annotated[bool, doc("Whether it has events in the aggregated iterations.")] = True


class TimelineLabels(Struct):
    """What events are: columns of one length. Tiles have indices into them."""

    name: Annotated[list[int], doc("Index into names.")]
    category: Annotated[list[int], doc("As in the items of a timeline.")]
    op: Annotated[list[int], doc("Index of the op's id in names, or -1 outside ops.")]
    op_type: Annotated[list[int], doc("Index of the op's type in names, or -1 outside ops.")]


class Timeline(Struct, kw_only=True):
    """The lanes of an aggregation's timeline."""

    version: Annotated[str, doc("Changes with the profile; tiles are asked for with it.")]
    tile_bins: Annotated[int, doc("Bins of a tile.")] = TILE_BINS
    names: list[str]
    labels: TimelineLabels
    start_ns: Annotated[int | None, doc("First event.")]
    stop_ns: Annotated[int | None, doc("End of the last event.")]
    lanes: list[Lane]
    median_start_ns: Annotated[
        int | None, doc("Start of the three aggregated steps in a row of median time.")
    ] = None
    median_stop_ns: Annotated[int | None, doc("End of these steps.")] = None
    unknown: Unknown


class Hit(RangeEvent, kw_only=True):
    """A selected event."""

    number: Annotated[int, doc("Its place among the selected events by start, from 0.")]


class HitLane(Struct):
    """A lane with selected events."""

    key: str
    num_events: int


class TimelineHits(Struct, kw_only=True):
    """Selected events."""

    count: int
    is_listed: Annotated[bool, doc("False: there are too many to step through.")]
    time_ns: Annotated[int, doc("Sum of the durations of the listed events.")]
    lanes: list[HitLane]
    event: Annotated[Hit | None, doc("The one that was asked for.")]
    first: Hit | None = None
    longest: Hit | None = None
    median: Annotated[Hit | None, doc("The one of median duration.")] = None


SELECTION: Final = {
    "op": "Only events of the op with this Op ID.",
    "op_type": "Only events of ops of this type.",
    "group": "Only events of ops below this path, with a slash at its end.",
    "kernel": "Only launches of the kernel with this full, short or readable name.",
    "search": "Only events with this text in one of their names or in the op's, ignoring case.",
    "iteration": "Only events that begin in the iteration of this number.",
}
"""Parameters that select events."""


def read_lanes(data: AggregationData, *, folder: Path | None = None) -> Timeline:
    """Iterations, streams of GPUs, and modules, ops and CUDA calls of threads."""
    return TimelineAnswers(data, folder).lanes()


def read_range(
    data: AggregationData,
    *,
    lanes: Annotated[
        str | None, doc("Keys of lanes, separated by commas; all if left out.")
    ] = None,
    start_ns: Annotated[int, doc("Start of the time.")],
    stop_ns: Annotated[int, doc("Its end.")],
    folder: Path | None = None,
) -> TimelineRange:
    """GPU time by kind of work and by op within the time, and its longest events."""
    keys = None if lanes is None else lane_keys(lanes)
    return TimelineAnswers(data, folder).range(keys, start_ns, stop_ns)


def read_hits(
    data: AggregationData,
    *,
    selection: Annotated[Mapping[str, str], SELECTION],
    after_ns: Annotated[
        int | None, doc("event is the first one that begins then or later.")
    ] = None,
    number: Annotated[int | None, doc("event is the one of this number, from 0.", least=0)] = None,
    folder: Path | None = None,
) -> TimelineHits:
    """Their number, the first, the longest and the median one, and one to step to.

    Work of GPUs is selected; ops, else calls, where there is no such work. A search selects
    events of all of these kinds.
    """
    wanted = Selection.of(selection)
    if wanted is None:
        raise InvalidValueError(
            say("Nothing is selected: give one of {names}.", names=", ".join(SELECTION))
        )
    return TimelineAnswers(data, folder).hits(wanted, after_ns, number)


def read_event(
    data: AggregationData,
    *,
    lane: Annotated[str, doc("Key of its lane.")],
    start_ns: Annotated[int, doc("Its start.")],
    row_id: Annotated[int, doc("Its row id, as tiles have it.")],
    folder: Path | None = None,
) -> TimelineEvent:
    """What is known of it, the call that launched it, its partner in the other direction.

    Raises:
        EventNotFoundError: There is no such event.
        InvalidValueError: The lane is unknown.
    """
    found = TimelineAnswers(data, folder).event(lane, start_ns, row_id)
    if found is None:
        raise EventNotFoundError(say("The timeline has no such event."))
    return found


def lane_keys(text: str) -> list[str]:
    """Read the keys of lanes of a request.

    Raises:
        InvalidValueError: There are none, or too many.
    """
    lanes = list(dict.fromkeys(filter(None, text.split(","))))
    if not 1 <= len(lanes) <= MOST_LANES:
        raise InvalidValueError(
            say("lanes must name 1 to {most} lanes of the timeline.", most=MOST_LANES)
        )
    return lanes


class TimelineAnswers:
    """Answers questions about the timeline of one aggregation.

    Raises:
        DatabaseError: The database is damaged.
    """

    def __init__(self, data: AggregationData, folder: Path | None = None) -> None:
        self._data = data
        self._stored: StoredTimeline | None = None
        if data.database.is_ours:
            self._stored = prepared_timeline(data, folder)

    @property
    def version(self) -> str:
        """Changes with the state of the database."""
        state = "" if self._stored is None else self._stored.state
        return hashlib.sha256(state.encode()).hexdigest()[:16]

    def lanes(self) -> Timeline:
        """The lanes, without their events, and the labels of all events."""
        stored = self._stored
        if stored is None or stored.end_ns is None:
            return Timeline(
                version=self.version,
                start_ns=None,
                stop_ns=None,
                lanes=[],
                labels=TimelineLabels([], [], [], []),
                names=[],
                unknown={"lanes": NOT_RECORDED} if stored is None else {},
            )
        names: dict[str, int] = {}
        code, op, op_type = (
            [-1 if text is None else names.setdefault(text, len(names)) for text in texts]
            for texts in (
                [label.name for label in stored.labels],
                [label.op_id for label in stored.labels],
                [label.op_type or None for label in stored.labels],
            )
        )
        category = [label.category for label in stored.labels]
        steps = self._steps()
        low_ns, high_ns = _opening(steps)
        return Timeline(
            version=self.version,
            start_ns=stored.origin_ns,
            stop_ns=stored.origin_ns + stored.end_ns,
            lanes=self._shown_lanes(stored, steps),
            median_start_ns=low_ns,
            median_stop_ns=high_ns,
            names=list(names),
            labels=TimelineLabels(name=code, op=op, op_type=op_type, category=category),
            unknown={},
        )

    def _steps(self) -> list[tuple[int, int]]:
        sql = (
            "SELECT start_time, stop_time FROM view_iterations_all WHERE aggr_id = :aggr_id"
            " AND is_aggregated = 1 ORDER BY start_time"
        )
        rows = self._data.database.rows(sql, {"aggr_id": self._data.params["aggr_id"]})
        return [(int(start), int(stop)) for start, stop in rows]

    def _shown_lanes(self, stored: StoredTimeline, steps: list[tuple[int, int]]) -> list[Lane]:
        """All lanes; the critical path, which is found when it is asked for, comes after advice."""
        times = [time_ns - stored.origin_ns for step in steps for time_ns in step]
        low_ns, high_ns = min(times, default=0), max(times, default=0)
        lanes = [
            replace(
                msgspec.convert(lane, Lane, from_attributes=True),
                is_in_steps=not steps or lane.num_events_between(low_ns, high_ns) > 0,
            )
            for lane in stored.lanes.values()
        ]
        if has_path(self._data):
            place = sum(lane.kind in _ABOVE_PATH for lane in lanes)
            path = Lane(
                key=PATH_KEY,
                kind="path",
                group="",
                title="Critical path",
                num_events=None,
                busy_ns=None,
                scale=None,
            )
            lanes.insert(place, path)
        return lanes

    def tiles(
        self, keys: Sequence[str], shift: int, number: int, wanted: Selection | None = None
    ) -> bytes:
        """One tile of each of some lanes, as columns.

        A tile shows ``TILE_BINS`` bins of ``2**shift`` ns; the first one begins at the origin. The
        reply is the length of a JSON text (4 bytes), the text (``counts``: number of items of each
        lane) filled up with spaces to a multiple of 8 bytes, then the columns of all lanes: start
        and duration after the start of the tile and busy time in ns as float64; count, label and
        row as int32. All numbers are little-endian.

        Args:
            keys: Lanes.
            shift: Width of a bin.
            number: Number of the tile.
            wanted: Only events of this selection; None: all.

        Raises:
            InvalidValueError: There is no such lane or tile.
        """
        if not 0 <= shift <= LARGEST_SHIFT or not 0 <= number < 2**62 >> min(shift + 9, 62):
            raise InvalidValueError(say("The timeline has no such tile."))
        first = number * TILE_BINS
        lanes = self._chosen(keys)
        if wanted is None:
            parts = [lane.shown(shift, first, first + TILE_BINS) for _, lane in lanes]
        else:
            hits = self._hits(wanted)
            parts = [
                shown_items(hits.of_lane(key), shift, first, first + TILE_BINS) for key, _ in lanes
            ]
        return _packed(parts, first << shift)

    def range(self, keys: Sequence[str] | None, low_ns: int, high_ns: int) -> TimelineRange:
        """As ``read_range``; ``keys`` None: all lanes that hold events of their own."""
        if low_ns >= high_ns:
            raise InvalidValueError(say("stop_ns must be after start_ns."))
        chosen = None if keys is None else [lane for _, lane in self._chosen(keys)]
        return range_totals(self._stored, chosen, low_ns, high_ns)

    def hits(self, wanted: Selection, after_ns: int | None, number: int | None) -> TimelineHits:
        """As ``read_hits``."""
        if self._stored is None:
            return TimelineHits(count=0, is_listed=True, time_ns=0, lanes=[], event=None)
        hits = self._hits(wanted)
        if number is not None and not 0 <= number < max(len(hits), 1):
            raise InvalidValueError(say("number must be from 0 to {last}.", last=len(hits) - 1))
        if after_ns is not None:
            number = hit_at(hits, after_ns - self._origin_ns)
        chosen = {"first": None, "longest": None, "median": None, **chosen_hits(hits)}
        counts = np.bincount(hits.lane, minlength=len(hits.lanes))
        return TimelineHits(
            count=hits.count,
            is_listed=len(hits) == hits.count,
            time_ns=int(hits.items.busy_ns.sum()),
            lanes=[
                HitLane(key, count)
                for key, count in zip(hits.lanes, counts.tolist(), strict=True)
                if count
            ],
            event=self._hit(hits, number),
            **{name: self._hit(hits, place) for name, place in chosen.items()},
        )

    def event(self, key: str, start_ns: int, row: int) -> TimelineEvent | None:
        """As ``read_event``; None: there is none like that."""
        self._chosen([key])
        stored, aggregation = self._stored, int(self._data.params["aggr_id"])
        if stored is None or key == PATH_KEY:
            return None
        return self._data.database.read_with(
            lambda connection: EventDetails(connection, stored, aggregation).read(
                key, start_ns, row
            )
        )

    def _hit(self, hits: Hits, number: int | None) -> Hit | None:
        if number is None or self._stored is None or not len(hits):
            return None
        items = hits.items
        label = self._stored.labels[int(items.label[number])]
        return Hit(
            number=number,
            lane=hits.lanes[int(hits.lane[number])],
            row_id=int(items.row[number]),
            name=label.name,
            op_id=label.op_id,
            start_ns=self._origin_ns + int(items.start_ns[number]),
            duration_ns=int(items.busy_ns[number]),
        )

    def _hits(self, wanted: Selection) -> Hits:
        if self._stored is None:
            return Hits(0, (), np.zeros(0, dtype=np.int32), joined([]))
        return find_hits(self._data, self._stored, wanted)

    @property
    def _origin_ns(self) -> int:
        return 0 if self._stored is None else self._stored.origin_ns

    def _chosen(self, keys: Sequence[str]) -> list[tuple[str, StoredLane]]:
        lanes: Mapping[str, StoredLane] = {} if self._stored is None else self._stored.lanes
        if PATH_KEY in keys and self._stored is not None and has_path(self._data):
            path = path_lane(self._data, self._stored)
            lanes = lanes if path is None else {**lanes, PATH_KEY: path}
        unknown = [key for key in keys if key not in lanes]
        if unknown:
            raise InvalidValueError(say("The timeline has no lane {key!r}.", key=unknown[0]))
        return [(key, lanes[key]) for key in keys]


def _opening(steps: Sequence[tuple[int, int]]) -> tuple[int | None, int | None]:
    """Return the three steps in a row whose time is the median of all such; fewer: all steps.

    Steps that alternate are both in them, while the median step may be like none of them.
    """
    if not steps:
        return None, None
    last = max(len(steps) - 2, 1)
    windows = [(steps[row][0], steps[min(row + 2, len(steps) - 1)][1]) for row in range(last)]
    by_length = sorted(windows, key=lambda window: window[1] - window[0])
    return by_length[(len(windows) - 1) // 2]


def _packed(parts: Sequence[Items], low_ns: int) -> bytes:
    items = joined(parts)
    head = json.dumps({"counts": [len(part) for part in parts]}).encode()
    head += b" " * (-(len(head) + 4) % 8)
    wide = (items.start_ns - low_ns, items.end_ns - items.start_ns, items.busy_ns)
    narrow = (items.count, items.label, items.row)
    return b"".join(
        [
            *(len(head).to_bytes(4, "little"), head),
            *(column.astype("<f8").tobytes() for column in wide),
            *(column.astype("<i4").tobytes() for column in narrow),
        ]
    )
