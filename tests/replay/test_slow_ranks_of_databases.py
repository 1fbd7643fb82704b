"""Slow ranks of databases: from an export, over the database, to the command."""

from __future__ import annotations

import copy
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aggregator.dldb.event_reader import stored_events
from aggregator.errors import ReplayError
from aggregator.replay.rank_report import (
    ComparedRank,
    ErrorPct,
    RankStep,
    Stragglers,
    rank_prediction,
    read_slow_ranks,
)
from aggregator.replay.reader import read_replayed
from aggregator.tables.plotly.bars import slow_ranks
from dlprof_client import connect
from profiler_cli.dlprof import main
from tests.builders import Analyzed, Row, Trace, analyze
from tests.conftest import ProfileFactory
from tests.replay.simulated_job import Job, simulate, speeds

JOB = Job(
    ranks=3,
    steps=14,
    kernels=8,
    buckets=2,
    kernel_ns=200_000,
    transfer_ns=300_000,
    jitter=0.002,
    synchronizes=True,
)
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def write(
    folder: Path,
    factor: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    earlier: tuple[int, ...] = (0, 0, 0),
) -> Analyzed:
    """A job as a database."""
    return analyze(export(factor, earlier), folder)


def export(
    factor: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    earlier: tuple[int, ...] = (0, 0, 0),
) -> Trace:
    """A job as an export with a process for each rank.

    ``earlier``: all-reduces of each rank that were launched before the capture began.
    """
    events, _ = simulate(JOB, factor, 7)
    trace = Trace()
    for rank, own in enumerate(events):
        trace.gpu(rank)
        thread = trace.thread(pid=101 + rank)
        for number in range(earlier[rank]):
            start = int(own.start_ns.min()) - (number + 1) * 10_000
            thread.process.kernel(
                ALL_REDUCE,
                start,
                start + 8_000,
                correlation=None,
                device=rank,
                long_name=f"{ALL_REDUCE}(x)",
                stream=17,
            )
        per_step = len(own.start_ns) // JOB.steps
        for row in range(len(own.start_ns)):
            if row % per_step == 0:
                first, last = int(own.api_start_ns[row]), row + per_step - 1
                step = row // per_step
                thread.range(f"iteration {step}", first - 100, int(own.api_end_ns[last]) + 100)
            name = "gemm" if own.computes[row] else ALL_REDUCE
            thread.launch(
                name,
                int(own.api_start_ns[row]),
                gpu=(int(own.start_ns[row]), int(own.end_ns[row])),
                device=rank,
                long_name=f"{name}(x)",
                stream=7 if own.computes[row] else 17,
            )
    return trace


