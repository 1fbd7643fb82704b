"""The timeline of an aggregation: its lanes, and what they show of some time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from aggregator.errors import InvalidValueError
from aggregator.tables.timeline.answers import MOST_PIXELS, TimelineAnswers
from aggregator.tables.timeline.levels import LARGEST_SHIFT
from aggregator.texts import say
from viewer.api.schema import DOMAIN, ResourceView, query
from viewer.api.scope import environment, open_scope
from viewer.api.serializers import (
    TimelineItemsSerializer,
    TimelineRangeSerializer,
    TimelineSerializer,
)
from viewer.errors import ViewerError

_MOST_LANES = 500
_KEPT = "private, max-age=3600"
"""A tile of a version of a timeline never changes."""
_LARGEST = 2**62
"""Times further out would overflow when they are counted from the start of a window."""


@contextmanager
def _timeline(request: Request, parts: dict[str, Any]) -> Iterator[TimelineAnswers]:
    # The timeline of a large profile is prepared at its first use: that takes longer than a query.
    with open_scope(request, parts, time_limit_s=environment().export_timeout_s) as scope:
        yield TimelineAnswers(scope.data, environment().state_dir / "timelines")


class TimelineView(ResourceView):
    """The lanes of a timeline."""

    query_names = ("domain",)

    @extend_schema(parameters=[DOMAIN], responses=TimelineSerializer)
    def get(self, request: Request, **parts: Any) -> Response:
        """Iterations, streams of GPUs, and modules, ops and CUDA calls of threads."""
        with _timeline(request, parts) as timeline:
            return Response(timeline.lanes())


_RANGE = (
    query("lanes", "Keys of lanes, separated by commas.", required=True),
    query("start_ns", "Start of the time.", "integer", required=True),
    query("stop_ns", "Its end.", "integer", required=True),
)


class TimelineItemsView(ResourceView):
    """What lanes show of some time."""

    query_names = ("domain", "lanes", "start_ns", "stop_ns", "pixels")

    @extend_schema(
        parameters=[
            DOMAIN,
            *_RANGE,
            query(
                "pixels",
                "Width: shorter events that begin in one pixel are joined.",
                "integer",
                minimum=1,
                maximum=MOST_PIXELS,
                default=1_000,
            ),
        ],
        responses=TimelineItemsSerializer,
    )
    def get(self, request: Request, **parts: Any) -> Response:
        """Columns of each lane, in order of start; times are counted from ``start_ns``."""
        lanes, low_ns, high_ns = _range(request)
        pixels = whole_number("pixels", request.query_params.get("pixels", "1000"))
        with _timeline(request, parts) as timeline:
            return Response(timeline.items(lanes, low_ns, high_ns, pixels))


class TimelineTilesView(ResourceView):
    """Tiles: what lanes show of one stretch of a grid."""

    query_names = ("domain", "lanes", "shift", "number", "version")

    @extend_schema(
        parameters=[
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
            data = timeline.tiles(lanes, shift, number)
        response = HttpResponse(data, content_type="application/octet-stream")
        response.headers["Cache-Control"] = _KEPT
        return response


class TimelineRangeView(ResourceView):
    """Totals of some time."""

    query_names = ("domain", "lanes", "start_ns", "stop_ns")

    @extend_schema(parameters=[DOMAIN, *_RANGE], responses=TimelineRangeSerializer)
    def get(self, request: Request, **parts: Any) -> Response:
        """GPU time by kind of work and by op within the time, and its longest events."""
        lanes, low_ns, high_ns = _range(request)
        with _timeline(request, parts) as timeline:
            return Response(timeline.range(lanes, low_ns, high_ns))


def _range(request: Request) -> tuple[list[str], int, int]:
    params = request.query_params
    low_ns, high_ns = (whole_number(name, params.get(name, "")) for name in ("start_ns", "stop_ns"))
    return _lane_keys(request), low_ns, high_ns


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
