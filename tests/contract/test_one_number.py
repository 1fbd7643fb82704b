"""One number everywhere: what all surfaces say of one profile, collected and compared."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import re
import shutil
import xml.etree.ElementTree as ET
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from dlprof_client.client import connect
from profiler_cli.assistants.profiles import Profiles, name_profiles
from profiler_cli.assistants.queries import advise, critical_path, summarize, what_if
from profiler_cli.dlprof import main
from tests.conftest import ProfileFactory
from tests.contract.client import ApiClient, Served
from tests.report_file import read_report

Numbers = dict[str, dict[str, float]]
"""Name of a number -> surface -> what it says. Units: ns and percent."""


@pytest.fixture
def analyzed(imported: ProfileFactory, tmp_path: Path) -> Any:
    """A function from a profile and options to its database, and what the console said."""

    def analyze(name: str, *options: str) -> tuple[Path, str]:
        path = tmp_path / "dlprof_dldb.sqlite"
        if not options:
            shutil.copy(imported(name), path)
            return path, imported(name).with_name(f"{name}.out").read_text()
        words = [f"--database={imported(name)}", f"--output_path={tmp_path}", *options]
        return path, _printed(*words)

    return analyze


def _printed(*words: str) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        main(list(words))
    return output.getvalue()


def _collect(path: Path, console: str, api: ApiClient, settings: LazySettings) -> Numbers:
    found: Numbers = defaultdict(dict)
    shown = json.loads(_printed("show", str(path), "--format=json"))
    _of_show(found, shown)
    _of_console(found, console, shown["step"])
    settings.ENVIRONMENT = replace(
        settings.ENVIRONMENT, databases=(path,), token="", bind="127.0.0.1"
    )
    aggr = api.get(f"{Served(path, 1, 0, '').at('').rsplit('/', 2)[0]}/").json["results"][-1]["id"]
    served = Served(path, aggr, 0, "")
    names = ("performance-summary", "resource-usage", "tensor-core-efficiency", "verdict")
    _of_objects(found, "API", {name: api.get(served.at(f"{name}/")).json for name in names})
    found["step"]["API what-if"] = api.get(served.at("what-if/")).json["measured_step_ns"]
    found["step"]["API critical path"] = api.get(served.at("critical-path/")).json[
        "measured_step_ns"
    ]
    for row in api.get(served.at("advice/"), page_size=50).json["results"]:
        if row["status"] == "found":
            found[f"saving of {row['advice']}"]["API"] = row["gain_ns"] or 0
    report = read_report(api.get(served.at("report/")).body)
    _of_objects(found, "HTML", report.said()["domains"]["default-domain"]["objects"])
    _of_client(found, path, aggr)
    _of_assistants(found, path, aggr)
    _of_commands(found, path, aggr)
    return found


def _of_show(found: Numbers, shown: dict[str, Any]) -> None:
    step, gpu = shown["step"], shown["gpu"]
    found["step"]["show"] = step["ns"]
    found["mean step"]["show"] = step["mean_ns"]
    found["median step"]["show"] = step["median_ns"]
    found["busy"]["show"], found["idle"]["show"] = gpu["busy_pct"], gpu["idle_pct"]
    for part in gpu["parts"]:
        if part["name"] == "Tensor Core kernels":
            found["Tensor Core share"]["show"] = part["pct"]
    for finding in shown["findings"]:
        found[f"saving of {finding['name']}"]["show"] = finding["saving_ns"] or 0


def _of_console(found: Numbers, console: str, step: dict[str, Any]) -> None:
    statistic, time = re.findall(r"^Step: (\w+) ([\d.]+) ms", console, re.MULTILINE)[0]
    assert statistic == step["statistic"]
    given = re.findall(r"^Step without profiling: ([\d.]+) ms", console, re.MULTILINE)
    found["step"]["console"] = float(given[0] if given else time) * 1e6
    busy, idle = re.findall(r"GPU busy ([\d.]+) %, idle ([\d.]+) %", console)[0]
    found["busy"]["console"], found["idle"]["console"] = float(busy), float(idle)


def _of_objects(found: Numbers, surface: str, objects: dict[str, Any]) -> None:
    summary, usage = objects["performance-summary"], objects["resource-usage"]
    bare = summary["bare_step_ns"] or summary["given_step_ns"]
    found["step"][surface] = bare or summary["step_ns"]
    found["mean step"][surface] = summary["step_mean_ns"]
    found["median step"][surface] = summary["step_median_ns"]
    found["busy"][surface], found["idle"][surface] = usage["busy_pct"], usage["idle_pct"]
    if usage["tc_pct"]:
        found["Tensor Core share"][surface] = usage["tc_pct"]
    if summary["tc_utilization_pct"] is not None:
        found["Tensor Core efficiency"][surface] = summary["tc_utilization_pct"]
        if other := objects.get("tensor-core-efficiency"):
            found["Tensor Core efficiency"][f"{surface}, object"] = other["tc_utilization_pct"]
    for share in re.findall(r"GPU is busy (\d+)%", objects["verdict"]["sentence"]):
        found["busy"][f"{surface}, verdict"] = float(share)


def _of_client(found: Numbers, path: Path, aggr: int) -> None:
    run = connect(path, aggregation=aggr)
    names = ("performance-summary", "resource-usage")
    objects = {name: run.summary(name) for name in names} | {"verdict": run.verdict()}
    _of_objects(found, "client", objects)
    found["step"]["client what-if"] = run.what_if()["measured_step_ns"]
    found["step"]["client critical path"] = run.critical_path()["measured_step_ns"]
    advice = run.table("advice")
    for name, gain in zip(advice["advice"], advice["gain_ns"].fillna(0), strict=True):
        if f"saving of {name}" in found:
            found[f"saving of {name}"]["client"] = gain


def _of_assistants(found: Numbers, path: Path, aggr: int) -> None:
    profiles = Profiles(name_profiles([(path, path)]), "")
    with profiles.scope(None, aggr) as scope:
        answer = summarize(scope)
        found["step"]["assistant"] = answer["step"]["ns"]
        found["busy"]["assistant"] = answer["gpu"]["busy_pct"]
        found["idle"]["assistant"] = answer["gpu"]["idle_pct"]
        found["step"]["assistant what-if"] = what_if(scope, {})["measured_step_ns"]
        found["step"]["assistant critical path"] = critical_path(scope)["measured_step_ns"]
        for row in advise(scope, None)["advice"]:
            found[f"saving of {row['advice']}"]["assistant"] = row.get("gain_ns", 0)


def _of_commands(found: Numbers, path: Path, aggr: int) -> None:
    other = path.with_name("other.sqlite")
    shutil.copy(path, other)
    replayed = json.loads(_printed("whatif", str(path), "--format=json"))
    found["step"]["whatif"] = replayed["measured_step_ns"]
    if answer := _printed("stragglers", str(path), "--json"):  # Of several ranks.
        ranks = json.loads(answer)
        found["mean step"]["stragglers"] = ranks["mean_step_ns"]
        found[f"{ranks['statistic']} step"]["stragglers, step"] = ranks["step_ns"]
    for row in json.loads(_printed("advise", str(path), "--json"))["advice"]:
        found[f"saving of {row['advice_name']}"]["advise"] = row["gain_ns"] or 0
    sides = (f"{path}@{aggr}", f"{other}@{aggr}")
    # The same run on both sides is refused, so a part of it is the base.
    whole = json.loads(_printed("show", str(path), "--format=json"))["step"]
    part = f"{path}@{whole['first']}-{whole['last'] - 1}"
    compared = json.loads(_printed("compare", part, sides[1], "--format=json"))["new"]
    found["mean step"]["compare"] = float(compared["step_ns"])
    found["median step"]["compare"] = compared["median_ns"]
    if compared["unprofiled_ns"] is not None:
        found["step"]["compare"] = compared["unprofiled_ns"]
    comment = _printed("compare", part, sides[1], "--format=markdown")
    (row,) = re.findall(r"\*\*Mean step, as profiled\*\* \| [\d.]+ \| ([\d.]+)", comment)
    found["mean step"]["comment"] = float(row) * 1e6
    suite = ET.fromstring(_printed("compare", part, sides[1], "--format=junit"))
    (case,) = suite.findall("testcase[@name='step']")
    found["mean step"]["JUnit"] = float(case.attrib["time"]) * 1e9
    folder = path.with_name("history")
    folder.mkdir()
    shutil.copy(path, folder / "run.sqlite")
    (capture,) = json.loads(_printed("history", str(folder), "--format=json"))["captures"]
    if capture["aggregation"] == aggr:
        found["mean step"]["history"] = capture["step_ns"]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ddp", ()),
        ("pytorch_bert_bf16", ()),
        ("jax", ()),
        ("gpt", ("--bare_step_ms=38.38",)),
    ],
)
def test_every_surface_gives_the_same_number(
    name: str, options: tuple[str, ...], analyzed: Any, api: ApiClient, settings: LazySettings
) -> None:
    path, console = analyzed(name, *options)
    found = _collect(path, console, api, settings)
    assert {"step", "mean step", "busy", "idle"} <= found.keys()
    assert any(number.startswith("saving of ") for number in found)
    for number, values in found.items():
        assert len(values) > 3 or number.startswith(("Tensor", "median")), (number, values)
        rounding = {"busy": 0.55, "idle": 0.06, "step": 6_000, "mean step": 600}.get(number, 1.0)
        low, high = min(values.values()), max(values.values())
        assert high - low <= rounding, (number, values)
    busy, idle = (found[number]["show"] for number in ("busy", "idle"))
    assert busy + idle == pytest.approx(100)
    for number, values in found.items():
        if number.startswith("saving of "):
            assert max(values.values()) <= found["step"]["show"], number


def _of_trace(path: Path) -> tuple[float, float]:
    """Time from the first to the last work of a GPU, and the share of it that work covers."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    kinds = {"kernel", "gpu_memcpy", "gpu_memset"}
    work = sorted(
        (event["ts"], event["ts"] + event["dur"]) for event in events if event.get("cat") in kinds
    )
    busy, reached = 0.0, work[0][0]
    for start, end in work:
        busy += max(end - max(start, reached), 0)
        reached = max(reached, end)
    span = reached - work[0][0]
    return span * 1e3, 100 * busy / span


