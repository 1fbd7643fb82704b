"""``dlprof export`` to tables and to monitoring: read back by the tools that these are for."""

from __future__ import annotations

import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from prometheus_client.parser import text_string_to_metric_families

from aggregator.tables.declared.addresses import WHOLE_TABLES
from aggregator.tables.key_figures import KeyFigure
from profiler_cli.dlprof import main
from profiler_cli.exports.figures import prometheus_text
from tests.conftest import ProfileFactory

FORMATS = ["csv", "parquet", "prometheus", "otlp", "tensorboard"]


@pytest.fixture(scope="module")
def database(imported: ProfileFactory) -> Path:
    return imported("pytorch_resnet50_amp")


def query(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute(sql).fetchall()


def export(database: Path, name: str, target: Path, *words: str) -> Path:
    assert main(["export", f"--format={name}", str(database), f"--output={target}", *words]) == 0
    return target


def test_parquet_holds_every_table_with_its_types(database: Path, tmp_path: Path) -> None:
    folder = export(database, "parquet", tmp_path / "out", "--aggregation=1")
    assert {path.stem for path in folder.iterdir()} == set(WHOLE_TABLES)
    ops = pq.read_table(folder / "ops.parquet")
    sql = "SELECT op_node_id, gpu_time FROM view_op_nodes WHERE aggr_id = 1"
    expected = dict(query(database, sql))
    found = dict(zip(ops["op_id"].to_pylist(), ops["gpu_time_ns"].to_pylist(), strict=True))
    assert found == expected
    types = {field.name: str(field.type) for field in ops.schema}
    assert (types["gpu_time_ns"], types["using_tc"], types["op_id"]) == ("int64", "bool", "string")
    assert b"GPU" in ops.schema.field("gpu_time_ns").metadata[b"description"]


def test_csv_holds_the_same_rows_as_parquet(database: Path, tmp_path: Path) -> None:
    tables = export(database, "csv", tmp_path / "csv"), export(database, "parquet", tmp_path / "p")
    for name in ("ops", "kernels", "iterations"):
        csv, parquet = (
            pc.read_csv(tables[0] / f"{name}.csv"),
            pq.read_table(tables[1] / f"{name}.parquet"),
        )
        assert csv.column_names == parquet.column_names
        assert csv.num_rows == parquet.num_rows > 0
        shared = "num_calls" if name != "iterations" else "duration_ns"
        assert csv[shared].to_pylist() == parquet[shared].to_pylist()


def test_labels_of_prometheus_are_plain_text() -> None:
    figures = [KeyFigure("n", "", "a\\b\nc", 1.0, {"name": '\x1b[31m"\n\u202ex'})]
    text = prometheus_text(figures, {})
    assert all(char.isprintable() or char == "\n" for char in text)
    (family,) = text_string_to_metric_families(text)
    assert family.samples[0].labels == {"name": '\\x1b[31m"\n\\u202ex'}


def test_prometheus_reads_the_key_figures(database: Path, tmp_path: Path) -> None:
    text = export(database, "prometheus", tmp_path / "run.prom", "--aggregation=2").read_text()
    families = {one.name: one for one in text_string_to_metric_families(text)}
    samples = [
        (one.name, tuple(one.labels.items())) for f in families.values() for one in f.samples
    ]
    assert len(samples) == len(set(samples))
    assert all(family.type == "gauge" for family in families.values())
    ((median,),) = query(
        database, "SELECT iter_median FROM view_performance_summary WHERE aggr_id = 2"
    )
    (sample,) = families["dlprof_iter_median_seconds"].samples
    assert math.isclose(sample.value, median / 1e9)
    ratios = [one for name, one in families.items() if name.endswith("_ratio")]
    assert ratios
    types = families["dlprof_op_type_gpu_time_seconds"].samples
    assert {"conv2d", "batch_norm"} <= {one.labels["op_type"] for one in types}
    # What was not measured is absent: never a zero.
    assert "dlprof_io_ratio" not in families


def test_an_otlp_collector_reads_the_key_figures(database: Path, tmp_path: Path) -> None:
    text = export(database, "otlp", tmp_path / "run.json").read_text()
    service = pytest.importorskip(
        "opentelemetry.proto.collector.metrics.v1.metrics_service_pb2",
        reason="opentelemetry-proto is not installed",
    )
    json_format = pytest.importorskip("google.protobuf.json_format")
    request = json_format.Parse(text, service.ExportMetricsServiceRequest())
    (scope,) = request.resource_metrics[0].scope_metrics
    by_name = {one.name: one for one in scope.metrics}
    point = by_name["dlprof.iter_median_seconds"].gauge.data_points[0]
    assert point.as_double > 0
    assert point.time_unix_nano > 1.6e18
    assert by_name["dlprof.iter_median_seconds"].unit == "s"
    assert len(by_name) == len(scope.metrics) == len({one["name"] for one in _metrics(text)})


def _metrics(text: str) -> list[dict[str, Any]]:
    return list(json.loads(text)["resourceMetrics"][0]["scopeMetrics"][0]["metrics"])


def test_tensorboard_reads_every_iteration(database: Path, tmp_path: Path) -> None:
    folder = export(database, "tensorboard", tmp_path / "board")
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="tensorboard is not installed",
    )
    events = reader.EventAccumulator(str(folder))
    events.Reload()
    scalars = events.Scalars("dlprof/duration_ms")
    sql = "SELECT iter_value, duration FROM view_iterations_detail WHERE aggr_id = 1 ORDER BY 1"
    expected = query(database, sql)
    assert [one.step for one in scalars] == [number for number, _ in expected]
    lengths = [duration / 1e6 for _, duration in expected]
    assert [one.value for one in scalars] == pytest.approx(lengths, rel=1e-6)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("capture", ["simple_no_nvtx", "nvtx_domains"])
def test_a_profile_without_ops_is_exported(
    name: str, capture: str, imported: ProfileFactory, tmp_path: Path
) -> None:
    target = export(imported(capture), name, tmp_path / "out")
    assert target.exists()


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_is_replaced_without_force(
    name: str, database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["export", f"--format={name}", str(database), f"--output={tmp_path / 'out'}"]
    assert [main(words), main(words), main([*words, "--force"])] == [0, 2, 0]
    assert "exists already" in capsys.readouterr().err
    assert not [path for path in tmp_path.rglob("*") if "tmp" in path.suffix]


@pytest.mark.parametrize(
    ("words", "code"),
    [(["--aggregation=9"], 2), (["--iter_start=1"], 2), (["--output=/proc/x"], 5)],
)
def test_a_mistake_leaves_no_file(
    words: list[str], code: int, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = [] if any("output" in word for word in words) else ["--output=out"]
    assert main(["export", "--format=parquet", str(database), *target, *words]) == code
    assert list(tmp_path.iterdir()) == []
