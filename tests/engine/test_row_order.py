"""Captures whose rows have another order: nothing that is read of them depends on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aggregator.profile.profile import Profile
from aggregator.sources import open_profile
from aggregator.system.progress import NullProgress
from tests.builders import contents
from tests.conftest import ProfileFactory
from tests.row_orders import REVERSED, in_another_order, tied, tied_trace, trace_in_another_order

ALEXNET = "critical_path__alexnet__benchmark_result_2869224_1695835535_trace"


def read(path: Path) -> Profile:
    profile = open_profile(path, NullProgress())
    profile.source_name = ""
    return profile


@pytest.mark.parametrize("order", [REVERSED, 1])
@pytest.mark.parametrize(
    "name",
    ["tied", "nvtx_domains", "simple_no_nvtx", "liz_ddp53", "yyh_net", "zx3", "crash_segfault"],
)
def test_an_export_is_read_the_same_in_any_order(
    profile: ProfileFactory, tmp_path: Path, name: str, order: int
) -> None:
    source = tied(tmp_path) if name == "tied" else profile(name)
    moved = in_another_order(source, tmp_path / "moved.sqlite", order)
    one, other = contents(read(source)), contents(read(moved))
    assert [key for key in one if one[key] != other[key]] == []


@pytest.mark.parametrize("order", [REVERSED, 1])
@pytest.mark.parametrize("name", ["tied", "b200__eager_trace", ALEXNET])
def test_a_trace_is_read_the_same_in_any_order(
    profile: ProfileFactory, tmp_path: Path, name: str, order: int
) -> None:
    source = tied_trace(tmp_path) if name == "tied" else profile(f"{name}.json.gz")
    plain = trace_in_another_order(source, tmp_path / "plain.json", None)
    moved = trace_in_another_order(source, tmp_path / "moved.json", order)
    one, other = contents(read(plain)), contents(read(moved))
    assert [key for key in one if one[key] != other[key]] == []


def test_of_ranges_with_the_same_times_the_one_begun_first_is_outside(tmp_path: Path) -> None:
    # GIVEN an op that calls another one within the resolution of the clock
    ops = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 10, "dur": 5}
        | {"args": {field: number}}
        for field in ("Ev Idx", "External id")
        for number, name in [(2, "aten::_to_copy"), (1, "aten::to")]
    ]
    call = {"ph": "X", "cat": "cuda_runtime", "name": "a", "pid": 1, "tid": 1, "ts": 12, "dur": 1}
    for events in (ops[:2], ops[2:], ops[1::-1], ops[:1:-1]):
        path = tmp_path / "t.json"
        path.write_text(json.dumps({"traceEvents": [*events, call]}))
        found = read(path)
        # THEN the other one is inside it
        names = [found.range_names[code] for code in found.ranges.name.tolist()]
        assert names == ["aten::to", "aten::_to_copy"]
