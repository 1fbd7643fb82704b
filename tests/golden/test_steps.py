"""The step: which intervals are steps and how long they take, on small captures made by scripts."""

from __future__ import annotations

import lzma
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from aggregator.options import ImportOptions
from aggregator.pipeline import import_profile
from aggregator.system.progress import NullProgress
from profiler_cli.dlprof import main
from tests.builders import query, unpacked
from tests.conftest import made_once

CASES = Path(__file__).parents[1] / "data" / "cases"
MS = 1_000_000
Case = Callable[[str], Path]


@pytest.fixture(scope="session")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A function from the name of a case to its database, which must not be changed."""

    def database(name: str) -> Path:
        def make(path: Path) -> None:
            source = path.with_name(name)
            source.write_bytes(lzma.decompress((CASES / f"{name}.xz").read_bytes()))
            import_profile(ImportOptions(source, path), NullProgress())

        return made_once(tmp_path_factory, f"cases/{name}.dldb.sqlite", make)

    return database


def _newest(path: Path, columns: str, view: str) -> Any:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        query = (
            f"SELECT {columns} FROM {view} WHERE aggr_id ="
            " (SELECT max(aggr_id) FROM view_aggregations)"
        )
        return connection.execute(query).fetchall()


@pytest.mark.parametrize(
    ("name", "loop_steps", "step_ms"),
    [
        ("epoch_end_is_no_step.two_epochs.sqlite", 16, 1.0),
        ("host_runs_ahead.trace.json", 6, 5.0),
        ("last_step_lasts_to_the_end.trace.json", 2, 10.0),
        ("two_cycles_with_a_pause.trace.json", 8, 5.0),
        ("microbatches_of_a_pipeline.capture.sqlite", 5, 5.47),
        ("profiler_step_per_micro_batch.trace.json", 12, 3.0),
        ("step_ends_inside_the_optimizer.trace.json", 6, 5.0),
        ("kernel_long_before_its_call.capture.sqlite", 8, 1.0),
        ("trace_without_kernels.trace.json", 6, 1.0),
    ],
)
def test_the_steps_are_counted_and_timed(
    case: Case, name: str, loop_steps: int, step_ms: float
) -> None:
    (row,) = _newest(case(name), "*", "view_typical_step")
    assert (row["loop_steps"], row["statistic"]) == (loop_steps, "median")
    assert row["typical_step"] == pytest.approx(step_ms * MS, rel=0.001)
    assert row["step_mean"] == pytest.approx(step_ms * MS, rel=0.01)


def test_the_end_of_an_epoch_is_no_step(case: Case) -> None:
    path = case("epoch_end_is_no_step.two_epochs.sqlite")
    (row,) = _newest(path, "between_steps", "view_typical_step")
    assert '"kind": "end of an epoch"' in row["between_steps"]


def _advice(path: Path, column: str) -> list[str]:
    rows = _newest(path, f"advice_name, {column}", "view_advice")
    return [row[column] for row in rows if row["advice_name"] not in ("batch_size", "launch_bound")]


def test_a_pause_of_the_profiler_is_no_step(case: Case) -> None:
    path = case("two_cycles_with_a_pause.trace.json")
    (row,) = _newest(path, "between_steps", "view_typical_step")
    assert '"kind": "pause"' in row["between_steps"]
    (usage,) = _newest(path, "other_duration_pct", "view_resource_usage_breakdown")
    assert usage["other_duration_pct"] < 45
    rows = _newest(path, "advice_name, severity, gain_pct", "view_advice")
    of_host = [row for row in rows if row["advice_name"] in ("host_stalls", "launch_bound")]
    # What a fix saves is unknown: such a finding is never of high severity.
    assert {(row["severity"], row["gain_pct"]) for row in of_host} <= {
        ("low", None),
        ("medium", None),
    }


def test_a_kernel_long_before_its_call_is_moved_and_said(case: Case) -> None:
    path = case("kernel_long_before_its_call.trace.json")
    sql = "SELECT wall_clock_time FROM view_performance_summary WHERE aggr_id = 1"
    ((wall_ns,),) = query(path, sql)
    codes = dict(query(path, "SELECT code, count FROM view_warnings"))
    assert wall_ns == pytest.approx(5.9 * MS, rel=0.01)
    assert codes["EARLY_WORK"] == 1


def test_layers_of_a_forward_pass_are_no_steps(case: Case) -> None:
    path = case("fsdp_layers_without_a_step.window.sqlite")
    (row,) = _newest(path, "typical_step, loop_steps", "view_typical_step")
    assert tuple(row) == (None, 0)
    (found,) = _newest(path, "key_node_name", "view_aggregations")
    assert found["key_node_name"] == ""


def test_an_optimizer_without_a_fused_form_for_gpus_gets_none(case: Case) -> None:
    texts = _advice(case("adagrad_fused_is_cpu_only.trace.json"), "recommendation")
    assert [text for text in texts if "Adagrad" in text and "foreach=True" in text]
    assert [text for text in texts if "fused=True" in text] == []


def test_a_gpu_of_another_rank_is_not_unused(case: Case) -> None:
    path = case("gpu_of_another_rank.rank0.sqlite")
    names = {row["advice_name"] for row in _newest(path, "advice_name", "view_advice")}
    assert "exposed_communication" in names
    assert "unused_gpus" not in names


def test_sizes_that_depend_on_values_are_found_in_other_ops(case: Case) -> None:
    rows = _newest(
        case("where_of_one_argument.moe.sqlite"), "advice_name, recommendation", "view_advice"
    )
    texts = {row["advice_name"]: row["recommendation"] for row in rows}
    assert "sizes in it depend on values (nonzero)" in texts["launch_bound"]


def test_a_trace_without_kernels_names_what_its_activities_lack(case: Case) -> None:
    rows = _newest(case("trace_without_kernels.trace.json"), "needs", "view_advice")
    assert ["ProfilerActivity.CUDA" in row["needs"] for row in rows] == [True]


def test_a_rank_that_waits_in_a_synchronizing_call_is_not_late(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = [CASES / f"late_rank_of_five_noisy_steps.rank{rank}.json.xz" for rank in range(2)]
    sources = [unpacked(one, tmp_path) for one in packed]
    assert main([f"--database={','.join(map(str, sources))}", f"--output_path={tmp_path}"]) == 0
    path = tmp_path / "dlprof_dldb.sqlite"
    capsys.readouterr()
    main(["stragglers", str(path)])
    assert "Without rank 0 the step takes 65 ms instead of 98 ms" in capsys.readouterr().out
    rows = _newest(path, "advice_name, problem, gain_ns", "view_advice")
    late = next(row for row in rows if row["advice_name"] == "late_ranks")
    assert "rank 0" in late["problem"]
    assert late["gain_ns"] == pytest.approx(33 * MS, rel=0.05)
