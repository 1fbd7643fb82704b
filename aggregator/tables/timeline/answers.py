"""What a timeline answers: its lanes, what they show of some time, and the totals of a range."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from aggregator.errors import InvalidValueError
from aggregator.profile.arrays import Int64, dense_codes
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.timeline.items import Items, joined
from aggregator.tables.timeline.levels import LARGEST_SHIFT
from aggregator.tables.timeline.prepared import prepared_timeline
from aggregator.tables.timeline.stored import StoredLane, StoredTimeline
from aggregator.texts import say

TILE_BINS: Final = 512
MOST_PIXELS: Final = 8_192
MOST_LISTED: Final = 100  # Ops and events of a range.
NOT_RECORDED = say("The database holds no single events: it was not written by this program.")


class TimelineAnswers:
    """Answers questions about the timeline of one aggregation.

    Raises:
        DatabaseError: The database is damaged.
    """

    def __init__(self, data: AggregationData, folder: Path | None = None) -> None:
        self._stored: StoredTimeline | None = None
        if data.database.is_ours:
            self._stored = prepared_timeline(data, folder)

    @property
    def version(self) -> str:
        """Changes with the state of the database."""
        state = "" if self._stored is None else self._stored.state
        return hashlib.sha256(state.encode()).hexdigest()[:16]

    def lanes(self) -> dict[str, Any]:
        """The lanes, without their events, and the labels of all events."""
        stored = self._stored
        if stored is None or stored.stop_ns is None:
            unknown = {"lanes": NOT_RECORDED} if stored is None else {}
            return {
                "version": self.version,
                "tile_bins": TILE_BINS,
                "start_ns": None,
                "stop_ns": None,
                "lanes": [],
                "labels": {"name": [], "category": [], "op": []},
                "names": [],
                "unknown": unknown,
            }
        names: dict[str, int] = {}
        code = [names.setdefault(label.name, len(names)) for label in stored.labels]
        op = [
            -1 if label.op_id is None else names.setdefault(label.op_id, len(names))
            for label in stored.labels
        ]
        return {
            "version": self.version,
            "start_ns": stored.origin_ns,
            "stop_ns": stored.origin_ns + stored.stop_ns,
            "tile_bins": TILE_BINS,
            "lanes": [
                {
                    **{name: getattr(lane, name) for name in ("key", "kind", "group", "title")},
                    "num_events": lane.num_events,
                    "busy_ns": lane.busy_ns,
                }
                for lane in stored.lanes.values()
            ],
            "names": list(names),
            "labels": {
                "name": code,
                "op": op,
                "category": [label.category for label in stored.labels],
            },
            "unknown": {},
        }

    def tiles(self, keys: Sequence[str], shift: int, number: int) -> bytes:
        """One tile of each of some lanes, as columns.

        A tile shows ``TILE_BINS`` bins of ``2**shift`` ns; the first one begins at the origin. The
        reply is the length of a JSON text (4 bytes), the text (``counts``: number of items of each
        lane) filled up with spaces to a multiple of 8 bytes, then the columns of all lanes: start
        and duration after the start of the tile and busy time in ns as float64; count, label and
        row as int32. All numbers are little-endian.

        Raises:
            InvalidValueError: There is no such lane or tile.
        """
        if not 0 <= shift <= LARGEST_SHIFT or not 0 <= number < 2**62 >> min(shift + 9, 62):
            raise InvalidValueError(say("The timeline has no such tile."))
        first = number * TILE_BINS
        parts = [lane.shown(shift, first, first + TILE_BINS) for _, lane in self._chosen(keys)]
        items = joined(parts)
        low_ns = first << shift
        head = json.dumps({"counts": [len(part) for part in parts]}).encode()
        head += b" " * (-(len(head) + 4) % 8)
        wide = (items.start_ns - low_ns, items.stop_ns - items.start_ns, items.busy_ns)
        narrow = (items.count, items.label, items.row)
        return b"".join(
            [
                *(len(head).to_bytes(4, "little"), head),
                *(column.astype("<f8").tobytes() for column in wide),
                *(column.astype("<i4").tobytes() for column in narrow),
            ]
        )

    def items(self, keys: Sequence[str], low_ns: int, high_ns: int, pixels: int) -> dict[str, Any]:
        """What lanes show of some time at some width.

        Args:
            keys: Lanes.
            low_ns: Start of the time shown. The bins of the nearest grid around the time are shown.
            high_ns: Its end.
            pixels: Width; events that are shorter than about a pixel are joined into runs.

        Raises:
            InvalidValueError: A lane is unknown, or the time is none.
        """
        if not 1 <= pixels <= MOST_PIXELS:
            raise InvalidValueError(say("pixels must be from 1 to {most}.", most=MOST_PIXELS))
        lanes = self._chosen(keys, low_ns, high_ns)
        origin_ns = self._origin_ns
        shift = min(max((high_ns - low_ns) // pixels, 1).bit_length() - 1, LARGEST_SHIFT)
        first, last = (low_ns - origin_ns) >> shift, -((origin_ns - high_ns) >> shift)
        shown = {key: lane.shown(shift, first, last) for key, lane in lanes}
        low_ns = origin_ns + (first << shift)
        used = np.unique(np.concatenate([items.label for items in shown.values()]))
        labels = [] if self._stored is None else [self._stored.labels[code] for code in used]
        names: dict[str, int] = {}
        name = np.array([names.setdefault(one.name, len(names)) for one in labels], dtype=np.int64)
        op = np.array(
            [
                -1 if one.op_id is None else names.setdefault(one.op_id, len(names))
                for one in labels
            ],
            dtype=np.int64,
        )
        category = np.array([one.category for one in labels], dtype=np.int64)
        return {
            "start_ns": low_ns,
            "stop_ns": origin_ns + (last << shift),
            "bin_ns": 1 << shift,
            "names": list(names),
            "lanes": [
                {
                    "key": key,
                    "offset_ns": (items.start_ns - (first << shift)).tolist(),
                    "duration_ns": (items.stop_ns - items.start_ns).tolist(),
                    "count": items.count.tolist(),
                    "busy_ns": items.busy_ns.tolist(),
                    "name": name[np.searchsorted(used, items.label)].tolist(),
                    "op": op[np.searchsorted(used, items.label)].tolist(),
                    "category": category[np.searchsorted(used, items.label)].tolist(),
                    "row_id": items.row.tolist(),
                }
                for key, items in shown.items()
            ],
        }

    def range(self, keys: Sequence[str], low_ns: int, high_ns: int) -> dict[str, Any]:
        """Totals of some time by kind of work and by op, and its longest events.

        Times are those within the range: events are cut at its ends.

        Raises:
            InvalidValueError: A lane is unknown, or the time is none.
        """
        lanes = self._chosen(keys, low_ns, high_ns)
        low, high = low_ns - self._origin_ns, high_ns - self._origin_ns
        work = joined([lane.events(low, high) for _, lane in lanes if lane.kind == "work"])
        time_ns = np.minimum(work.stop_ns, high) - np.maximum(work.start_ns, low)
        longest = [row for _, lane in lanes for row in self._longest(lane, low, high)]
        num_events = sum(lane.num_events_between(low, high) for _, lane in lanes)
        return {
            "start_ns": low_ns,
            "stop_ns": high_ns,
            "categories": self._categories(work, time_ns),
            "ops": self._ops(work, time_ns),
            "num_events": num_events,
            "events": sorted(longest, key=lambda row: (-row["duration_ns"], row["start_ns"]))[
                :MOST_LISTED
            ],
        }

    @property
    def _origin_ns(self) -> int:
        return 0 if self._stored is None else self._stored.origin_ns

    def _categories(self, work: Items, time_ns: Int64) -> list[dict[str, Any]]:
        if self._stored is None:
            return []
        return [
            {"category": code, "num_events": count, "time_ns": total}
            for code, count, total in _sums(self._stored.category_of_label[work.label], time_ns)
        ]

    def _ops(self, work: Items, time_ns: Int64) -> list[dict[str, Any]]:
        if self._stored is None:
            return []
        op_ids, codes = self._stored.op_ids
        return [
            {"op_id": op_ids[code], "num_events": count, "time_ns": total}
            for code, count, total in _sums(codes[work.label], time_ns)
            if code >= 0
        ][:MOST_LISTED]

    def _longest(self, lane: StoredLane, low: int, high: int) -> Iterator[dict[str, Any]]:
        if self._stored is None:
            return
        found = lane.longest(low, high, MOST_LISTED)
        columns = (found.start_ns, found.busy_ns, found.label)
        for start, duration, label in zip(*(one.tolist() for one in columns), strict=True):
            yield {
                "lane": lane.key,
                "name": self._stored.labels[label].name,
                "op_id": self._stored.labels[label].op_id,
                "start_ns": self._origin_ns + start,
                "duration_ns": duration,
            }

    def _chosen(
        self, keys: Sequence[str], low_ns: int = 0, high_ns: int = 1
    ) -> list[tuple[str, StoredLane]]:
        if low_ns >= high_ns:
            raise InvalidValueError(say("stop_ns must be after start_ns."))
        lanes = {} if self._stored is None else self._stored.lanes
        unknown = [key for key in keys if key not in lanes]
        if unknown:
            raise InvalidValueError(say("The timeline has no lane {key!r}.", key=unknown[0]))
        return [(key, lanes[key]) for key in keys]


def _sums(codes: Int64, time_ns: Int64) -> list[tuple[int, int, int]]:
    """Code, number and time of the rows of each code, most time first."""
    values, dense = dense_codes(codes)
    count = np.bincount(dense, minlength=len(values))
    total = np.zeros(len(values), dtype=np.int64)
    np.add.at(total, dense, time_ns)
    order = np.lexsort((values, -total))
    columns = (values[order], count[order], total[order])
    return list(zip(*(column.tolist() for column in columns), strict=True))
