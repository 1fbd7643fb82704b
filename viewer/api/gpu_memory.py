"""The recordings of GPU memory of a profile."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from aggregator.tables.gpu_memory import (
    MOST_PIXELS,
    read_memory_alive,
    read_memory_curve,
    read_memory_difference,
    read_memory_summary,
)
from viewer.api.schema import DOMAIN, ResourceView, query
from viewer.api.scope import open_profile, open_scope
from viewer.api.serializers.gpu_memory import (
    MemoryAliveSerializer,
    MemoryCurveSerializer,
    MemoryDifferencesSerializer,
    MemorySerializer,
)
from viewer.api.timeline import whole_number

_RECORDING = query("recording", "Number of the recording, from 1.", "integer", default=1, minimum=1)


class MemoryView(ResourceView):
    """All recordings."""

    query_names = ("domain",)

    @extend_schema(parameters=[DOMAIN], responses=MemorySerializer)
    def get(self, request: Request, **parts: Any) -> Response:
        """Totals of each recording, its peak by kind, its steps, what grows, free blocks."""
        with open_scope(request, parts) as scope:
            return Response(read_memory_summary(scope.data))


class MemoryCurveView(ResourceView):
    """What is allocated over time."""

    query_names = ("domain", "recording", "low", "high", "pixels")

    @extend_schema(
        parameters=[
            DOMAIN,
            _RECORDING,
            query("low", "Begin of the part of the axis: ns, or events.", "integer", required=True),
            query("high", "Its end.", "integer", required=True),
            query(
                "pixels",
                "Width: each pixel has at most three events.",
                "integer",
                minimum=1,
                maximum=MOST_PIXELS,
                default=1_000,
            ),
        ],
        responses=MemoryCurveSerializer,
    )
    def get(self, request: Request, **parts: Any) -> Response:
        """Allocated bytes by kind, active and reserved bytes after some events, as columns."""
        low, high, pixels, number = (
            whole_number(name, request.query_params.get(name, default))
            for name, default in (("low", ""), ("high", ""), ("pixels", "1000"), ("recording", "1"))
        )
        with open_scope(request, parts) as scope:
            return Response(read_memory_curve(scope.data, number, low, high, pixels))


class MemoryAliveView(ResourceView):
    """What lives at one moment."""

    query_names = ("domain", "recording", "event")

    @extend_schema(
        parameters=[
            DOMAIN,
            _RECORDING,
            query("event", "Number of the event; -1: before all.", "integer", required=True),
        ],
        responses=MemoryAliveSerializer,
    )
    def get(self, request: Request, **parts: Any) -> Response:
        """What lives after an event: by kind, and by module and op with their call stacks."""
        number = whole_number("recording", request.query_params.get("recording", "1"))
        event = whole_number("event", request.query_params.get("event", ""))
        with open_scope(request, parts) as scope:
            return Response(read_memory_alive(scope.data, number, event))


class CompareMemoryView(ResourceView):
    """Why the peak of one recording is higher than that of another."""

    query_names = ("base", "new")

    @extend_schema(
        parameters=[
            query("base", "Profile of the base; @AGGREGATION is ignored.", required=True),
            query("new", "Profile of the new side, likewise.", required=True),
        ],
        responses=MemoryDifferencesSerializer,
    )
    def get(self, request: Request) -> Response:
        """For each GPU that both record: its peaks by kind and by module and op.

        The differences of the kinds, and those of the owners, add up to that of the peaks.
        """
        sides = (request.query_params.get(name, "") for name in self.query_names)
        base, new = (side.partition("@")[0] for side in sides)
        with open_profile(base) as (_, before), open_profile(new) as (_, after):
            return Response(read_memory_difference(before, after))
