"""The timeline of an aggregation as files: its tiles, and a Perfetto trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from django.http import FileResponse, HttpResponse
from drf_spectacular.types import OpenApiTypes
from rest_framework.request import Request

from aggregator.answers.registry import whole_number
from aggregator.answers.timeline import SELECTION, TimelineAnswers, lane_keys
from aggregator.errors import InvalidValueError
from aggregator.tables.timeline.events import Events, iteration_window
from aggregator.tables.timeline.hits import Selection
from aggregator.tables.timeline.levels import LARGEST_SHIFT
from aggregator.tables.timeline.perfetto import write_trace
from aggregator.texts import say
from viewer.api.schema import DOMAIN, get_view, query
from viewer.api.scope import open_event_scope, timeline_folder
from viewer.api.tables import spooled
from viewer.errors import ViewerError

_KEPT = "private, max-age=3600"
"""A tile of a version of a timeline never changes."""


@contextmanager
def _timeline(request: Request, parts: dict[str, Any]) -> Iterator[TimelineAnswers]:
    with open_event_scope(request, parts) as scope:
        yield TimelineAnswers(scope.data, timeline_folder())


_SELECTION_PARAMETERS = [query(name, text) for name, text in SELECTION.items()]


@get_view(
    {(200, "application/octet-stream"): OpenApiTypes.BINARY},
    DOMAIN,
    query("lanes", "Keys of lanes, separated by commas.", required=True),
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
    *_SELECTION_PARAMETERS,
)
def TimelineTilesView(request: Request, **parts: Any) -> HttpResponse:
    """Packed columns of each lane; times are counted from the start of the tile.

    The length of a JSON text (uint32), the text (``counts``: items of each lane) with spaces up
    to a multiple of 8 bytes, then columns of all lanes: start, duration and busy time in ns
    (float64), count, label and row id (int32); all little-endian.
    """
    params = request.query_params
    shift, number = (whole_number(name, params.get(name, "")) for name in ("shift", "number"))
    lanes = lane_keys(params.get("lanes", ""))
    with _timeline(request, parts) as timeline:
        if params.get("version") != timeline.version:
            raise ViewerError(
                say("The profile has changed since its timeline was opened."),
                "TIMELINE_CHANGED",
                hint=say("Load the page again."),
            )
        data = timeline.tiles(lanes, shift, number, Selection.of(params.dict()))
    response = HttpResponse(data, content_type="application/octet-stream")
    response.headers["Cache-Control"] = _KEPT
    return response


@get_view(
    {(200, "application/octet-stream"): OpenApiTypes.BINARY},
    DOMAIN,
    query("iter_start", "First iteration; the first of all if left out.", "integer"),
    query("iter_stop", "Last iteration; the last of all if left out.", "integer"),
)
def TimelineTraceView(request: Request, **parts: Any) -> FileResponse:
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
