"""Stragglers of pipeline-parallel jobs, against published results and by construction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from aggregator.errors import ProfileError
from aggregator.replay.op_times import read_op_times
from aggregator.replay.stragglers import Removal, Stragglers, find_stragglers
from profiler_cli.dlprof import main

TOLERANCE = 1e-6
JOBS = ("SE", "ST")


class Published:
    """The results that were published with a trace."""

    def __init__(self, folder: Path, job: str) -> None:
        self.trace = folder / f"trace-{job}.parquet"
        self.result = json.loads((folder / f"result-{job}.json").read_text())
        self.ms = json.loads((folder / f"ms-{job}.json").read_text())
        self.mw = json.loads((folder / f"mw-{job}.json").read_text())


@pytest.fixture(scope="module", params=JOBS)
def published(request: pytest.FixtureRequest, shared_dir: Path) -> Published:
    folder = shared_dir / "public" / "stragglers"
    if not folder.is_dir():
        pytest.skip(f"no published traces at {folder}")
    return Published(folder, request.param)


@pytest.fixture(scope="module")
def found(published: Published) -> Stragglers:
    return find_stragglers(read_op_times(published.trace))


def near(expected: Any) -> Any:
    return pytest.approx(expected, rel=0, abs=TOLERANCE)


def test_the_slowdown_is_the_published_one(published: Published, found: Stragglers) -> None:
    result = published.result
    assert found.slowdown.mean == near(result["blocking_slowdown"])
    steps = [str(step) for step in found.steps]
    per_step = dict(zip(steps, found.slowdown.per_step, strict=True))
    assert per_step == near(result["blocking_step_slowdown"])
    for times, name in (
        (found.measured_s, "base"),
        (found.replayed_s, "nodelay"),
        (found.ideal_s, "noblk"),
    ):
        assert dict(zip(steps, times, strict=True)) == near(result[f"step_t_{name}"])


def test_the_slowdown_by_op_type_rank_and_stage_is_the_published_one(
    published: Published, found: Stragglers
) -> None:
    by = {
        "optype": found.by_op_type,
        "dp_rank": {str(rank): one for rank, one in enumerate(found.by_dp_rank)},
        "stage": {str(stage): one for stage, one in enumerate(found.by_stage)},
    }
    for name, mine in by.items():
        expected = published.result[f"blocking_decompose_by_{name}"]
        assert {key: one.mean for key, one in mine.items()} == near(expected)
        per_step = published.result[f"blocking_decompose_by_{name}_per_step"]
        for row, step in enumerate(found.steps):
            at_step = {key: one.per_step[row] for key, one in mine.items()}
            assert at_step == near(per_step[str(step)])


def test_the_contributions_are_the_published_ones(published: Published, found: Stragglers) -> None:
    def as_published(removal: Removal | None) -> dict[str, float]:
        assert removal is not None
        return {
            "trem": removal.removed_s,
            "tadd": removal.added_s,
            "rem": removal.removed_share,
            "add": removal.added_share,
        }

    for removal, expected in (
        (found.last_stage, published.ms),
        (found.slowest_workers, published.mw),
    ):
        mine = as_published(removal)
        assert mine == near({name: expected[name] for name in mine})


def test_the_command_prints_the_measures(
    published: Published, found: Stragglers, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stragglers", str(published.trace), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["S"] == found.slowdown.mean
    assert document["M_S"]["share"] == near(published.ms["Ms"])
    assert document["M_W"]["share"] == near(published.mw["Mw"])
    assert main(["stragglers", str(published.trace)]) == 0
    assert "last pipeline stage" in capsys.readouterr().out.splitlines()[0]


def job(path: Path, *, ranks: int = 4, slow: int | None = None, factor: float = 1.0) -> Path:
    """A job of one stage and two micro-batches in which one rank may compute slower."""
    rows = []
    chain = (
        *(("params-all-gather", 0, 0.1), ("forward-compute", 0, 1.0), ("forward-compute", 1, 1.0)),
        *(("backward-compute", 0, 2.0), ("backward-compute", 1, 2.0), ("gc", 0, 0.0)),
        *(("layernorm-grads-all-reduce", 0, 0.0), ("embedding-grads-all-reduce", 0, 0.0)),
        *(("grads-reduce-scatter", 0, 0.2), ("optimizer-clip-main-grad", 0, 0.1)),
        ("optimizer", 0, 0.1),
    )
    for step in range(3):
        for rank in range(ranks):
            at = 0.0
            for name, number, duration in chain:
                is_slow = rank == slow and name.endswith("compute")
                waits = 6.0 * (factor - 1.0) if name == "grads-reduce-scatter" else 0.0
                time = duration * (factor if is_slow else 1.0)
                time += waits if rank != slow else 0.0
                rows.append((rank, 0, rank, step, name, at, time, number, 0, 0))
                at += time
    names = ("dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "seq_id")
    columns = zip(*rows, strict=True)
    parquet.write_table(pa.table(dict(zip((*names, "mc", "gmc"), columns, strict=True))), path)
    return path


def test_a_rank_that_computes_slower_explains_the_slowdown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = job(tmp_path / "slow.parquet", slow=2, factor=1.5)
    found = find_stragglers(read_op_times(trace))
    assert found.slowest == (2,)
    assert found.replayed_s == pytest.approx(np.full(3, 9.5), abs=1e-5)
    assert found.slowest_workers.removed_s < 7.3
    assert found.by_worker[2] > 1.1 > found.by_worker[1]
    main(["stragglers", str(trace)])
    assert "Without the slowness of rank 2" in capsys.readouterr().out


def test_equal_ranks_are_not_slow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = job(tmp_path / "even.parquet")
    assert find_stragglers(read_op_times(trace)).slowdown.mean == pytest.approx(1.0)
    main(["stragglers", str(trace)])
    assert capsys.readouterr().out.startswith("No rank, stage or kind of op")


@pytest.mark.parametrize(
    "damage", ["no parquet", "no column", "a missing op", "no time", "unknown op", "text"]
)
def test_a_file_that_cannot_be_used_is_an_error(tmp_path: Path, damage: str) -> None:
    path = job(tmp_path / "job.parquet")
    table = parquet.read_table(path)
    if damage == "no parquet":
        path.write_bytes(b"PAR1 nothing")
    elif damage == "no column":
        parquet.write_table(table.drop_columns(["gmc"]), path)
    elif damage == "a missing op":
        parquet.write_table(table.slice(1), path)
    elif damage == "no time":
        none = pa.array([0.0] * table.num_rows)
        column = table.schema.get_field_index("duration")
        parquet.write_table(table.set_column(column, "duration", none), path)
    else:
        name, value = ("optype", "dance") if damage == "unknown op" else ("start_ts", "soon")
        column = table.schema.get_field_index(name)
        values = pa.array([value] * table.num_rows)
        parquet.write_table(table.set_column(column, name, values), path)
    with pytest.raises(ProfileError):
        find_stragglers(read_op_times(path))
    assert main(["stragglers", str(path)]) == 4
