"""All report files of a capture whose rows have another order are the same, byte for byte."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Self

import pytest

from aggregator.dldb.rows import aggregation
from profiler_cli.dlprof import main
from tests.conftest import ProfileFactory
from tests.row_orders import (
    REVERSED,
    in_another_order,
    tied,
    tied_trace,
    trace_in_another_order,
)

TRACE = "critical_path__alexnet__benchmark_result_2869224_1695835535_trace.json.gz"


class Noon(datetime):
    """A clock that stands: the time of writing is the one thing that differs."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        del tz
        return cls(2026, 1, 1, 12, tzinfo=UTC)


def files(source: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The files that the command writes, the database included."""
    monkeypatch.setattr(aggregation, "datetime", Noon)
    monkeypatch.chdir(source.parent)  # the summary names the file as it was given
    words = ["--reports=all,html,advice", "--formats=csv,json", "--extended=true"]
    words += [f"--database={source.name}", "--dump_model_data=true", "--output_path=out"]
    assert main([*words, "-v=quiet"]) == 0
    return {path.name: path.read_bytes() for path in Path("out").iterdir()}


def assert_same(one: dict[str, bytes], other: dict[str, bytes]) -> None:
    assert one.keys() == other.keys()
    assert [name for name in one if one[name] != other[name]] == []
    assert {"dlprof_summary.csv", "dlprof_kernel.csv", "dlprof_report.html"} <= one.keys()


@pytest.mark.parametrize("name", ["tied", "nvtx_domains", "liz_ddp53"])
def test_reports_of_an_export_in_another_order_are_the_same(
    profile: ProfileFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    source = tied(tmp_path) if name == "tied" else profile(name)
    found = []
    for order in (None, REVERSED, 1):
        folder = tmp_path / str(order)
        folder.mkdir()
        found.append(files(in_another_order(source, folder / "e.sqlite", order), monkeypatch))
    assert_same(found[0], found[1])
    assert_same(found[0], found[2])


@pytest.mark.parametrize("name", ["tied", TRACE])
def test_reports_of_a_trace_in_another_order_are_the_same(
    profile: ProfileFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    source = tied_trace(tmp_path) if name == "tied" else profile(name)
    found = []
    for order in (None, REVERSED, 1):
        folder = tmp_path / str(order)
        folder.mkdir()
        found.append(files(trace_in_another_order(source, folder / "t.json", order), monkeypatch))
    assert_same(found[0], found[1])
    assert_same(found[0], found[2])
