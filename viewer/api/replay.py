"""The replay of an aggregation: what the step waits for, and what changes would give."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from aggregator.errors import InvalidValueError
from aggregator.tables.replay import (
    CHANGE_NAMES,
    read_can_replay,
    read_critical_path,
    read_op_sensitivity,
    read_stragglers,
    read_what_if,
)
from aggregator.texts import say
from viewer.api.schema import DOMAIN, ResourceView, query
from viewer.api.scope import open_scope
from viewer.api.serializers.replay import (
    CanReplaySerializer,
    CriticalPathSerializer,
    OpSensitivitiesSerializer,
    StragglersSerializer,
    WhatIfSerializer,
)
from viewer.api.timeline import whole_number

_CORRECTED = query(
    "corrected",
    "1: without the costs of profiling, where the step without it is known.",
    enum=["0", "1"],
)


def _is_corrected(request: Request) -> bool:
    value = request.query_params.get("corrected", "0")
    if value not in {"0", "1"}:
        raise InvalidValueError(
            say("{name} must be 0 or 1.", name="corrected"), parameter="corrected"
        )
    return value == "1"


class CanReplayView(ResourceView):
    """Whether there is a replay."""

    query_names = ("domain", "ranks")

    @extend_schema(
        parameters=[DOMAIN, query("ranks", "1: of the ranks against each other.", enum=["0", "1"])],
        responses=CanReplaySerializer,
    )
    def get(self, request: Request, **parts: Any) -> Response:
        """Whether the other addresses of the replay have an answer; if not, why."""
        is_of_ranks = request.query_params.get("ranks", "0")
        if is_of_ranks not in {"0", "1"}:
            raise InvalidValueError(say("{name} must be 0 or 1.", name="ranks"), parameter="ranks")
        with open_scope(request, parts) as scope:
            return Response(read_can_replay(scope.data, is_of_ranks=is_of_ranks == "1"))


class CriticalPathView(ResourceView):
    """What the steps wait for."""

    query_names = ("domain", "iteration_index", "corrected")

    @extend_schema(
        parameters=[
            DOMAIN,
            query(
                "iteration_index",
                "Iteration of the chain (default: that of median length).",
                "integer",
            ),
            _CORRECTED,
        ],
        responses=CriticalPathSerializer,
    )
    def get(self, request: Request, **parts: Any) -> Response:
        """The critical path of all steady steps by kind and owner, and the chain of one."""
        raw = request.query_params.get("iteration_index")
        iteration = None if raw is None else whole_number("iteration_index", raw)
        with open_scope(request, parts) as scope:
            return Response(
                read_critical_path(scope.data, iteration, corrected=_is_corrected(request))
            )


class OpSensitivityView(ResourceView):
    """What ops that take less time change."""

    query_names = ("domain", "corrected")

    @extend_schema(parameters=[DOMAIN, _CORRECTED], responses=OpSensitivitiesSerializer)
    def get(self, request: Request, **parts: Any) -> Response:
        """For each op the time that a step gains when the op gains 1 ns, and its slack."""
        with open_scope(request, parts) as scope:
            return Response(read_op_sensitivity(scope.data, corrected=_is_corrected(request)))


_NAMES = "an op type, Op ID, op or kernel name, or communication, kernels, copies, sets"


class WhatIfView(ResourceView):
    """The step with changes."""

    query_names = ("domain", "corrected", *CHANGE_NAMES)

    @extend_schema(
        parameters=[
            DOMAIN,
            _CORRECTED,
            query("speedup", f"NAME=Kx, separated by semicolons; NAME: {_NAMES}."),
            query("remove", "Names of work that does not run, separated by semicolons."),
            query("fuse", "Names of work that one call launches, separated by semicolons."),
            query("no_sync", "1: no call waits for the GPU; a name: no call of that op does."),
            query("roofline", "1: work at the peak rates of the GPU; a name: of an op; a bound."),
            query("link_speed", "Speed of the link between GPUs in GB/s; a bound."),
            query("bucket_mb", "Size of the buckets of gradients in MiB; a bound."),
            query("rank_as_median", "Rank that is as fast as the median; no other change with it."),
            query("tensor_cores", "1: FP32 matrix products run as TF32; a bound."),
            query("half_precision", "1: forward and backward compute with 16 bits; a bound."),
            query("channels_last", "1: nothing converts layouts for convolutions; a bound."),
            query("data_ready", "1: the data loader never makes the step wait."),
            query("graph_launch", "1: one call launches a step as a CUDA graph."),
            query("overlap_communication", "1: data between GPUs moves beside the computation."),
            query("no_communication", "1: moving data between GPUs takes no time."),
        ],
        responses=WhatIfSerializer,
    )
    def get(self, request: Request, **parts: Any) -> Response:
        """A replay of the steady steps with the changes."""
        params = {
            name: value
            for name, value in request.query_params.dict().items()
            if name in CHANGE_NAMES
        }
        with open_scope(request, parts) as scope:
            return Response(read_what_if(scope.data, params, corrected=_is_corrected(request)))


class StragglersView(ResourceView):
    """Which rank makes the step slow."""

    query_names = ("domain",)

    @extend_schema(parameters=[DOMAIN], responses=StragglersSerializer)
    def get(self, request: Request, **parts: Any) -> Response:
        """A replay of the steady steps without the slowness of each rank."""
        with open_scope(request, parts) as scope:
            return Response(read_stragglers(scope.data))