@pytest.mark.parametrize(
    "name",
    [
        "inference__vllm_decode_full__graph_execution.json.gz",
        "inference__sglang_decode__sglang_Qwen3-8B_decode.json.gz",
    ],
)
def test_without_steps_every_surface_is_of_the_recorded_span(
    name: str,
    imported: ProfileFactory,
    profile: ProfileFactory,
    api: ApiClient,
    settings: LazySettings,
) -> None:
    path, (span_ns, busy_pct) = imported(name), _of_trace(profile(name))
    settings.ENVIRONMENT = replace(
        settings.ENVIRONMENT, databases=(path,), token="", bind="127.0.0.1"
    )
    served = Served(path, 1, 0, "")
    answers = {
        address: api.get(served.at(f"{address}/")).json
        for address in ("resource-usage", "performance-summary", "what-if", "critical-path")
    }
    usage, gpu = (
        answers["resource-usage"],
        json.loads(_printed("show", str(path), "--format=json"))["gpu"],
    )
    whatif = json.loads(_printed("whatif", str(path), "--format=json"))
    for found in (usage, gpu):
        assert found["recorded_span_ns"] == pytest.approx(span_ns, abs=1000)
        assert found["busy_pct"] == pytest.approx(busy_pct, abs=0.01)
    assert sum(part["ns"] for part in gpu["parts"]) == pytest.approx(span_ns, abs=1000)
    for found in (whatif, answers["what-if"], answers["critical-path"]):
        assert found["is_recorded_span"]
        assert found["measured_step_ns"] == pytest.approx(span_ns, abs=1000)
    path_ns = sum(row["ns"] for row in answers["critical-path"]["critical_path"])
    assert path_ns == pytest.approx(span_ns, abs=1000)
    # What nothing explains is no work of the CPU.
    unexplained = answers["critical-path"]["unexplained_pct"]
    assert usage["other_pct"] >= unexplained - 0.01
    assert answers["performance-summary"]["iter_median_ns"] is None
    reasons = {usage["unknown"][field] for field in usage if field.startswith("corrected_")}
    assert any("no steps without profiling" in reason for reason in reasons)
    assert not any("Nothing was aggregated" in reason for reason in reasons)
    limits = api.get(served.at("limits/")).json
    assert "profiled_speed" in {limit["code"] for limit in limits["limits"]}
    text = _printed("show", str(path)) + _printed("whatif", str(path))
    assert text.count("the recorded span") >= 4
    assert not re.search(r"(?:\d|a|the|per) steps?\b(?! is unknown)", text.split("\n", 1)[1])
