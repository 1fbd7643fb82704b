"""Figures of an aggregation, as Plotly draws them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from aggregator import figures
from aggregator.errors import InvalidValueError
from aggregator.figures import Figure, Theme
from aggregator.query.request import check_parameters, parse_list_query
from aggregator.query.spec import ObjectSpec, TableSpec
from aggregator.query.sql import bind, iter_rows
from aggregator.resources.iterations import GPUS, ITERATIONS
from aggregator.resources.objects import read_object
from aggregator.resources.summaries import (
    GPU_UTILIZATION,
    KERNEL_SUMMARY,
    RESOURCE_USAGE,
    TENSOR_CORE_EFFICIENCY,
)
from viewer.api.base import ResourceView
from viewer.api.documents import DOMAIN, Parameter, Schema, array, record
from viewer.api.scope import Place, Scope, open_scope
from viewer.api.summaries import GpuUtilizationView, TensorCoreEfficiencyView
from viewer.errors import FigureNotFoundError

_COMMON = ("domain", "theme")
_ZOOM = ("start", "stop", "view")
_VIEWS = ("all", "profiled")

Params = Mapping[str, str]
Build = Callable[[Scope, Theme, Params], Figure]


@dataclass(frozen=True)
class FigureSpec:
    """One figure: how it is made, and the parameters that it takes besides the common ones."""

    build: Build
    parameters: tuple[str, ...] = ()


class FigureView(ResourceView):
    """One figure."""

    def parameters(self, method: str) -> tuple[Parameter, ...]:
        """The look, and what the iteration summary shows."""
        return (
            DOMAIN,
            Parameter("theme", "The look.", (("type", "string"), ("enum", list(Theme)))),
            Parameter("start", "First iteration, inclusive.", (("type", "integer"),)),
            Parameter("stop", "Last iteration, inclusive.", (("type", "integer"),)),
            Parameter("view", "Which iterations.", (("type", "string"), ("enum", list(_VIEWS)))),
        )

    def reply(self, method: str) -> Schema:
        """A Plotly figure."""
        anything: Schema = {"type": "object", "additionalProperties": True}
        return record({"data": array(anything), "layout": anything})

    def get(self, request: Request, name: str, **parts: Any) -> Response:
        """Its traces and layout."""
        spec = FIGURES.get(name)
        if spec is None:
            raise FigureNotFoundError(
                f"There is no figure {name!r}.", hint=f"Known: {', '.join(FIGURES)}."
            )
        params = request.query_params.dict()
        check_parameters(params, [*_COMMON, *spec.parameters])
        theme = _theme(params.get("theme", Theme.LIGHT))
        with open_scope(Place(**parts), params.get("domain")) as scope:
            return Response(spec.build(scope, theme, params))


def _gpu_utilization(scope: Scope, theme: Theme, _: Params) -> Figure:
    values = GpuUtilizationView().complete(_read(GPU_UTILIZATION, scope))
    return figures.gpu_utilization(_one_row(values), theme)


def _tensor_core_efficiency(scope: Scope, theme: Theme, _: Params) -> Figure:
    values = TensorCoreEfficiencyView().complete(_read(TENSOR_CORE_EFFICIENCY, scope))
    return figures.tensor_core_efficiency(_one_row(values), theme)


def _resource_usage(scope: Scope, theme: Theme, _: Params) -> Figure:
    return figures.resource_usage(_one_row(_read(RESOURCE_USAGE, scope)), theme)


def _kernel_gpu_time(scope: Scope, theme: Theme, _: Params) -> Figure:
    summary = _read(KERNEL_SUMMARY, scope)
    parts = ("using_tc", "memory", "other")
    row = {f"{part}_gpu_time_ns": summary[part]["gpu_time_ns"] for part in parts}
    return figures.kernel_gpu_time(_one_row(row), theme)


def _iteration_summary(scope: Scope, theme: Theme, params: Params) -> Figure:
    view = params.get("view", "all")
    if view not in _VIEWS:
        raise InvalidValueError(f"view must be one of {', '.join(_VIEWS)}, not {view!r}.")
    return figures.iteration_summary(
        _table(ITERATIONS, scope),
        theme,
        start=_index(params, "start"),
        stop=_index(params, "stop"),
        only_profiled=view == "profiled",
    )


def _gpus(scope: Scope, theme: Theme, _: Params) -> Figure:
    return figures.gpus(_table(GPUS, scope), theme)


FIGURES: dict[str, FigureSpec] = {
    "gpu-utilization": FigureSpec(_gpu_utilization),
    "resource-usage": FigureSpec(_resource_usage),
    "kernel-gpu-time": FigureSpec(_kernel_gpu_time),
    "tensor-core-efficiency": FigureSpec(_tensor_core_efficiency),
    "iteration-summary": FigureSpec(_iteration_summary, _ZOOM),
    "gpus": FigureSpec(_gpus),
}


def _read(spec: ObjectSpec, scope: Scope) -> dict[str, Any]:
    return read_object(spec, scope.database, scope.params)


def _one_row(values: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {name: [value] for name, value in values.items() if name != "unknown"}


def _table(spec: TableSpec, scope: Scope) -> dict[str, list[Any]]:
    """A whole table by columns."""
    table = bind(spec, scope.database, scope.params)
    columns: dict[str, list[Any]] = {name: [] for name in spec.by_name}
    for row in iter_rows(table, parse_list_query(spec, {}), scope.database):
        for name, value in row.items():
            columns[name].append(value)
    return columns


def _theme(raw: str) -> Theme:
    if raw not in set(Theme):
        raise InvalidValueError(f"theme must be one of {', '.join(Theme)}, not {raw!r}.")
    return Theme(raw)


def _index(params: Params, name: str) -> int | None:
    raw = params.get(name)
    if raw is None:
        return None
    if not raw.isascii() or not raw.isdigit():
        raise InvalidValueError(f"{name} must be a whole number from 0 on, not {raw!r}.")
    return int(raw)
