"""Summaries of captures: compared as their databases are, and refused when damaged."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from aggregator.compare.document import to_document
from aggregator.compare.history import databases_of, read_history
from aggregator.compare.sides import Source, compare_files
from aggregator.compare.summary import SUFFIX, is_summary, read_summary
from aggregator.errors import (
    AggregationNotFoundError,
    CorruptProfileError,
    IterationRangeError,
    UsageError,
)
from aggregator.system.progress import NullProgress
from profiler_cli.dlprof import main
from tests.conftest import DEMO_PROFILE, ProfileFactory

OTHERS = ("ddp2_resnet50_amp", "pytorch_resnet50_fp32")


def summary(database: Path, target: Path, *words: str) -> Path:
    words = ("--format=summary", f"--output={target}", *words)
    assert main(["export", str(database), *words]) == 0
    return target


@pytest.fixture(scope="module")
def database(imported: ProfileFactory) -> Path:
    return imported(DEMO_PROFILE)


@pytest.fixture(scope="module")
def small(database: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return summary(database, tmp_path_factory.mktemp("summaries") / f"demo{SUFFIX}")


def document(base: str | Path, new: str | Path) -> dict[str, Any]:
    """A comparison without the names of the files."""
    sides = [[Source.parse(str(name))] for name in (base, new)]
    found = to_document(compare_files(sides[0], sides[1], NullProgress()))
    for side in ("base", "new"):
        del found[side]["sources"][0]["name"]
    return found


@pytest.mark.parametrize("other", OTHERS)
def test_summaries_compare_as_their_databases(
    database: Path, small: Path, other: str, imported: ProfileFactory, tmp_path: Path
) -> None:
    expected = document(imported(other), database)
    packed = summary(imported(other), tmp_path / f"a{SUFFIX}")
    assert document(packed, small) == expected
    assert document(packed, database) == expected
    assert packed.stat().st_size < 0.2 * imported(other).stat().st_size


def test_parts_of_a_summary_are_compared(database: Path, small: Path) -> None:
    expected = document(f"{database}@4-9", f"{database}@10-17")
    assert document(f"{small}@4-9", f"{small}@10-17") == expected
    with pytest.raises(IterationRangeError):
        document(f"{small}@4-9", f"{small}@10-99")
    with pytest.raises(AggregationNotFoundError):
        document(f"{small}@1", f"{small}@10-12")


def test_a_summary_is_the_same_each_time_and_of_the_chosen_aggregation(
    database: Path, small: Path, tmp_path: Path
) -> None:
    assert summary(database, tmp_path / f"b{SUFFIX}").read_bytes() == small.read_bytes()
    whole = summary(database, tmp_path / f"c{SUFFIX}", "--aggregation=1")
    assert document(whole, small) == document(f"{database}@1", small)


def test_a_summary_and_its_database_are_one_run(database: Path, small: Path) -> None:
    side = [Source.parse(str(name)) for name in (database, small)]
    with pytest.raises(UsageError, match="are the same run"):
        compare_files(side, [Source.parse(f"{database}@1")], NullProgress())


def test_a_history_takes_summaries_and_databases(
    database: Path, small: Path, tmp_path: Path
) -> None:
    shutil.copyfile(small, tmp_path / f"a{SUFFIX}")
    shutil.copyfile(database, tmp_path / "b.sqlite")
    (tmp_path / f"bad{SUFFIX}").write_bytes(small.read_bytes()[:-200])
    found = read_history([(path.name, path) for path in databases_of(tmp_path)])
    assert [one.name for one in found.captures] == [f"a{SUFFIX}", "b.sqlite"]
    assert len({one.started_at for one in found.captures}) == 1
    assert all(len(set(trend.values_ns)) == 1 for trend in found.trends)
    [skipped] = found.skipped
    assert "is damaged" in skipped.reason


def changed(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], bytes]:
    def write(content: dict[str, Any]) -> bytes:
        change(content)
        return gzip.compress(json.dumps(content).encode())

    return write


def first_time(value: float) -> Callable[[dict[str, Any]], object]:
    return lambda one: one["owned_ns"][0].__setitem__(0, value)


def test_iterations_of_one_phase_need_not_be_consecutive(database: Path, tmp_path: Path) -> None:
    path = tmp_path / "phase.sqlite"
    shutil.copyfile(database, path)
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("UPDATE iterations SET aggregated = 0 WHERE aggr = 1 AND iter_value % 3 = 1")
        writer.commit()
        writer.execute("UPDATE steps SET is_typical = 0 WHERE aggr = 1 AND iter_value % 3 = 1")
        writer.commit()
        query = "SELECT iter_value, stop - start FROM steps WHERE aggr = 1 AND is_typical"
        expected = writer.execute(f"{query} ORDER BY 1").fetchall()
    packed = summary(path, tmp_path / f"phase{SUFFIX}", "--aggregation=1")
    found = read_summary(packed, "phase")
    owned = found.ownership
    assert list(zip(owned.numbers, found.capture.lengths_ns, strict=True)) == expected
    assert owned.owned_ns.sum() == sum(length for _, length in expected)
    part = read_summary(packed, "phase", None, (expected[1][0], expected[3][0]))
    assert part.capture.lengths_ns.tolist() == [length for _, length in expected[1:4]]
    other = f"{database}@2"
    assert document(packed, other) == document(f"{path}@1", other)


DAMAGE = {
    "a time is missing": changed(first_time(0)),
    "a time is no whole number": changed(first_time(1.5)),
    "a time is too large": changed(first_time(10**30)),
    "numbers of iterations fall": changed(lambda one: one.update(iterations=[9, 2, 19])),
    "an iteration is missing": changed(lambda one: one["owned_ns"].pop()),
    "no GPU": changed(lambda one: one.update(gpus=0)),
    "unknown class": changed(lambda one: one["owners"][-1].__setitem__(0, "no class")),
    "unknown op": changed(lambda one: one["owners"][-1].__setitem__(2, 10**9)),
    "kernels of no op": changed(lambda one: one["kernels"].update({"999999": []})),
    "an op has too much": changed(lambda one: one["ops"][0].append("more")),
    "no facts": changed(lambda one: one.pop("facts")),
    "a fact is no text": changed(lambda one: one["facts"].update(GPU=1)),
    "the date is a text": changed(lambda one: one.update(started_ns="today")),
    "unknown version": changed(lambda one: one.update(version=99)),
    "cut text": lambda one: gzip.compress(json.dumps(one).encode()[:-5]),
    "cut file": lambda one: gzip.compress(json.dumps(one).encode())[:-50],
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_summary_is_refused(
    small: Path, tmp_path: Path, damage: Callable[[dict[str, Any]], bytes]
) -> None:
    content = json.loads(gzip.decompress(small.read_bytes()))
    bad = tmp_path / f"bad{SUFFIX}"
    bad.write_bytes(damage(content))
    assert is_summary(bad)
    with pytest.raises(CorruptProfileError):
        read_summary(bad, "bad")


def test_other_files_are_no_summaries(database: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json.gz"
    trace.write_bytes(gzip.compress(b'{"traceEvents": []}'))
    short = tmp_path / "short.gz"
    short.write_bytes(b"\x1f\x8b")
    assert not any(map(is_summary, (database, trace, short, tmp_path / "missing")))
