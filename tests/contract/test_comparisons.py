"""Comparisons of profiles and the history of those of one name."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from aggregator.metrics.ownership import BUSY_CLASSES, CLASSES
from tests.conftest import REPOSITORY
from tests.contract.client import API, ApiClient, Served
from tests.contract.test_errors import assert_error
from viewer.api import comparisons
from viewer.api.comparisons import _series
from viewer.profiles.registry import ServedProfile


def compare(api: ApiClient, ours: Served):
    profile = api.get("/api/v1/profiles/").json["results"][0]["id"]
    aggregations = api.get(f"/api/v1/profiles/{profile}/aggregations/").json["results"]
    first, second = sorted(row["id"] for row in aggregations)[:2]
    return {"base": f"{profile}@{first}", "new": f"{profile}@{second}"}


def exact(value: int | str) -> Fraction:
    return Fraction(str(value))


def test_the_page_names_each_class_of_time_as_the_engine_does() -> None:
    names = (REPOSITORY / "frontend/src/lib/timeClasses.ts").read_text("utf-8")
    for name in CLASSES:
        assert f't("{name}")' in names


def test_rows_and_classes_add_up_to_the_difference(api: ApiClient, ours: Served) -> None:
    found = api.get("/api/v1/compare/", **compare(api, ours)).json
    difference = exact(found["new"]["step_ns"]) - exact(found["base"]["step_ns"])
    assert exact(found["difference_ns"]) == difference
    for part in ("rows", "classes"):
        assert sum(exact(one["difference_ns"]) for one in found[part]) == difference
        assert sum(exact(one["new_ns"]) for one in found[part]) == exact(found["new"]["step_ns"])
    assert found["verdict"] in ("faster", "slower", "same", "cannot tell")
    assert found["rows"][0]["class"]


def test_rows_come_page_by_page_in_any_order_and_filtered(api: ApiClient, ours: Served) -> None:
    sides = compare(api, ours)
    rows = api.get("/api/v1/compare/", **sides).json["rows"]
    pages = [
        api.get("/api/v1/compare/rows/", **sides, page=page, page_size=200).json["results"]
        for page in range(1, len(rows) // 200 + 2)
    ]
    walked = [row for page in pages for row in page]
    assert [row.pop("row") for row in walked] == list(range(len(rows)))
    for row in walked:
        path = [part for part in f"{row['module']}{row['op']}".split("/") if part]
        assert row.pop("path") == f"/{'/'.join(path or [row['reason'] or row['class']])}/"
    for side in ("base", "new"):
        step = float(api.get("/api/v1/compare/summary/", **sides).json[side]["step_ns"])
        assert sum(row.pop(f"shown_{side}_us") for row in walked) == round(step / 1000)
    assert walked == rows
    chosen = [row for row in rows if row["class"] == "other compute" and "conv" in row["op_type"]]
    query = {"class__in": "other compute", "op_type__icontains": "conv"}
    found = api.get("/api/v1/compare/rows/", **sides, **query, ordering="-new_ns").json
    assert found["count"] == len(chosen) > 0
    times = [float(row["new_ns"]) for row in found["results"]]
    assert times == sorted((float(row["new_ns"]) for row in chosen), reverse=True)[: len(times)]
    for bad, code in (({"nope": 1}, "UNKNOWN_FILTER"), ({"ordering": "nope"}, "UNKNOWN_ORDERING")):
        assert_error(api.get("/api/v1/compare/rows/", **sides, **bad), 400, code)


def test_time_of_an_op_is_its_gpu_time_and_waiting_has_a_row_of_its_own(
    api: ApiClient, ours: Served
) -> None:
    sides = compare(api, ours)
    ops = api.get("/api/v1/compare/ops/", **sides, page_size=200).json["results"]
    assert {op["is_gpu_time"] for op in ops} == {True, False}
    for op in ops:
        assert {part["class"] in CLASSES[:BUSY_CLASSES] for part in op["parts"]} == {
            op["is_gpu_time"]
        }
    profile, _, aggregation = sides["new"].partition("@")
    address = f"/api/v1/profiles/{profile}/aggregations/{aggregation}/ops/"
    known = api.get(address, page_size=100).json["results"]
    count = api.get("/api/v1/compare/summary/", **sides).json["new"]["iterations"]
    gpu_time = {(op["op_name"], op["direction"]): op["gpu_time_ns"] for op in known}
    checked = 0
    for op in ops:
        name = (f"{op['module']}{op['op']}", op["direction"])
        if op["is_gpu_time"] and name in gpu_time:
            checked += 1
            assert op["shown_new_us"] == pytest.approx(
                gpu_time[name] / count / 1000, rel=0.02, abs=1
            )
    assert checked


def test_modules_have_the_sums_of_their_rows(api: ApiClient, ours: Served) -> None:
    sides = compare(api, ours)
    modules = api.get("/api/v1/compare/modules/", **sides).json["modules"]
    assert modules[0]["path"] == "/"
    rows: list[dict] = []
    while True:
        page = {"page": len(rows) // 200 + 1, "page_size": 200}
        found = api.get("/api/v1/compare/rows/", **sides, **page).json
        rows += found["results"]
        if len(rows) == found["count"]:
            break
    for module in modules:
        inside = [row for row in rows if row["path"].startswith(module["path"])]
        for side in ("base_ns", "new_ns"):
            total = sum(float(row[side]) for row in inside)
            assert module[side] == pytest.approx(total, rel=1e-9, abs=1e-6)
    chosen = modules[1]["path"]
    found = api.get("/api/v1/compare/rows/", **sides, path__startswith=chosen).json
    assert found["count"] == sum(row["path"].startswith(chosen) for row in rows) > 0


def test_the_summary_is_the_comparison_without_its_rows(api: ApiClient, ours: Served) -> None:
    sides = compare(api, ours)
    whole = api.get("/api/v1/compare/", **sides).json
    summary = api.get("/api/v1/compare/summary/", **sides).json
    assert summary == {**whole, "rows": len(whole["rows"])}


def test_figures_end_at_the_new_step_and_show_every_iteration(api: ApiClient, ours: Served) -> None:
    sides = compare(api, ours)
    whole = api.get("/api/v1/compare/", **sides).json
    for name in ("classes", "causes"):
        figure = api.get(f"/api/v1/compare/figures/{name}/", **sides).json
        first, *changes, last = figure["data"][0]["customdata"]
        assert first == pytest.approx(float(whole["base"]["step_ns"]))
        assert first + sum(changes) == pytest.approx(last)
        assert last == pytest.approx(float(whole["new"]["step_ns"]))
    shown = api.get("/api/v1/compare/figures/row/", **sides, row=2, theme="dark").json["data"]
    samples = api.get("/api/v1/compare/row/", **sides, row=2).json
    assert [trace["customdata"] for trace in shown] == samples["base_ns"] + samples["new_ns"]
    assert_error(api.get("/api/v1/compare/figures/no/", **sides), 404, "FIGURE_NOT_FOUND")
    bad = api.get("/api/v1/compare/figures/row/", **sides, row=10**6)
    assert_error(bad, 400, "INVALID_VALUE")


def test_a_row_has_its_time_in_every_iteration(api: ApiClient, ours: Served) -> None:
    sides = compare(api, ours)
    found = api.get("/api/v1/compare/", **sides).json
    samples = api.get("/api/v1/compare/row/", **sides, row=0).json
    for side in ("base", "new"):
        values = [value for capture in samples[f"{side}_ns"] for value in capture]
        assert len(values) == found[side]["iterations"]
        mean = sum(values) / len(values)
        assert mean == pytest.approx(float(found["rows"][0][f"{side}_ns"]))


def test_what_cannot_be_compared_is_said(api: ApiClient, ours: Served) -> None:
    sides = compare(api, ours)
    assert_error(api.get("/api/v1/compare/", base=sides["base"]), 400, "INVALID_VALUE")
    assert_error(
        api.get("/api/v1/compare/", base="missing", new=sides["new"]), 404, "PROFILE_NOT_SERVED"
    )
    bad = {**sides, "new": sides["base"].split("@")[0] + "@x"}
    assert_error(api.get("/api/v1/compare/", **bad), 400, "INVALID_VALUE")
    assert_error(api.get("/api/v1/compare/", **{**sides, "new": sides["base"]}), 400, "USAGE_ERROR")
    assert_error(api.get("/api/v1/compare/", **sides, nope=1), 400, "UNKNOWN_FILTER")
    assert_error(api.get("/api/v1/compare/row/", **sides, row=10**9), 400, "INVALID_VALUE")


def test_a_database_of_dlprof_is_not_compared(api: ApiClient, nvidia: Served) -> None:
    profile = api.get("/api/v1/profiles/").json["results"][0]["id"]
    reply = api.get("/api/v1/compare/", base=profile, new=f"{profile}@1")
    assert 400 <= reply.status < 500
    assert reply.json["error"]["hint"]
    assert "NVIDIA" in reply.json["error"]["message"]


def test_history_has_the_captures_of_a_name(api: ApiClient, ours: Served) -> None:
    profile = api.get("/api/v1/profiles/").json["results"][0]
    found = api.get("/api/v1/history/", name=profile["name"]).json
    assert [one["name"] for one in found["captures"]] == [profile["id"]]
    step = next(one for one in found["trends"] if one["kind"] == "step")
    classes = [one["values_ns"][0] for one in found["trends"] if one["kind"] == "class"]
    assert sum(classes) == pytest.approx(step["values_ns"][0], abs=len(classes))
    assert api.get("/api/v1/history/", profile=profile["id"]).json == found
    assert_error(api.get("/api/v1/history/", name="no such name"), 400, "INVALID_VALUE")
    both = {"name": profile["name"], "profile": profile["id"]}
    assert_error(api.get("/api/v1/history/", **both), 400, "INVALID_VALUE")
    missing = api.get("/api/v1/history/", profile="missing")
    assert_error(missing, 404, "PROFILE_NOT_SERVED")


def test_profiles_without_a_name_are_a_series_if_the_same_command_made_them(
    ours: Served, tmp_path: Path
) -> None:
    """Not all that have no name: they may be captures of other programs."""
    made_by = {
        "a": ("", "dlprof --output_path=1 python train.py"),
        "b": ("dlprof", "dlprof --output_path=2 python train.py"),
        "c": ("", "dlprof python other.py"),
        "d": ("mine", "dlprof python train.py"),
        "e": ("mine", "dlprof python other.py"),
        "f": ("", "dlprof --database=a.sqlite"),
        "g": ("", "dlprof --database=a.sqlite"),
    }
    served = {}
    for stem, config in made_by.items():
        path = tmp_path / f"{stem}.sqlite"
        shutil.copyfile(ours.path, path)
        with closing(sqlite3.connect(path)) as connection, connection:
            sql = "UPDATE system_config SET profile_name = ?, original_command = ?"
            connection.execute(sql, config)
        served[stem] = ServedProfile(stem, path)
    series = {
        stem: "".join(one.id for one in _series(profile, list(served.values())))
        for stem, profile in served.items()
    }
    assert series == {"a": "ab", "b": "ab", "c": "c", "d": "de", "e": "de", "f": "f", "g": "g"}


def test_a_history_reads_a_profile_once_and_has_a_limit(
    api: ApiClient, ours: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = api.get("/api/v1/profiles/").json["results"][0]["id"]
    first = api.get("/api/v1/history/", profile=profile).json

    def unread(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(comparisons, "read_entry", unread)
    assert api.get("/api/v1/history/", profile=profile).json == first
    monkeypatch.setattr(comparisons, "MOST_PROFILES", 0)
    assert_error(api.get("/api/v1/history/", profile=profile), 400, "INVALID_VALUE")


@pytest.mark.parametrize(
    "path",
    [
        *("compare/", "compare/row/", "compare/rows/", "compare/summary/"),
        *("compare/figures/causes/", "history/"),
    ],
)
def test_replies_are_as_described(
    api: ApiClient,
    ours: Served,
    document: dict[str, Any],
    assert_described: Callable[[Any, dict[str, Any]], None],
    path: str,
) -> None:
    more = {} if path == "history/" else compare(api, ours)
    reply = api.get(f"{API}/{path}", **more, **({"row": 1} if path == "compare/row/" else {}))
    assert reply.status == 200
    described = document["paths"][f"{API}/{path.replace('causes', '{name}')}"]["get"]["responses"][
        "200"
    ]
    assert_described(reply.json, described["content"]["application/json"]["schema"])
