"""Addresses below ``/api/v1/``."""

from __future__ import annotations

from django.urls import URLPattern, path
from drf_spectacular.views import SpectacularJSONAPIView

from aggregator.tables.declared.addresses import OBJECTS, TABLES
from aggregator.tables.spec import TableSpec
from viewer.api.comparisons import (
    CompareFigureView,
    CompareModulesView,
    CompareRowsView,
    CompareRowView,
    CompareSummaryView,
    CompareView,
    HistoryView,
)
from viewer.api.gpu_memory import (
    CompareMemoryView,
    MemoryAliveView,
    MemoryCurveView,
    MemoryView,
)
from viewer.api.jobs import CancelJobView, JobsView, JobView, RetryJobView
from viewer.api.profiles import (
    AggregationsView,
    AggregationView,
    ProfilesView,
    ProfileView,
    UploadsView,
    UploadView,
)
from viewer.api.replay import (
    CanReplayView,
    CriticalPathView,
    OpSensitivityView,
    StragglersView,
    WhatIfView,
)
from viewer.api.summaries import (
    FigureView,
    KernelLaunchesView,
    ObjectView,
    OpCallsView,
    OpView,
    RecommendationsView,
    TopKernelsView,
    VerdictView,
)
from viewer.api.tables import DistinctView, ExportView, ReportView, TableView, TopOpsView
from viewer.api.timeline import (
    TimelineEventView,
    TimelineHitsView,
    TimelineItemsView,
    TimelineRangeView,
    TimelineTilesView,
    TimelineTraceView,
    TimelineView,
)

_AGGREGATION = "profiles/<str:profile>/aggregations/<int:aggregation>"

#: How the parts of an address are written for Django.
_PARTS = {"{iteration}": "<int:iteration>", "{op_id}": "<path:op_id>"}


def _table_paths(address: str, spec: TableSpec) -> list[URLPattern]:
    for part, converter in _PARTS.items():
        address = address.replace(part, converter)
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
    path(f"{_AGGREGATION}/", AggregationView.as_view()),
    path("uploads/", UploadsView.as_view()),
    path("uploads/<str:upload>/", UploadView.as_view()),
    path("compare/", CompareView.as_view()),
    path("compare/summary/", CompareSummaryView.as_view()),
    path("compare/rows/", CompareRowsView.as_view()),
    path("compare/memory/", CompareMemoryView.as_view()),
    path("compare/row/", CompareRowView.as_view()),
    path("compare/modules/", CompareModulesView.as_view()),
    path("compare/figures/<str:name>/", CompareFigureView.as_view()),
    path("history/", HistoryView.as_view()),
    path("jobs/", JobsView.as_view()),
    path("jobs/<str:job>/", JobView.as_view()),
    path("jobs/<str:job>/cancel/", CancelJobView.as_view()),
    path("jobs/<str:job>/retry/", RetryJobView.as_view()),
    *(
        path(f"{_AGGREGATION}/{spec.name}/", ObjectView.as_view(spec=spec), name=spec.name)
        for spec in OBJECTS.values()
    ),
    path(f"{_AGGREGATION}/top-ops/", TopOpsView.as_view()),
    path(f"{_AGGREGATION}/top-kernels/", TopKernelsView.as_view()),
    path(f"{_AGGREGATION}/recommendations/", RecommendationsView.as_view()),
    path(f"{_AGGREGATION}/verdict/", VerdictView.as_view()),
    path(f"{_AGGREGATION}/timeline/", TimelineView.as_view()),
    path(f"{_AGGREGATION}/timeline/items/", TimelineItemsView.as_view()),
    path(f"{_AGGREGATION}/timeline/tiles/", TimelineTilesView.as_view()),
    path(f"{_AGGREGATION}/timeline/range/", TimelineRangeView.as_view()),
    path(f"{_AGGREGATION}/timeline/hits/", TimelineHitsView.as_view()),
    path(f"{_AGGREGATION}/timeline/event/", TimelineEventView.as_view()),
    path(f"{_AGGREGATION}/timeline/perfetto/", TimelineTraceView.as_view()),
    path(f"{_AGGREGATION}/memory/", MemoryView.as_view()),
    path(f"{_AGGREGATION}/memory/curve/", MemoryCurveView.as_view()),
    path(f"{_AGGREGATION}/memory/alive/", MemoryAliveView.as_view()),
    path(f"{_AGGREGATION}/can-replay/", CanReplayView.as_view()),
    path(f"{_AGGREGATION}/critical-path/", CriticalPathView.as_view()),
    path(f"{_AGGREGATION}/op-sensitivity/", OpSensitivityView.as_view()),
    path(f"{_AGGREGATION}/what-if/", WhatIfView.as_view()),
    path(f"{_AGGREGATION}/stragglers/", StragglersView.as_view()),
    path(f"{_AGGREGATION}/report/", ReportView.as_view()),
    path(f"{_AGGREGATION}/figures/<str:name>/", FigureView.as_view()),
    *(pattern for address, spec in TABLES.items() for pattern in _table_paths(address, spec)),
    path(f"{_AGGREGATION}/kernels/<path:kernel>/launches/", KernelLaunchesView.as_view()),
    path(f"{_AGGREGATION}/ops/<path:op_id>/calls/", OpCallsView.as_view()),
    path(f"{_AGGREGATION}/ops/<path:op_id>/", OpView.as_view()),
]
