"""The HTML report holds what the API says: every panel, every figure, every table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from aggregator.html_report.content import ROWS
from aggregator.html_report.template import PAGE
from aggregator.tables.declared.addresses import OBJECTS, WHOLE_TABLES
from aggregator.tables.figures import FIGURES, FIGURES_OF_ITERATIONS
from tests.contract.client import ApiClient, Served
from tests.report_file import ReportFile, read_report

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="the page is not built: make frontend")

DOMAIN = "default-domain"
PANELS = (*OBJECTS, "recommendations", "top-ops", "top-kernels", "verdict", "limits")


@pytest.fixture(scope="module")
def reports() -> dict[Path, ReportFile]:
    """Those read so far: a database gives the same report to every test."""
    return {}


@pytest.fixture
def report(api: ApiClient, served: Served, reports: dict[Path, ReportFile]) -> ReportFile:
    if served.path not in reports:
        reports[served.path] = read_report(api.get(served.at("report/")).body)
    return reports[served.path]


def all_rows(
    api: ApiClient, address: str, language: str = "en", **params: Any
) -> list[dict[str, Any]]:
    """Every row of a list, page by page."""
    headers = {"Accept-Language": language}
    rows: list[dict[str, Any]] = []
    page = 1
    while True:
        body = api.get(address, headers, page=page, page_size=200, **params).json
        rows += body["results"]
        if len(rows) >= body["count"]:
            return rows
        page += 1


def test_report_comes_as_a_file_to_keep(api: ApiClient, served: Served) -> None:
    reply = api.get(served.at("report/"))

    assert reply.status == 200
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert re.fullmatch(
        r'attachment; filename="[\w.-]+_report_aggregation1\.html"',
        reply.headers["Content-Disposition"],
    )
    assert reply.body.startswith(b"<!doctype html>")
    assert len(reply.body) <= 5_000_000


def test_report_names_no_other_place(report: ReportFile) -> None:
    assert report.links
    assert [link for link in report.links if not link.startswith("data:")] == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_panels_are_the_apis(
    api: ApiClient, served: Served, report: ReportFile, language: str
) -> None:
    objects = report.said(language)["domains"][DOMAIN]["objects"]

    wanted = {
        name: api.get(served.at(f"{name}/"), {"Accept-Language": language}).json for name in PANELS
    }

    assert objects == wanted


@pytest.mark.parametrize("language", ["en", "zh"])
def test_report_has_the_profile_of_the_api(
    api: ApiClient, served: Served, report: ReportFile, language: str
) -> None:
    said = report.said(language)
    headers = {"Accept-Language": language}
    profile = api.get(served.profile, headers).json
    address = f"{served.profile}aggregations/"
    rows = api.get(address, headers, page_size=10).json["results"]
    (aggregation,) = (row for row in rows if row["id"] == served.aggregation)

    # What is done with a profile is another matter than what it is.
    done = {"can_reaggregate", "cannot_reaggregate_reason", "conversion_ids", "error", "path"}
    assert {key: said["profile"][key] for key in profile if key not in done} == {
        key: value for key, value in profile.items() if key not in done
    }
    assert said["aggregation"] == aggregation
    assert not said["profile"]["can_reaggregate"]
    # A report is passed on: it does not reveal the folders of the server.
    assert "path" not in said["profile"]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", FIGURES)
def test_the_figures_are_the_apis(
    api: ApiClient, served: Served, report: ReportFile, name: str, theme: str
) -> None:
    figures = report.said("en")["domains"][DOMAIN]["figures"]

    if name in FIGURES_OF_ITERATIONS:
        for view in ("all", "profiled"):
            wanted = api.get(served.at(f"figures/{name}/"), theme=theme, view=view).json
            assert figures[f"{name}/{theme}/{view}"] == wanted
    else:
        assert (
            figures[f"{name}/{theme}"] == api.get(served.at(f"figures/{name}/"), theme=theme).json
        )


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("address", WHOLE_TABLES)
def test_the_tables_are_the_apis(
    api: ApiClient, served: Served, report: ReportFile, address: str, language: str
) -> None:
    table = report.main["domains"][DOMAIN]["tables"][address]
    # The groups come by their time, so that no row is without its parents.
    ordering = {"ordering": "-gpu_time_ns,level,name"} if address == "group-ops" else {}

    wanted = all_rows(api, served.at(f"{address}/"), language, **ordering)

    assert table["count"] == len(wanted)
    held = report.rows(address, table, language)
    if address == "iterations":
        wanted.sort(key=lambda row: (not row["is_profiled"], row["iteration_index"]))
    assert held == wanted[:ROWS]
    assert table["unknown"] == api.get(served.at(f"{address}/")).json["unknown"]
    shown = report.main["tables"][address]
    assert shown["ordering"] == api.get(served.at(f"{address}/")).json["ordering"]


def test_an_op_is_the_apis(api: ApiClient, served: Served, report: ReportFile) -> None:
    tables = report.main["domains"][DOMAIN]["tables"]
    held = {row["op_id"]: row for row in report.rows("op-details", tables["op-details"])}
    ops = [row["op_id"] for row in report.rows("ops", tables["ops"])]

    assert list(held) == ops
    for op_id in ops[:5]:
        wanted = api.get(served.at(f"ops/{quote(op_id, safe='')}/")).json
        assert held[op_id] == {key: wanted[key] for key in wanted if key != "unknown"}
        assert tables["op-details"]["unknown"] == wanted["unknown"]


def test_the_kernels_of_each_op_are_the_apis(
    api: ApiClient, served: Served, report: ReportFile
) -> None:
    kernels = report.main["domains"][DOMAIN]["op_kernels"]
    assert len(kernels) > 10
    for op_id, table in kernels.items():
        wanted = all_rows(api, served.at(f"ops/{quote(op_id, safe='')}/kernels/"))
        assert report.rows("ops/{op_id}/kernels", table) == wanted
        assert table["count"] == len(wanted)


def test_the_tables_of_an_iteration_are_the_apis(
    api: ApiClient, served: Served, report: ReportFile
) -> None:
    iterations = report.main["domains"][DOMAIN]["iterations"]
    profiled = all_rows(api, served.at("iterations/"), is_profiled=1)
    assert sorted(map(int, iterations)) == [row["iteration_index"] for row in profiled]
    for number in (str(served.iteration), *list(iterations)[:2]):
        held = report.blocks[iterations[number]]
        ops = all_rows(api, served.at(f"iterations/{number}/ops/"))
        kernels = all_rows(api, served.at(f"iterations/{number}/kernels/"))
        assert report.rows("iterations/{iteration}/ops", held["ops"]) == ops[:ROWS]
        assert held["ops"]["count"] == len(ops)
        assert report.rows("iterations/{iteration}/kernels", held["kernels"]) == kernels[:5_000]
        assert held["kernels"]["count"] == len(kernels)


def test_the_kernels_of_an_op_in_an_iteration_are_among_the_iterations(
    api: ApiClient, served: Served, report: ReportFile
) -> None:
    block = report.main["domains"][DOMAIN]["iterations"][str(served.iteration)]
    rows = report.rows("iterations/{iteration}/kernels", report.blocks[block]["kernels"])
    wanted = all_rows(api, served.at("iterations/{iteration}/ops/{op_id}/kernels/"))

    assert wanted
    assert [row for row in rows if row["op_id"] == served.op_id] == wanted


def test_sentences_of_the_tables_have_their_chinese(nvidia: Served, api: ApiClient) -> None:
    report = read_report(api.get(nvidia.at("report/")).body)
    address = nvidia.at("iterations/{iteration}/kernels/")
    unknown = api.get(address, {"Accept-Language": "zh"}).json["unknown"]
    block = report.main["domains"][DOMAIN]["iterations"][str(nvidia.iteration)]
    held = report.blocks[block]["kernels"]["unknown"]

    assert unknown
    assert {key: report.main["sentences"]["zh"][text] for key, text in held.items()} == unknown


def test_the_same_data_give_the_same_bytes(ours: Served, api: ApiClient) -> None:
    assert api.get(ours.at("report/")).body == api.get(ours.at("report/")).body


def test_a_parameter_that_it_does_not_know_is_refused(ours: Served, api: ApiClient) -> None:
    assert api.get(ours.at("report/"), rows="5").status == 400


def test_a_checkout_without_the_page_says_so(
    ours: Served, api: ApiClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("aggregator.html_report.template.PAGE", tmp_path / "page.html")

    reply = api.get(ours.at("report/"))

    assert reply.status == 503
    assert reply.json["error"]["code"] == "REPORT_PAGE_MISSING"
    assert "make frontend" in reply.json["error"]["hint"]


def test_report_is_listed_in_the_schema(document: dict[str, Any]) -> None:
    paths = document["paths"]
    (path,) = [path for path in paths if path.endswith("/report/")]
    assert "text/html" in paths[path]["get"]["responses"]["200"]["content"]