def injected(rank: int, share: float) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    factor = speeds(JOB, 7)
    factor[rank] *= 1 + share
    return factor


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_the_command_names_the_slow_rank(
    tmp_path: Path, share: float, capsys: pytest.CaptureFixture[str]
) -> None:
    database = write(tmp_path, injected(1, share)).path
    assert main(["stragglers", str(database), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["slow_rank"] == 1
    assert document["confidence"] == "high"
    truth = np.diff(simulate(JOB, speeds(JOB, 7), 7)[1]).mean()
    assert document["ranks"][1]["step_without_ns"] == pytest.approx(truth, rel=0.05)
    assert len(document["iterations"]) >= 8
    assert main(["stragglers", str(database)]) == 0
    assert capsys.readouterr().out.startswith("Without rank 1 the step takes")


def test_a_rank_as_fast_as_the_others_saves_the_same_in_any_step(tmp_path: Path) -> None:
    """Ranks are compared from collective to collective; steps on a GPU may have other lengths."""
    database = write(tmp_path, injected(1, 0.2)).path
    with closing(sqlite3.connect(database)) as connection:
        report, profile = (
            read_slow_ranks(stored_events(connection), 1),
            read_replayed(stored_events(connection), 1),
        )
    longer = copy.copy(profile)
    longer.graph = replace(profile.graph, work_start_ns=3 * profile.graph.work_start_ns)
    step_ns = float(np.median(longer.measured_ns))
    assert step_ns > 2 * report.found.step_ns
    found = rank_prediction(report, "1", longer, alone=True)
    gain_ns = report.found.step_ns - report.found.predicted_ns(1)
    assert step_ns - found.predicted_step_ns == pytest.approx(gain_ns, rel=0.1)


@pytest.mark.parametrize("share", [0.05, 0.08])
def test_advice_about_a_late_rank_gains_what_its_replay_does(tmp_path: Path, share: float) -> None:
    """The time that the others wait is no measure: it is waited for in several collectives."""
    analyzed = write(tmp_path, injected(1, share))
    ((gain_pct, source, reasoning),) = analyzed.query(
        "SELECT gain_pct, gain_source, reasoning FROM view_advice"
        " WHERE aggr_id = 1 AND advice_name = 'late_ranks'"
    )
    assert source == "replay"
    assert "replayed with rank 1 as fast as" in reasoning
    even, slowed = (
        np.diff(simulate(JOB, factor, 7)[1]).mean()
        for factor in (speeds(JOB, 7), injected(1, share))
    )
    assert gain_pct == pytest.approx(100 * (1 - even / slowed), abs=0.3)


def test_the_profiles_of_all_ranks_are_joined_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for rank in range(JOB.ranks):
        trace = export(injected(1, 0.2))
        trace.session(1_700_000_000_000_000_000, "host")
        for rows in trace.tables.values():
            rows[:] = [row for row in rows if _process(row) in (None, 101 + rank)]
        files.append(str(trace.write(tmp_path / f"rank{rank}.sqlite")))
    assert main(["stragglers", *files, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["slow_rank"], len(document["ranks"])) == (1, JOB.ranks)
    assert main(["stragglers", files[0], str(tmp_path)]) == 2
    assert "profiles of all ranks" in capsys.readouterr().err


def _process(row: Row) -> int | None:
    """Process of a row of an export; None: it is of no process."""
    known = row.get("globalPid", row.get("globalTid"))
    return None if known is None else (known >> 24) & 0xFFFFFF


def test_a_rank_that_slept_in_every_fifth_step_of_steps_that_vary(imported: ProfileFactory) -> None:
    """It slept for 0.12 s; the other steps take 56 to 104 ms."""
    with closing(sqlite3.connect(imported("ddp"))) as connection:
        found = read_slow_ranks(stored_events(connection), 1).found
    assert (found.named, found.every, len(found.slow_steps)) == (1, 5, 6)
    truth_ns = found.measured_ns.mean() - 0.12e9 * 6 / len(found.measured_ns)
    assert found.predicted_ns(1) == pytest.approx(truth_ns, rel=0.05)


def test_ranks_whose_launches_are_not_recorded_are_not_compared(tmp_path: Path) -> None:
    """Nothing shows then whether a rank waited for its CPU: all of them would seem equal."""
    trace = export(injected(1, 0.2))
    trace.tables["CUPTI_ACTIVITY_KIND_RUNTIME"].clear()
    database = analyze(trace, tmp_path).path
    with closing(sqlite3.connect(database)) as connection, pytest.raises(ReplayError) as caught:
        read_slow_ranks(stored_events(connection), 1)
    assert "100 % of the launches of rank 0 are not recorded" in caught.value.message


def test_the_heat_map_shows_how_late_each_rank_was_in_each_step(tmp_path: Path) -> None:
    run = connect(write(tmp_path, injected(1, 0.2)).path)
    found, figure = run.stragglers(), run.figure_data("slow-ranks")
    (trace,) = figure["data"]
    assert figure["layout"]["meta"]["verdict"] == found["verdict"]
    assert trace["y"] == ["0", "1", "2"]
    assert trace["x"] == [step["iteration_index"] for step in found["iterations"]]
    late_ns = [list(row) for row in zip(*(s["late_ns"] for s in found["iterations"]), strict=True)]
    assert trace["customdata"] == late_ns
    assert trace["zmax"] == max(max(row) for row in trace["z"])
    assert min(late_ns[1]) > max(*late_ns[0], *late_ns[2])


def test_a_heat_map_of_many_steps_and_ranks_shows_means_and_the_latest_ranks() -> None:
    steps = [
        RankStep(iteration_index=step, step_ns=0, late_ns=[10 * rank + step for rank in range(300)])
        for step in range(250)
    ]
    ranks = [
        ComparedRank(rank=rank, late_ns=rank, step_without_ns=None, contribution_pct=None)
        for rank in range(300)
    ]
    of_steps = ("mean", 250, 0, 0, 0, 1.0)
    found = Stragglers("", "high", [], None, [], *of_steps, ErrorPct(0.0, 0.0), ranks, steps)
    (trace,) = slow_ranks(found)["data"]
    assert (trace["x"][:2], trace["x"][-1]) == ([0, 3], 249)
    assert trace["y"] == [str(rank) for rank in range(44, 300)]
    assert trace["customdata"][0][:2] == [441, 444]
    assert trace["customdata"][0][-1] == 440 + 249  # A column of one step.


def test_equal_ranks_name_no_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = write(tmp_path, speeds(JOB, 7)).path
    assert main(["stragglers", str(database)]) == 0
    assert capsys.readouterr().out.startswith("No rank makes the step slow")


def test_calls_from_before_the_capture_match_no_others(tmp_path: Path) -> None:
    """How many of them a rank recorded is chance, so calls are counted from the first one after."""
    run = write(tmp_path, injected(1, 0.2), earlier=(4, 1, 0))
    found = run.query("SELECT num_ranks, count(*) FROM collectives GROUP BY 1 ORDER BY 1")
    assert found == [(1, 5), (3, 3 * JOB.steps * JOB.buckets)]
    with closing(sqlite3.connect(run.path)) as connection:
        assert read_slow_ranks(stored_events(connection), 1).found.named == 1


def changed(source: Path, target: Path, *queries: str) -> sqlite3.Connection:
    target.write_bytes(source.read_bytes())
    connection = sqlite3.connect(target)
    for query in queries:
        connection.execute(query)
    connection.commit()
    return connection


def test_what_does_not_fit_lowers_the_confidence(tmp_path: Path) -> None:
    source = write(tmp_path, injected(1, 0.2)).path
    rank_is_missing = "UPDATE ranks SET rank = 3 WHERE rank = 2"
    unknown_clock = "UPDATE ranks SET aligned_by = 'nothing' WHERE rank = 2"
    silent = "UPDATE collectives SET communicator = NULL WHERE rank = 3"
    drifting = "UPDATE ranks SET clock_residual = 900000 WHERE rank = 2"
    for query, note in (
        (rank_is_missing, "Rank 2 is missing"),
        (unknown_clock, "The clock of rank 2 is unknown"),
        (silent, "Rank 2 shares no collective"),
        (drifting, "fit each other to 0.9 ms only"),
    ):
        report = read_slow_ranks(
            stored_events(changed(source, tmp_path / "changed.sqlite", query)), 1
        )
        assert report.confidence == "medium"
        assert note in report.notes[0]


def test_ranks_that_cannot_be_compared_have_a_reason(tmp_path: Path) -> None:
    source = write(tmp_path, speeds(JOB, 7)).path
    target = tmp_path / "changed.sqlite"
    for query, reason in (
        ("DELETE FROM collectives", "no collective"),
        ("UPDATE ranks SET aligned_by = 'nothing'", "clocks are unknown"),
        ("DELETE FROM ranks WHERE rank > 0", "one rank"),
        ("DELETE FROM collectives WHERE sequence % 3 = 0 AND rank = 1", "fewer than 4 steps"),
    ):
        with pytest.raises(ReplayError, match=reason):
            read_slow_ranks(stored_events(changed(source, target, query)), 1)
    changed(source, target, "DELETE FROM collectives").close()
    assert main(["stragglers", str(target)]) == 4


def test_the_steps_of_a_real_job_are_replayed(imported: Callable[[str], Path]) -> None:
    """The replay of two ranks of ResNet-50; each is late about as often as the other."""
    connection = sqlite3.connect(imported("ddp2_resnet50_amp"))
    report = read_slow_ranks(stored_events(connection), 2)
    assert report.found.error_pct[1] < 1.0
    assert report.found.named is None
    ends = connection.execute(
        "SELECT max(k.start + k.duration) FROM collectives AS c"
        " JOIN kernels AS k ON k.id = c.kernel"
        " JOIN iterations AS i ON i.aggr = 2 AND k.id >= i.kernel_low AND k.id < i.kernel_high"
        " WHERE c.kind = 'AllReduce' AND i.iter_value BETWEEN ? AND ? GROUP BY i.iter_value",
        (report.iterations[0] - 1, report.iterations[-1]),
    ).fetchall()
    steps = np.diff([row[0] for row in ends])
    assert report.found.measured_ns == pytest.approx(steps)
    assert report.found.ideal_ns.mean() < steps.mean()
