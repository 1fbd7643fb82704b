"""Objects of an aggregation: the dashboard's panels, one op, one kernel, the recommendations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from aggregator.dldb.reader import damaged
from aggregator.tables.calls import read_kernel_launches, read_op_calls
from aggregator.tables.declared.ops import OP_DETAIL
from aggregator.tables.declared.summaries import PERFORMANCE_SUMMARY
from aggregator.tables.spec import ObjectSpec
from aggregator.texts import say
from viewer.api.schema import DOMAIN, ResourceView, object_of, row
from viewer.api.scope import open_scope
from viewer.api.serializers.summaries import (
    KernelLaunchesSerializer,
    OpCallsSerializer,
    RecommendationsSerializer,
    TopKernelsSerializer,
)
from viewer.errors import ViewerError


class ObjectView(ResourceView):
    """One object of an aggregation and domain."""

    spec: ClassVar[ObjectSpec] = PERFORMANCE_SUMMARY
    query_names = ("domain",)

    def parameters(self) -> Iterable[OpenApiParameter]:
        """The domain only."""
        return (DOMAIN,)

    def replies(self) -> Any:
        """Its fields."""
        return object_of(self.spec)

    def get(self, request: Request, **parts: Any) -> Response:
        """The values; null where the database has none, with the reason under ``unknown``."""
        with open_scope(request, parts) as scope:
            return Response(scope.data.read_object(self.spec))


class OpView(ResourceView):
    """One op with all its times."""

    query_names = ("domain",)

    @extend_schema(parameters=[DOMAIN], responses=row(OP_DETAIL, with_reasons=True))
    def get(self, request: Request, **parts: Any) -> Response:
        """The row of the ops table, and the statistics that the table leaves out."""
        with open_scope(request, parts) as scope:
            rows = scope.data.rows(OP_DETAIL, limit=1)
            if not rows:
                # The view of names has the op, the view of times does not.
                raise damaged(scope.served.path, LookupError("an op without metrics"))
            unknown = scope.data.bind(OP_DETAIL).unknown
        return Response(rows[0] | {"unknown": unknown})


class OpCallsView(ResourceView):
    """The calls of one op."""

    query_names = ("domain",)

    @extend_schema(parameters=[DOMAIN], responses=OpCallsSerializer)
    def get(self, request: Request, **parts: Any) -> Response:
        """Times by iteration, histograms of the times of a call, and the shapes of the inputs."""
        with open_scope(request, parts) as scope:
            return Response(read_op_calls(scope.data))


class KernelLaunchesView(ResourceView):
    """One kernel, all ops together."""

    query_names = ("domain",)

    @extend_schema(parameters=[DOMAIN], responses=KernelLaunchesSerializer)
    def get(self, request: Request, kernel: str, **parts: Any) -> Response:
        """Its sums, times by iteration, a histogram of its durations, and the launch sizes."""
        with open_scope(request, parts) as scope:
            found = read_kernel_launches(scope.data, kernel)
        if found is None:
            raise ViewerError(
                say("The aggregation has no kernel {name!r} in this domain.", name=kernel),
                "KERNEL_NOT_FOUND",
                404,
                hint=say("Use its full name, as the table of kernels has it."),
            )
        return Response(found)


class RecommendationsView(ResourceView):
    """The findings of DLProf's detectors."""

    query_names = ("domain",)

    @extend_schema(parameters=[DOMAIN], responses=RecommendationsSerializer)
    def get(self, request: Request, **parts: Any) -> Response:
        """Problems and advice, in the order in which they were stored."""
        with open_scope(request, parts) as scope:
            results = scope.data.recommendations()
        return Response({"count": len(results), "results": results})


class TopKernelsView(ResourceView):
    """The kernels with the most GPU time."""

    query_names = ("domain",)

    @extend_schema(parameters=[DOMAIN], responses=TopKernelsSerializer)
    def get(self, request: Request, **parts: Any) -> Response:
        """Ten kernels by full name, each summed over the ops that launched it."""
        with open_scope(request, parts) as scope:
            return Response(scope.data.top_kernels())
