"""Addresses below ``/api/v1/``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path

from aggregator.answers.registry import ANSWERS
from aggregator.tables.declared.addresses import OBJECTS, TABLES
from aggregator.tables.spec import TableSpec
from viewer.loading import load

if TYPE_CHECKING:
    from rest_framework.views import APIView

_AGGREGATION = "profiles/<str:profile>/aggregations/<int:aggregation>"

#: How the parts of an address are written for Django.
_PARTS = {
    "{iteration}": "<int:iteration>",
    "{op_id}": "<path:op_id>",
    "{kernel}": "<path:kernel>",
    "{name}": "<str:name>",
}


class _View:
    """A view whose module is loaded at its first request, or when the API is described."""

    def __init__(self, name: str, **options: object) -> None:
        self._module, _, self._name = name.rpartition(".")
        self.initkwargs = options

    @cached_property
    def cls(self) -> type[APIView]:
        """Its class."""
        found: type[APIView] = getattr(load(self._module), self._name)
        return found

    @cached_property
    def _answer(self) -> Callable[..., HttpResponseBase]:
        return self.cls.as_view(**self.initkwargs)

    def __call__(self, request: HttpRequest, **parts: Any) -> HttpResponseBase:
        return self._answer(request, **parts)


def _view(name: str, **options: object) -> _View:
    return _View(f"viewer.api.{name}", **options)


def _converted(address: str) -> str:
    for part, converter in _PARTS.items():
        address = address.replace(part, converter)
    return address


def _table_paths(address: str, spec: TableSpec) -> list[URLPattern]:
    root = f"{_AGGREGATION}/{_converted(address)}"
    return [
        path(f"{root}/", _view("tables.TableView", spec=spec)),
        path(f"{root}/export/", _view("tables.ExportView", spec=spec)),
        path(f"{root}/distinct/", _view("tables.DistinctView", spec=spec)),
    ]


urlpatterns = [
    path("schema/", _View("drf_spectacular.views.SpectacularJSONAPIView"), name="schema"),
    path("profiles/", _view("profiles.ProfilesView")),
    path("profiles/<str:profile>/", _view("profiles.ProfileView")),
    path("profiles/<str:profile>/aggregations/", _view("profiles.AggregationsView")),
    path(f"{_AGGREGATION}/", _view("profiles.AggregationView")),
    path("uploads/", _view("profiles.UploadsView")),
    path("uploads/<str:upload>/", _view("profiles.UploadView")),
    path("compare/", _view("comparisons.CompareView")),
    path("compare/summary/", _view("comparisons.CompareSummaryView")),
    path("compare/rows/", _view("comparisons.CompareRowsView")),
    path("compare/ops/", _view("comparisons.CompareOpsView")),
    path("compare/memory/", _view("comparisons.CompareMemoryView")),
    path("compare/row/", _view("comparisons.CompareRowView")),
    path("compare/modules/", _view("comparisons.CompareModulesView")),
    path("compare/figures/<str:name>/", _view("comparisons.CompareFigureView")),
    path("history/", _view("comparisons.HistoryView")),
    path("running-jobs/", _view("standby.RunningJobsView")),
    path("jobs/", _view("jobs.JobsView")),
    path("jobs/<str:job>/", _view("jobs.JobView")),
    path("jobs/<str:job>/cancel/", _view("jobs.CancelJobView")),
    path("jobs/<str:job>/retry/", _view("jobs.RetryJobView")),
    *(
        path(
            f"{_AGGREGATION}/{spec.name}/", _view("summaries.ObjectView", spec=spec), name=spec.name
        )
        for spec in OBJECTS.values()
    ),
    path(f"{_AGGREGATION}/top-ops/", _view("tables.TopOpsView")),
    path(f"{_AGGREGATION}/timeline/tiles/", _view("timeline.TimelineTilesView")),
    path(f"{_AGGREGATION}/timeline/perfetto/", _view("timeline.TimelineTraceView")),
    path(f"{_AGGREGATION}/report/", _view("reports.ReportView")),
    *(
        path(f"{_AGGREGATION}/{_converted(address)}/", _view("answers.AnswerView", answer=answer))
        for address, answer in ANSWERS.items()
    ),
    *(pattern for address, spec in TABLES.items() for pattern in _table_paths(address, spec)),
    path(f"{_AGGREGATION}/ops/<path:op_id>/", _view("summaries.OpView")),
]
