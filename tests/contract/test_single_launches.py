"""Single launches: the command that profiles one, and what was sampled while kernels ran."""

from __future__ import annotations

import lzma
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from django.conf import LazySettings

from aggregator.answers.single_launches import mean_of
from aggregator.tables.timeline.counters import Counter
from tests.builders import analyze_file
from tests.contract.client import ApiClient, Served
from tests.contract.test_memory import serving

CASE = Path(__file__).parents[1] / "data" / "cases" / "graph_annotations.trace.json.xz"
STEP = 100
COUNTER = Counter(
    "counter.1",
    0,
    "SMs Active",
    "percent",
    np.arange(10) * STEP,
    np.arange(1, 11) * STEP,
    np.arange(10) * 1000,
)


def test_a_command_skips_the_launches_before_the_chosen_one(api: ApiClient, ours: Served) -> None:
    """By plain SQL: as many launches of the function come before the one at that time."""
    ops = api.get(ours.at("ops/"), page_size=200).json["results"]
    chosen = [op for op in ops if op["gpu_time_ns"]][:20]
    launches = (
        "SELECT k.start FROM kernels AS k JOIN kernel_names AS n ON n.id = k.name"
        " WHERE n.name = ? ORDER BY k.api_start, k.id"
    )
    checked = 0
    for op in chosen:
        reply = api.get(ours.at(f"ops/{quote(op['op_id'])}/ncu/")).json
        for found in reply["commands"]:
            with closing(sqlite3.connect(ours.path)) as database:
                starts = [row[0] for row in database.execute(launches, (found["kernel_name"],))]
            assert starts[found["launch_skip"]] == found["start_ns"]
            words = shlex.split(found["command"])
            assert words[0] == "ncu"
            assert f"--launch-skip={found['launch_skip']}" in words
            assert f"--kernel-name={found['kernel_name']}" in words
            checked += 1
        shares = [found["share_pct"] for found in reply["commands"]]
        assert shares == sorted(shares, reverse=True)
    assert checked > 10


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ("SELECT 1", "The launches are counted from the first one of the capture"),
        ("INSERT OR REPLACE INTO dldb_meta VALUES ('bare_steps', '5')", "The capture begins after"),
        (
            "INSERT INTO windows VALUES (1, 1, 0, 5, 'detach'), (2, 1, 9, 20, 'end')",
            "The capture begins after",
        ),
    ],
)
def test_a_capture_without_the_first_launches_says_so(
    api: ApiClient, settings: LazySettings, tmp_path: Path, change: str, note: str
) -> None:
    (tmp_path / "trace.json").write_bytes(lzma.decompress(CASE.read_bytes()))
    database = tmp_path / "out.sqlite"
    analyze_file(tmp_path / "trace.json", database)
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(change)
    served = serving(database, settings)
    op = api.get(served.at("ops/")).json["results"][0]["op_id"]
    assert api.get(served.at(f"ops/{quote(op)}/ncu/")).json["note"].startswith(note)


def test_a_kernel_has_the_command_of_its_function(api: ApiClient, ours: Served) -> None:
    kernel = api.get(ours.at("kernels/"), page_size=200).json["results"][0]
    address = f"kernels/{quote(kernel['kernel_long_name'], safe='')}/ncu/"
    [found] = api.get(ours.at(address)).json["commands"]
    assert found["kernel_name"] == kernel["kernel_name"]
    assert found["num_launches"] == kernel["num_calls"]
    assert kernel["gpu_time_min_ns"] <= found["gpu_time_ns"] <= kernel["gpu_time_max_ns"]


@pytest.mark.parametrize("address", ["ops/none/ncu/", "ops/none/samples/", "kernels/none/ncu/"])
def test_an_unknown_name_is_an_error(api: ApiClient, ours: Served, address: str) -> None:
    assert api.get(ours.at(address)).status == 404


def test_a_database_without_launches_says_so(api: ApiClient, nvidia: Served) -> None:
    op = api.get(nvidia.at("ops/"), page_size=200).json["results"][0]["op_id"]
    reply = api.get(nvidia.at(f"ops/{quote(op)}/ncu/")).json
    assert reply["commands"] == []
    assert reply["note"]


def test_kernels_shorter_than_three_samples_have_no_mean(
    api: ApiClient, tmp_path: Path, settings: LazySettings
) -> None:
    """40 us each, at a sample every 100 us."""
    (tmp_path / "trace.json").write_bytes(lzma.decompress(CASE.read_bytes()))
    path = analyze_file(tmp_path / "trace.json", tmp_path / "out.sqlite").path
    served = serving(path, settings)
    op = api.get(served.at("ops/"), page_size=200).json["results"][0]["op_id"]
    reply = api.get(served.at(f"ops/{quote(op)}/samples/")).json
    [found] = reply["quantities"]
    assert (found["name"], found["mean_pct"], found["sampled_ns"]) == ("SMs Active", None, 0)
    assert found["reason"]


def test_a_profile_without_samples_says_so(api: ApiClient, ours: Served) -> None:
    op = api.get(ours.at("ops/"), page_size=200).json["results"][0]["op_id"]
    reply = api.get(ours.at(f"ops/{quote(op)}/samples/")).json
    assert reply["quantities"] == []
    assert "--gpu-metrics-devices" in reply["reason"]


def test_a_mean_is_weighted_by_the_time_of_each_sample() -> None:
    """From 150 to 450: half of 10 %, 20 %, 30 %, half of 40 %; one of 100 is too short."""
    start, end = np.array([150, 500]), np.array([450, 600])
    found = mean_of("SMs Active", [COUNTER], start, end, np.zeros(2, dtype=np.int64))
    assert found.mean_pct == pytest.approx((50 * 10 + 100 * 20 + 100 * 30 + 50 * 40) / 300)
    assert (found.sampled_ns, found.gpu_time_ns) == (300, 400)


def test_samples_of_another_gpu_do_not_count() -> None:
    start, end = np.array([150]), np.array([450])
    found = mean_of("SMs Active", [COUNTER], start, end, np.array([1]))
    assert found.mean_pct is None
