"""Addresses below ``/api/v1/``."""

from __future__ import annotations

from django.urls import URLPattern, path
from drf_spectacular.views import SpectacularJSONAPIView

from aggregator.query.spec import ObjectSpec, TableSpec
from aggregator.resources.iterations import GPUS, ITERATIONS
from aggregator.resources.kernels import (
    ITERATION_KERNELS,
    ITERATION_OP_KERNELS,
    KERNELS,
    OP_KERNELS,
)
from aggregator.resources.ops import GROUP_OPS, ITERATION_OPS, OP_TYPES, OPS
from aggregator.resources.summaries import (
    KERNEL_SUMMARY,
    OP_SUMMARY,
    PERFORMANCE_SUMMARY,
    RESOURCE_USAGE,
)
from viewer.api.figures import FigureView
from viewer.api.jobs import CancelJobView, JobsView, JobView, RetryJobView
from viewer.api.profiles import AggregationsView, ProfilesView, ProfileView
from viewer.api.summaries import (
    GpuUtilizationView,
    ObjectView,
    OpView,
    RecommendationsView,
    TensorCoreEfficiencyView,
)
from viewer.api.tables import DistinctView, ExportView, TableView, TopOpsView

_AGGREGATION = "profiles/<str:profile>/aggregations/<int:aggregation>"
_ITERATION = "iterations/<int:iteration>"

#: Each table at its address below an aggregation. An op id may hold a slash, so that longer
#: addresses have to come before those that they begin like.
TABLES: dict[str, TableSpec] = {
    f"{_ITERATION}/ops/<path:op_id>/kernels": ITERATION_OP_KERNELS,
    f"{_ITERATION}/kernels": ITERATION_KERNELS,
    f"{_ITERATION}/ops": ITERATION_OPS,
    "iterations": ITERATIONS,
    "ops/<path:op_id>/kernels": OP_KERNELS,
    "ops": OPS,
    "op-types": OP_TYPES,
    "group-ops": GROUP_OPS,
    "kernels": KERNELS,
    "gpus": GPUS,
}
OBJECTS: tuple[ObjectSpec, ...] = (
    PERFORMANCE_SUMMARY,
    RESOURCE_USAGE,
    KERNEL_SUMMARY,
    OP_SUMMARY,
)


def _table_paths(address: str, spec: TableSpec) -> list[URLPattern]:
    root = f"{_AGGREGATION}/{address}"
    return [
        path(f"{root}/", TableView.as_view(spec=spec)),
        path(f"{root}/export/", ExportView.as_view(spec=spec)),
        path(f"{root}/distinct/", DistinctView.as_view(spec=spec)),
    ]


urlpatterns = [
    path("schema/", SpectacularJSONAPIView.as_view(), name="schema"),
    path("profiles/", ProfilesView.as_view()),
    path("profiles/<str:profile>/", ProfileView.as_view()),
    path("profiles/<str:profile>/aggregations/", AggregationsView.as_view()),
    path("jobs/", JobsView.as_view()),
    path("jobs/<str:job>/", JobView.as_view()),
    path("jobs/<str:job>/cancel/", CancelJobView.as_view()),
    path("jobs/<str:job>/retry/", RetryJobView.as_view()),
    *(
        path(f"{_AGGREGATION}/{spec.name}/", ObjectView.as_view(spec=spec), name=spec.name)
        for spec in OBJECTS
    ),
    path(f"{_AGGREGATION}/gpu-utilization/", GpuUtilizationView.as_view()),
    path(f"{_AGGREGATION}/tensor-core-efficiency/", TensorCoreEfficiencyView.as_view()),
    path(f"{_AGGREGATION}/top-ops/", TopOpsView.as_view()),
    path(f"{_AGGREGATION}/recommendations/", RecommendationsView.as_view()),
    path(f"{_AGGREGATION}/figures/<str:name>/", FigureView.as_view()),
    *(pattern for address, spec in TABLES.items() for pattern in _table_paths(address, spec)),
    path(f"{_AGGREGATION}/ops/<path:op_id>/", OpView.as_view()),
]
