"""Objects of an aggregation: the dashboard's panels, one op, the recommendations, a figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from aggregator.dldb.reader import damaged
from aggregator.errors import InvalidValueError
from aggregator.system.untrusted_json import read_count
from aggregator.tables import figures
from aggregator.tables.calls import read_kernel_launches, read_op_calls
from aggregator.tables.declared.ops import OP_DETAIL
from aggregator.tables.declared.summaries import PERFORMANCE_SUMMARY
from aggregator.tables.figures import FIGURES, FIGURES_OF_ITERATIONS, Look
from aggregator.tables.plotly import MAX_BARS, Theme
from aggregator.tables.request import check_parameters
from aggregator.tables.spec import ObjectSpec
from aggregator.tables.verdict import read_verdict
from aggregator.texts import say
from viewer.api.schema import DOMAIN, ResourceView, object_of, query, row
from viewer.api.scope import open_scope
from viewer.api.serializers.shared import FigureSerializer
from viewer.api.serializers.summaries import (
    KernelLaunchesSerializer,
    OpCallsSerializer,
    RecommendationsSerializer,
    TopKernelsSerializer,
    VerdictSerializer,
)
from viewer.errors import ViewerError

_COMMON = ("domain", "theme")
_ZOOM = ("start", "stop", "view", "max_bars")
_VIEWS = ("all", "profiled")
MOST_BARS = 1_000  # A figure of so many takes up to a megabyte.


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


class VerdictView(ResourceView):
    """What limits a step, in one sentence."""

    query_names = ("domain",)

    @extend_schema(parameters=[DOMAIN], responses=VerdictSerializer)
    def get(self, request: Request, **parts: Any) -> Response:
        """The verdict; ``unknown`` with the reason as its sentence where nothing is clear."""
        with open_scope(request, parts) as scope:
            return Response(read_verdict(scope.data))


class FigureView(ResourceView):
    """One figure."""

    query_names = None

    @extend_schema(
        parameters=[
            DOMAIN,
            query("theme", "Colors.", enum=list(Theme)),
            query("start", "First iteration, inclusive.", "integer"),
            query("stop", "Last iteration, inclusive.", "integer"),
            query("view", "Which iterations.", enum=list(_VIEWS)),
            query(
                "max_bars",
                "Most bars of iterations; more iterations share them.",
                "integer",
                minimum=1,
                maximum=MOST_BARS,
                default=MAX_BARS,
            ),
        ],
        responses=FigureSerializer,
    )
    def get(self, request: Request, name: str, **parts: Any) -> Response:
        """Traces and layout, as Plotly draws them."""
        if name not in FIGURES:
            raise ViewerError(
                say("There is no figure {name!r}.", name=name),
                "FIGURE_NOT_FOUND",
                404,
                hint=say("Known: {names}.", names=", ".join(FIGURES)),
            )
        params = request.query_params.dict()
        check_parameters(params, (*_COMMON, *(_ZOOM if name in FIGURES_OF_ITERATIONS else ())))
        look = Look(
            theme=Theme(one_of(params, "theme", tuple(Theme))),
            start=_index(params, "start"),
            stop=_index(params, "stop"),
            only_profiled=one_of(params, "view", _VIEWS) == "profiled",
            max_bars=_bars(params),
        )
        with open_scope(request, parts) as scope:
            return Response(figures.draw(name, scope.data, look))


def one_of(params: Mapping[str, str], name: str, known: tuple[str, ...]) -> str:
    """A parameter that is one of few words; the first one if it is left out."""
    raw = params.get(name, known[0])
    if raw not in known:
        raise InvalidValueError(
            say(
                "{name} must be one of {names}, not {raw!r}.",
                name=name,
                names=", ".join(known),
                raw=raw,
            )
        )
    return raw


def _bars(params: Mapping[str, str]) -> int:
    number = _index(params, "max_bars")
    if number is None:
        return MAX_BARS
    if not 1 <= number <= MOST_BARS:
        raise InvalidValueError(
            say("max_bars must be from 1 to {most}, not {number}.", most=MOST_BARS, number=number)
        )
    return number


def _index(params: Mapping[str, str], name: str) -> int | None:
    raw = params.get(name)
    if raw is None:
        return None
    number = read_count(raw)
    if number is None:
        raise InvalidValueError(
            say("{name} must be a whole number from 0 on, not {raw!r}.", name=name, raw=raw)
        )
    return number
