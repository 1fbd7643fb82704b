"""The timeline of an aggregation: its lanes, and what they show of some time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from django.http import FileResponse, HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from aggregator.errors import InvalidValueError
from aggregator.tables.timeline.events import Events, iteration_window
from aggregator.tables.timeline.hits import NAMES as SELECTION_NAMES
from aggregator.tables.timeline.hits import Selection
from aggregator.tables.timeline.levels import LARGEST_SHIFT
from aggregator.tables.timeline.perfetto import write_trace
from aggregator.tables.timeline.timeline_api import TimelineAnswers
from aggregator.texts import say
from viewer.api.schema import DOMAIN, ResourceView, query
from viewer.api.scope import open_event_scope, timeline_folder
from viewer.api.serializers.timeline import (
    TimelineEventSerializer,
    TimelineHitsSerializer,
    TimelineRangeSerializer,
    TimelineSerializer,
)
from viewer.api.tables import spooled
from viewer.errors import ViewerError

_MOST_LANES = 500
_KEPT = "private, max-age=3600"
"""A tile of a version of a timeline never changes."""
_LARGEST = 2**62
"""Times further out would overflow when they are counted from the start of a window."""


@contextmanager
def _timeline(request: Request, parts: dict[str, Any]) -> Iterator[TimelineAnswers]:
    with open_event_scope(request, parts) as scope:
        yield TimelineAnswers(scope.data, timeline_folder())


class TimelineView(ResourceView):
    """The lanes of a timeline."""

    query_names = ("domain",)

    @extend_schema(parameters=[DOMAIN], responses=TimelineSerializer)
    def get(self, request: Request, **parts: Any) -> Response:
        """Iterations, streams of GPUs, and modules, ops and CUDA calls of threads."""
        with _timeline(request, parts) as timeline:
            return Response(timeline.lanes())


_LANES = query("lanes", "Keys of lanes, separated by commas.", required=True)
_TIMES = (
    query("start_ns", "Start of the time.", "integer", required=True),
    query("stop_ns", "Its end.", "integer", required=True),
)
_SELECTION = (
    query("op", "Only events of the op with this Op ID."),
    query("op_type", "Only events of ops of this type."),
    query("group", "Only events of ops below this path, with a slash at its end."),
    query("kernel", "Only launches of the kernel with this full or short name."),
    query("search", "Only events whose name or Op ID contains this text, ignoring case."),
    query("iteration", "Only events that begin in the iteration of this number."),
)


class TimelineTilesView(ResourceView):
    """Tiles: what lanes show of one stretch of a grid."""

    query_names = ("domain", "lanes", "shift", "number", "version", *SELECTION_NAMES)

    @extend_schema(
        parameters=[
            DOMAIN,
            _LANES,
            query(
                "shift",
                "Bins of 2**shift ns: shorter events that begin in one bin are joined.",
                "integer",
                minimum=0,
                maximum=LARGEST_SHIFT,
                required=True,
            ),
            query("number", "Which tile; 0 is the first.", "integer", minimum=0, required=True),
            query("version", "The version of the timeline that the lanes are of.", required=True),
            *_SELECTION,
        ],
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, **parts: Any) -> HttpResponse:
        """Packed columns of each lane; times are counted from the start of the tile.

        The length of a JSON text (uint32), the text (``counts``: items of each lane) with spaces up
        to a multiple of 8 bytes, then columns of all lanes: start, duration and busy time in ns
        (float64), count, label and row id (int32); all little-endian.
        """
        params = request.query_params
        shift, number = (whole_number(name, params.get(name, "")) for name in ("shift", "number"))
        lanes = _lane_keys(request)
        with _timeline(request, parts) as timeline:
            if params.get("version") != timeline.version:
                raise ViewerError(
                    say("The profile has changed since its timeline was opened."),
                    "TIMELINE_CHANGED",
                    409,
                    hint=say("Load the page again."),
                )
            data = timeline.tiles(lanes, shift, number, Selection.of(params.dict()))
        response = HttpResponse(data, content_type="application/octet-stream")
        response.headers["Cache-Control"] = _KEPT
        return response


class TimelineRangeView(ResourceView):
    """Totals of some time."""

    query_names = ("domain", "lanes", "start_ns", "stop_ns")

    @extend_schema(
        parameters=[
            DOMAIN,
            query("lanes", "Keys of lanes, separated by commas; all if left out."),
            *_TIMES,
        ],
        responses=TimelineRangeSerializer,
    )
    def get(self, request: Request, **parts: Any) -> Response:
        """GPU time by kind of work and by op within the time, and its longest events."""
        low_ns, high_ns = _times(request)
        lanes = _lane_keys(request) if "lanes" in request.query_params else None
        with _timeline(request, parts) as timeline:
            return Response(timeline.range(lanes, low_ns, high_ns))


class TimelineHitsView(ResourceView):
    """Events that a search, an op or a kernel selects."""

    query_names = ("domain", "after_ns", "number", *SELECTION_NAMES)

    @extend_schema(
        parameters=[
            DOMAIN,
            *_SELECTION,
            query("after_ns", "event is the first one that begins then or later.", "integer"),
            query("number", "event is the one of this number, from 0.", "integer", minimum=0),
        ],
        responses=TimelineHitsSerializer,
    )
    def get(self, request: Request, **parts: Any) -> Response:
        """Their number, the first, the longest and the median one, and one to step to.

        Work of GPUs is selected; ops, else calls, where there is no such work. A search selects
        events of all of these kinds.
        """
        params = request.query_params.dict()
        wanted = Selection.of(params)
        if wanted is None:
            raise InvalidValueError(
                say("Nothing is selected: give one of {names}.", names=", ".join(SELECTION_NAMES))
            )
        after_ns, number = (
            whole_number(name, params[name]) if name in params else None
            for name in ("after_ns", "number")
        )
        with _timeline(request, parts) as timeline:
            return Response(timeline.hits(wanted, after_ns, number))


class TimelineEventView(ResourceView):
    """One event."""

    query_names = ("domain", "lane", "start_ns", "row_id")

    @extend_schema(
        parameters=[
            DOMAIN,
            query("lane", "Key of its lane.", required=True),
            query("start_ns", "Its start.", "integer", required=True),
            query("row_id", "Its row id, as tiles have it.", "integer", required=True),
        ],
        responses=TimelineEventSerializer,
    )
    def get(self, request: Request, **parts: Any) -> Response:
        """What is known of it, the call that launched it, its partner in the other direction."""
        params = request.query_params
        start_ns, row = (
            whole_number(name, params.get(name, "")) for name in ("start_ns", "row_id")
        )
        with _timeline(request, parts) as timeline:
            found = timeline.event(params.get("lane", ""), start_ns, row)
        if found is None:
            raise ViewerError(say("The timeline has no such event."), "EVENT_NOT_FOUND", 404)
        return Response(found)


class TimelineTraceView(ResourceView):
    """The profile as a Perfetto trace."""

    query_names = ("domain", "iter_start", "iter_stop")

    @extend_schema(
        parameters=[
            DOMAIN,
            query("iter_start", "First iteration; the first of all if left out.", "integer"),
            query("iter_stop", "Last iteration; the last of all if left out.", "integer"),
        ],
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, **parts: Any) -> FileResponse:
        """A file for https://ui.perfetto.dev, as ``dlprof export --format=perfetto`` writes it."""
        params = request.query_params
        bounds = [
            whole_number(name, params[name]) if name in params else None
            for name in ("iter_start", "iter_stop")
        ]
        with open_event_scope(request, parts) as scope:
            aggregation = int(scope.data.params["aggr_id"])
            window = scope.database.read_with(
                lambda found: iteration_window(found, aggregation, *bounds)
            )
            if window is None:
                raise InvalidValueError(say("The aggregation has none of these iterations."))

            def write(file: IO[bytes]) -> None:
                scope.database.read_with(
                    lambda found: write_trace(Events(found, window), aggregation, file)
                )

            name = f"{scope.header('timeline', 'Timeline').file_stem}.pftrace"
            return spooled(write, name, "application/octet-stream")


def _times(request: Request) -> tuple[int, int]:
    params = request.query_params
    low_ns, high_ns = (whole_number(name, params.get(name, "")) for name in ("start_ns", "stop_ns"))
    return low_ns, high_ns


def _lane_keys(request: Request) -> list[str]:
    params = request.query_params
    lanes = list(dict.fromkeys(filter(None, params.get("lanes", "").split(","))))
    if not 1 <= len(lanes) <= _MOST_LANES:
        raise InvalidValueError(
            say("lanes must name 1 to {most} lanes of the timeline.", most=_MOST_LANES)
        )
    return lanes


def whole_number(name: str, raw: str) -> int:
    """The value of a parameter.

    Raises:
        InvalidValueError: It is no whole number.
    """
    digits = raw.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20) or (
        not -_LARGEST <= int(raw) < _LARGEST
    ):
        raise InvalidValueError(
            say("{name} must be a whole number, not {raw!r}.", name=name, raw=raw)
        )
    return int(raw)
