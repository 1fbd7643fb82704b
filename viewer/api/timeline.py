"""The timeline of an aggregation: its lanes, and what they show of some time."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from aggregator.errors import InvalidValueError
from aggregator.tables.timeline.lanes import MOST_PIXELS, read_items, read_lanes, read_range
from aggregator.texts import say
from viewer.api.schema import DOMAIN, ResourceView, query
from viewer.api.scope import open_scope
from viewer.api.serializers import (
    TimelineItemsSerializer,
    TimelineRangeSerializer,
    TimelineSerializer,
)

_MOST_LANES = 500
_LARGEST = 2**62
"""Times further out would overflow when they are counted from the start of a window."""


class TimelineView(ResourceView):
    """The lanes of a timeline."""

    query_names = ("domain",)

    @extend_schema(parameters=[DOMAIN], responses=TimelineSerializer)
    def get(self, request: Request, **parts: Any) -> Response:
        """Iterations, streams of GPUs, and modules, ops and CUDA calls of threads."""
        with open_scope(request, parts) as scope:
            return Response(read_lanes(scope.data))


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
        with open_scope(request, parts) as scope:
            return Response(read_items(scope.data, lanes, low_ns, high_ns, pixels))


class TimelineRangeView(ResourceView):
    """Totals of some time."""

    query_names = ("domain", "lanes", "start_ns", "stop_ns")

    @extend_schema(parameters=[DOMAIN, *_RANGE], responses=TimelineRangeSerializer)
    def get(self, request: Request, **parts: Any) -> Response:
        """GPU time by kind of work and by op within the time, and its longest events."""
        lanes, low_ns, high_ns = _range(request)
        with open_scope(request, parts) as scope:
            return Response(read_range(scope.data, lanes, low_ns, high_ns))


def _range(request: Request) -> tuple[list[str], int, int]:
    params = request.query_params
    lanes = list(dict.fromkeys(filter(None, params.get("lanes", "").split(","))))
    if not 1 <= len(lanes) <= _MOST_LANES:
        raise InvalidValueError(
            say("lanes must name 1 to {most} lanes of the timeline.", most=_MOST_LANES)
        )
    low_ns, high_ns = (whole_number(name, params.get(name, "")) for name in ("start_ns", "stop_ns"))
    return lanes, low_ns, high_ns


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
