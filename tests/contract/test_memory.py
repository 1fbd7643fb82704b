"""Recordings of GPU memory by REST: their totals, the curve, and what lives at one moment."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import LazySettings

from aggregator.answers import gpu_memory
from aggregator.dldb.memory_reader import read_overviews, read_recordings
from aggregator.metrics.memory import overview
from aggregator.tables.declared.profile import profile_id
from dlprof_client import compare_memory, connect
from profiler_cli.dlprof import main
from tests.builders import Trace, query
from tests.builders import analyze as import_trace
from tests.contract.client import API, ApiClient, Served
from tests.contract.test_errors import assert_error
from tests.memory.pickles import event, frame, load, segment, write
from tests.memory.test_recorded import unpacked
from tests.memory.test_replay import undone

START_NS = 1_700_000_000_000_000_000
STEP_NS = 1_000_000


def trace_of_steps() -> Trace:
    """Four iterations of a millisecond each."""
    trace = Trace()
    trace.session(START_NS)
    trace.gpu(0)
    thread = trace.thread(100)
    for step in range(4):
        at = STEP_NS * step
        thread.range(f"iteration {step}", at, at + 900_000)
        thread.op("conv2d", at + 100, at + 800, seq=step)
        thread.launch("sgemm", at + 110, gpu=(at + 200, at + 900))
    return trace


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked("transformer.pickle", tmp_path_factory.mktemp("snapshot"))


def serving(path: Path, settings: LazySettings) -> Served:
    settings.ENVIRONMENT = replace(
        settings.ENVIRONMENT, databases=(path,), token="", bind="127.0.0.1"
    )
    return Served(path, aggregation=1, iteration=0, op_id="")


@pytest.fixture(scope="module")
def database(snapshot: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = import_trace(trace_of_steps(), tmp_path_factory.mktemp("recorded")).path
    assert main(["memory", str(snapshot), f"--into={path}"]) == 0
    return path


@pytest.fixture
def recorded(database: Path, settings: LazySettings) -> Served:
    return serving(database, settings)


def test_totals_are_those_of_single_events(
    api: ApiClient, recorded: Served, snapshot: Path
) -> None:
    counts = undone(load(snapshot), 0)
    (found,) = api.get(recorded.at("memory/")).json["recordings"]
    assert found["num_events"] == len(counts) - 1
    assert found["peak_allocated_bytes"] == max(one[0] for one in counts)
    assert found["peak_reserved_bytes"] == max(one[2] for one in counts)
    ends = ("end_allocated_bytes", "end_active_bytes", "end_reserved_bytes")
    assert tuple(found[name] for name in ends) == counts[-1]
    assert sum(one["bytes"] for one in found["kinds"]) == found["peak_allocated_bytes"]
    assert found["num_steps"] == 5
    blocks = [block for one in load(snapshot)["segments"] for block in one["blocks"]]
    free = [block["size"] for block in blocks if block["state"] == "inactive"]
    assert (found["free_bytes"], found["largest_free_bytes"]) == (sum(free), max(free))


@pytest.mark.parametrize("pixels", [1, 7, 400])
@pytest.mark.parametrize("part", [(0.0, 1.0), (0.2, 0.7), (0.9, 0.9001)])
def test_a_curve_has_the_counts_of_single_events_and_leaves_out_no_peak(
    api: ApiClient, recorded: Served, snapshot: Path, pixels: int, part: tuple[float, float]
) -> None:
    content = load(snapshot)
    counts = undone(content, 0)[1:]
    times = [one["time_us"] * 1000 for one in content["device_traces"][0]]
    times = [time - times[0] for time in times]
    low, high = (int(share * times[-1]) for share in part)
    curve = api.get(
        recorded.at("memory/curve/"), recording=1, low=low, high=high, pixels=pixels
    ).json
    assert len(curve["event"]) <= 3 * (pixels + 1) + 1
    for place, number in enumerate(curve["event"]):
        assert curve["at"][place] == times[number]
        assert counts[number] == (
            curve["allocated_bytes"][place],
            curve["active_bytes"][place],
            curve["reserved_bytes"][place],
        )
        whole = sum(kind["bytes"][place] for kind in curve["kinds"])
        assert whole == curve["allocated_bytes"][place]
    inside = [one for one, time in zip(counts, times, strict=True) if low <= time <= high]
    if inside:
        assert max(curve["allocated_bytes"]) >= max(one[0] for one in inside)
        assert max(curve["reserved_bytes"]) >= max(one[2] for one in inside)


def test_what_lives_adds_up_to_what_is_allocated(
    api: ApiClient, recorded: Served, snapshot: Path
) -> None:
    counts = undone(load(snapshot), 0)
    for number in (-1, 0, 1000, 2177, len(counts) - 2):
        alive = api.get(recorded.at("memory/alive/"), recording=1, event=number).json
        assert alive["allocated_bytes"] == counts[number + 1][0]
        assert sum(one["bytes"] for one in alive["kinds"]) == alive["allocated_bytes"]
        owned = sum(one["bytes"] for one in alive["owners"])
        is_whole = alive["num_owners"] == len(alive["owners"])
        assert owned == alive["allocated_bytes"] if is_whole else owned < alive["allocated_bytes"]


def test_a_moment_knows_its_iteration_and_its_call_stack(
    api: ApiClient, settings: LazySettings, tmp_path: Path
) -> None:
    frames = [frame("forward", "/train/model.py", 10), frame("main", "/train/main.py", 5)]
    at_us = [START_NS // 1000 + 1000 * step + 300 for step in range(3)]
    events = [
        event("alloc", 4096 * (step + 1), 100, time_us, frames=frames)
        for step, time_us in enumerate(at_us)
    ]
    held = [segment(4096 * (step + 1), [(512, 100, "active_allocated")]) for step in range(3)]
    file = write(tmp_path / "s.pickle", [events], held)
    path = import_trace(trace_of_steps(), tmp_path).path
    assert main(["memory", str(file), f"--into={path}"]) == 0
    served = serving(path, settings)
    spans = query(
        path, "SELECT iter_value, start_time, stop_time FROM view_iterations_all WHERE aggr_id = 1"
    )
    for number in range(3):
        alive = api.get(served.at("memory/alive/"), recording=1, event=number).json
        time_ns = number * STEP_NS + 300_000
        assert alive["profile_ns"] == time_ns
        assert [alive["iteration_index"]] == [
            iteration for iteration, start, stop in spans if start <= time_ns < stop
        ]
        stacks = [one["stack"] for one in alive["owners"] if one["stack"]]
        assert stacks == [["forward (/train/model.py:10)", "main (/train/main.py:5)"]]


def test_a_profile_without_a_recording_says_why(api: ApiClient, ours: Served) -> None:
    found = api.get(ours.at("memory/")).json
    assert found["recordings"] == []
    assert "--memory" in found["unknown"]["recordings"]


@pytest.mark.parametrize(
    ("address", "values"),
    [
        ("memory/curve/", {"low": 0}),
        ("memory/curve/", {"low": 5, "high": 5}),
        ("memory/curve/", {"low": 0, "high": 10, "pixels": 0}),
        ("memory/curve/", {"low": 0, "high": 10, "recording": 2}),
        ("memory/curve/", {"low": "x", "high": 10}),
        ("memory/alive/", {"event": -2}),
        ("memory/alive/", {"event": 10**9}),
        ("memory/alive/", {}),
    ],
)
def test_what_is_not_there(
    api: ApiClient, recorded: Served, address: str, values: dict[str, str | int]
) -> None:
    assert_error(api.get(recorded.at(address), **values), 400, "INVALID_VALUE")


def test_what_is_stored_of_a_large_recording_is_what_is_read_of_a_small_one(
    api: ApiClient,
    recorded: Served,
    snapshot: Path,
    tmp_path: Path,
    settings: LazySettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    totals = api.get(recorded.at("memory/")).json
    (found,) = totals["recordings"]
    whole = {"low": 0, "high": found["stop"]}
    asked: list[tuple[str, dict[str, int]]] = [
        ("memory/", {}),
        ("memory/alive/", {"event": found["peak_event"]}),
        *(("memory/curve/", {**whole, "pixels": pixels}) for pixels in (1, 250, 500, 1000, 2000)),
    ]
    others: list[tuple[str, dict[str, int]]] = [
        ("memory/curve/", {**whole, "pixels": 300}),
        ("memory/curve/", {"low": 0, "high": found["stop"] // 2, "pixels": 500}),
        ("memory/alive/", {"event": 7}),
    ]
    small = [api.get(recorded.at(path), **query).json for path, query in asked + others]

    monkeypatch.setattr(overview, "_LARGE", 1)
    path = import_trace(trace_of_steps(), tmp_path).path
    assert main(["memory", str(snapshot), f"--into={path}"]) == 0
    served = serving(path, settings)
    with monkeypatch.context() as patched:
        patched.setattr(gpu_memory, "read_recordings", lambda _: pytest.fail("reads all of it"))
        large = [api.get(served.at(path), **query).json for path, query in asked]
    large += [api.get(served.at(path), **query).json for path, query in others]

    assert large == small


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_all_recordings_of_a_profile_with_a_large_one_are_stored_as_such(
    snapshot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[int, int]
) -> None:
    files = (snapshot, unpacked("convolution.pickle", tmp_path))
    events = len(load(snapshot)["device_traces"][0])
    assert events > len(load(files[1])["device_traces"][0])
    monkeypatch.setattr(overview, "_LARGE", events)
    path = import_trace(trace_of_steps(), tmp_path).path
    for number in order:
        assert main(["memory", str(files[number]), f"--into={path}"]) == 0
    with closing(sqlite3.connect(path)) as connection:
        stored = read_overviews(connection)
        recordings = read_recordings(connection)
    assert stored == tuple(overview.overview(overview.Shown(one)) for one in recordings)
    assert [one.totals.source_file for one in stored] == [files[one].name for one in order]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE memory_overviews SET data = 'x'",
        "UPDATE memory_overviews SET data = '{}'",
        "UPDATE memory_overviews SET data = json_remove(data, '$.curve.at[0]')",
        "UPDATE memory_overviews SET data = json_set(data, '$.totals.stop', 'soon')",
    ],
)
def test_a_damaged_overview_is_refused(
    api: ApiClient,
    snapshot: Path,
    tmp_path: Path,
    settings: LazySettings,
    monkeypatch: pytest.MonkeyPatch,
    damage: str,
) -> None:
    monkeypatch.setattr(overview, "_LARGE", 1)
    path = import_trace(trace_of_steps(), tmp_path).path
    assert main(["memory", str(snapshot), f"--into={path}"]) == 0
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(damage)
        connection.commit()
    assert_error(api.get(serving(path, settings).at("memory/")), 422, "DATABASE_FOREIGN")


def test_the_difference_of_two_profiles_adds_up(
    api: ApiClient, recorded: Served, snapshot: Path, tmp_path: Path, settings: LazySettings
) -> None:
    other = unpacked("autocast.pickle", tmp_path)
    new = import_trace(trace_of_steps(), tmp_path).path
    assert main(["memory", str(other), f"--into={new}"]) == 0
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, databases=(recorded.path, new))
    base_id, new_id = (profile_id(path) for path in (recorded.path, new))

    reply = api.get(f"{API}/compare/memory/", base=base_id, new=f"{new_id}@1")

    (found,) = reply.json["differences"]
    before, after = (max(one[0] for one in undone(load(file), 0)) for file in (snapshot, other))
    assert found["base_peak_allocated_bytes"] == before
    assert found["new_peak_allocated_bytes"] == after
    for part in ("kinds", "owners"):
        assert sum(one["base_bytes"] for one in found[part]) == before
        assert sum(one["new_bytes"] for one in found[part]) == after
        assert sum(one["difference_bytes"] for one in found[part]) == after - before
    owners = compare_memory(snapshot, other)
    assert owners.drop(columns="device").to_dict("records") == found["owners"]


def test_a_notebook_reads_what_the_api_has(api: ApiClient, recorded: Served) -> None:
    run = connect(recorded.path)
    assert run.memory() == api.get(recorded.at("memory/")).json
    alive = api.get(recorded.at("memory/alive/"), event=7).json
    assert run.memory_alive(7) == alive


def test_profiles_without_recordings_have_no_difference(
    api: ApiClient, recorded: Served, tmp_path: Path, settings: LazySettings
) -> None:
    bare = import_trace(trace_of_steps(), tmp_path).path
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, databases=(recorded.path, bare))
    sides = {"base": profile_id(recorded.path), "new": profile_id(bare)}
    assert api.get(f"{API}/compare/memory/", **sides).status == 422
    assert api.get(f"{API}/compare/memory/", **{**sides, "new": "nope"}).status == 404
