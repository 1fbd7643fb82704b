"""All addresses of the viewer's API for one aggregation, from its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from aggregator.tables.figures import FIGURES
from benchmarks.viewer_server import Api

PAGE_SIZE = 50
_ROOT = "/api/v1/"
_AGGREGATION = "profiles/{profile}/aggregations/{aggregation}/"
_LISTED_FIGURES = "figures/{name}"


class Kind(StrEnum):
    """Kind of a request; each kind has its own limit."""

    PAGE = "table page"
    FILTER = "filtered page"
    SEARCH = "text search"
    PANEL = "panel or figure"
    DISTINCT = "values of a column"
    EXPORT = "export, first byte"


@dataclass(frozen=True)
class Address:
    """One request."""

    kind: Kind  # Its kind.
    name: str  # For the report.
    path: str  # Below the API's root.
    params: dict[str, Any] = field(default_factory=dict)  # Query parameters.


@dataclass(frozen=True)
class Place:
    """An aggregation of a profile, with an iteration and an op in it."""

    profile: str  # Id of the profile.
    aggregation: int  # Id of the aggregation.
    iteration: int  # The iteration with most kernels.
    op_id: str  # The op with most kernels in it.
    kernel: str  # The kernel with most GPU time.

    def fill(self, template: str) -> str:
        """Fill the placeholders of an address."""
        return template.format(**vars(self))


def find_place(api: Api, aggregation: int | None = None) -> Place:
    """The busiest iteration of an aggregation (the first one if none is named), and its op."""
    profile = api.get("profiles/")["results"][0]["id"]
    listed = api.get(f"profiles/{profile}/aggregations/")["results"]
    found = listed[0]["id"] if aggregation is None else aggregation
    base = f"profiles/{profile}/aggregations/{found}/"
    busy = api.get(f"{base}iterations/", ordering="-total_kernel_count", is_profiled=1)
    iteration = busy["results"][0]["iteration_index"]
    ops = api.get(f"{base}iterations/{iteration}/ops/", ordering="-total_kernel_count")
    kernels = api.get(f"{base}kernels/", ordering="-gpu_time_ns")["results"]
    return Place(
        profile,
        found,
        iteration,
        op_id=ops["results"][0]["op_id"] if ops["results"] else "",
        kernel=kernels[0]["kernel_name"] if kernels else "",
    )


def query_parameters(api: Api) -> dict[str, set[str]]:
    """Return the addresses below an aggregation that can be asked alone, and what they take."""
    document = api.get("schema/")
    shared = document["components"]["parameters"]
    found = {}
    for path, methods in sorted(document["paths"].items()):
        template = path.removeprefix(_ROOT)
        parameters = [
            shared[item["$ref"].rsplit("/", 1)[1]] if "$ref" in item else item
            for item in methods.get("get", {}).get("parameters", ())
        ]
        needs_more = any(item["in"] == "query" and item.get("required") for item in parameters)
        if "get" in methods and template.startswith(_AGGREGATION) and not needs_more:
            found[template] = {item["name"] for item in parameters}
    return found


def all_addresses(api: Api, place: Place) -> Iterator[Address]:
    """Yield every panel, figure and table; each table in every order, and with every filter."""
    found = query_parameters(api)
    tables = {address for address in found if f"{address}distinct/" in found}
    for template in found:
        name = template.removeprefix(_AGGREGATION).strip("/")
        if template in tables:
            yield from _table(api, name, place.fill(template), found[template])
        elif name == _LISTED_FIGURES:
            base = template.removesuffix(f"{_LISTED_FIGURES}/")
            for figure in FIGURES:
                path = f"{place.fill(base)}figures/{figure}/"
                yield Address(Kind.PANEL, f"figure {figure}", path)
        elif not name.endswith(("/export", "/distinct", "report", "timeline/hits")):
            yield Address(Kind.PANEL, name, place.fill(template))


def _table(api: Api, name: str, path: str, known: set[str]) -> Iterator[Address]:
    first = api.get(path, page_size=PAGE_SIZE)
    pages = max(1, -(-first["count"] // PAGE_SIZE))
    rows = first["results"]
    some_row = rows[len(rows) // 2] if rows else {}
    columns = [key for key in some_row if key not in first["unknown"]]
    for column in columns:
        for ordering in (column, f"-{column}"):
            for page in sorted({1, (pages + 1) // 2, pages}):
                params = {"ordering": ordering, "page": page, "page_size": PAGE_SIZE}
                yield Address(Kind.PAGE, f"{name} by {ordering}, page {page}", path, params)
    for column in columns:
        for parameter, value in _filters(column, some_row[column], known):
            params = {parameter: value, "page_size": PAGE_SIZE}
            yield Address(Kind.FILTER, f"{name}, {parameter}={value!s:.40}", path, params)
    for column in columns:
        yield Address(Kind.DISTINCT, f"{name}: {column}", f"{path}distinct/", {"column": column})
    for word in ("a", "gemm", "no such thing"):
        params = {"search": word, "page_size": PAGE_SIZE}
        yield Address(Kind.SEARCH, f"{name}, search {word!r}", path, params)
    yield Address(Kind.EXPORT, f"{name} as CSV", f"{path}export/", {"format": "csv"})


def _filters(column: str, value: Any, known: set[str]) -> Iterator[tuple[str, Any]]:
    """Yield the filters of a column that the row which holds the value passes."""
    if value is None:
        return
    asked = int(value) if isinstance(value, bool) else value
    for operator in ("", "__gte", "__lte", "__icontains", "__in", "__startswith"):
        if f"{column}{operator}" in known and "," not in str(asked):
            yield f"{column}{operator}", asked
