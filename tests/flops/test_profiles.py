"""Costs of real captures: what is known, and the totals, beside PyTorch's own counter."""

from __future__ import annotations

import lzma
import re
import sqlite3
from pathlib import Path

import pytest

from aggregator.flops.convolution import output_shape
from aggregator.options import AggregationRequest, ImportOptions
from aggregator.pipeline import aggregate, import_profile
from aggregator.progress import NullProgress
from tests.conftest import ProfileFactory
from tests.flops.counters import DATA

RESNET50_IMAGE = 777_570_484_224 // 32
"""Operations of a training step on one image: tests/flops/test_torch_counts.py."""
BERT_STEP = 1_338_966_540_288 + 12 * (805_306_368 + 2_013_265_920)
"""Linear layers by PyTorch's counter, and 12 layers of attention, forward and backward."""


def imported(source: Path, folder: Path) -> sqlite3.Connection:
    database = folder / "dldb.sqlite"
    import_profile(ImportOptions(source, database), NullProgress())
    connection = sqlite3.connect(database)
    connection.row_factory = sqlite3.Row
    return connection


@pytest.fixture(scope="module", params=["pytorch_resnet50_fp32", "pytorch_bert_bf16"])
def run(
    request: pytest.FixtureRequest,
    profile: ProfileFactory,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[str, sqlite3.Connection]:
    name = str(request.param)
    return name, imported(profile(name), tmp_path_factory.mktemp(name))


def test_nearly_all_gpu_time_is_in_ops_with_known_costs(
    run: tuple[str, sqlite3.Connection],
) -> None:
    row = run[1].execute("SELECT * FROM view_model_efficiency").fetchone()
    assert row["known_pct"] >= 99.0
    total = run[1].execute("SELECT sum(gpu_time) FROM op_instances").fetchone()[0]
    assert row["gpu_time_sum"] == total


def test_every_step_has_the_operations_of_pytorchs_counter(
    run: tuple[str, sqlite3.Connection],
) -> None:
    name, connection = run
    expected = 32 * RESNET50_IMAGE if "resnet50" in name else BERT_STEP
    rows = connection.execute(
        "SELECT matrix_flops, kind FROM view_iteration_efficiency"
        " JOIN view_iterations_all USING (aggr_id, iter_value) WHERE matrix_flops > 0"
    ).fetchall()
    assert len(rows) == (8 if "resnet50" in name else 15)
    assert all(abs(row["matrix_flops"] / expected - 1) < 0.01 for row in rows)


def test_ops_types_iterations_and_groups_add_up_to_the_model(
    run: tuple[str, sqlite3.Connection],
) -> None:
    def sums(view: str, more: str = "") -> tuple[int, ...]:
        columns = "sum(flops), sum(bytes), sum(ideal_time), sum(gpu_time_sum), sum(left_time)"
        return tuple(run[1].execute(f"SELECT {columns} FROM {view} {more}").fetchone())

    whole = sums("view_model_efficiency")
    assert sums("view_op_efficiency") == whole
    assert sums("view_op_type_efficiency") == whole
    assert sums("view_group_efficiency", "WHERE group_name = '_CompleteModel_'") == whole
    assert sums("view_iteration_efficiency") == whole


def test_nothing_is_faster_than_the_gpu(run: tuple[str, sqlite3.Connection]) -> None:
    # Winograd's and Fourier's ways need fewer operations than the convolution has.
    rows = (
        run[1]
        .execute(
            "SELECT e.op_node_id, flops_peak_pct, group_concat(kernel_name) AS kernels"
            " FROM view_op_efficiency AS e JOIN view_kernel_metrics USING (aggr_id, op_node_id)"
            " WHERE flops_peak_pct > 0 GROUP BY e.op_node_id"
        )
        .fetchall()
    )
    assert len(rows) > 100
    direct = [row for row in rows if not re.search("winograd|fft", row["kernels"])]
    assert len(direct) > 80
    assert all(row["flops_peak_pct"] <= 100.0 for row in direct)


def test_a_convolution_has_its_output_from_the_gradient(
    profile: ProfileFactory, tmp_path: Path
) -> None:
    connection = imported(profile("pytorch_resnet50_fp32"), tmp_path)
    row = connection.execute(
        "SELECT * FROM view_op_units WHERE op_node_id = 'CONV2D_1' AND unit_name = 'convolution'"
    ).fetchone()
    assert row["output_shape"] == "[32,64,112,112]"
    assert row["flops_per_call"] == 2 * 32 * 64 * 112 * 112 * 3 * 7 * 7
    assert row["bytes_per_call"] == 4 * (32 * 3 * 224 * 224 + 64 * 147 + 32 * 64 * 112 * 112)


def test_given_peaks_make_another_aggregation(profile: ProfileFactory, tmp_path: Path) -> None:
    connection = imported(profile("pytorch_resnet50_fp32"), tmp_path)
    request = AggregationRequest(gpu_peaks="float32=1,bandwidth=1000")
    result = aggregate(tmp_path / "dldb.sqlite", request, NullProgress())
    assert result.aggr_id == 2
    first, second = connection.execute("SELECT * FROM view_model_efficiency ORDER BY aggr_id")
    assert first["flops"] == second["flops"]
    assert second["mfu"] == pytest.approx(first["mfu"] * 66.9, rel=1e-4)
    rates = dict(
        connection.execute("SELECT rate_name, rate FROM view_peak_rates WHERE aggr_id = 2")
    )
    assert (rates["float32"], rates["bandwidth"], rates["tf32"]) == (1.0, 1000.0, 494.7)


def test_markers_tell_what_ranges_do_not(golden_dir: Path, tmp_path: Path) -> None:
    # The golden run's ranges have no sizes; its dictionary markers have.
    connection = imported(golden_dir / "nsys_profile.sqlite", tmp_path)
    rows = connection.execute("SELECT * FROM view_op_units WHERE flops_per_call > 0")
    found = {row["op_node_id"]: (row["flops_per_call"], row["bytes_per_call"]) for row in rows}
    elements = 32 * 3 * 32 * 32 + 6 * 3 * 3 * 3 + 6 + 32 * 6 * 30 * 30
    assert found["CONV2D_1"] == (2 * 32 * 6 * 30 * 30 * 3 * 3 * 3, 4 * elements)
    assert found["RELU_1"] == (172_800, 2 * 4 * 172_800)
    row = connection.execute("SELECT known_pct FROM view_model_efficiency").fetchone()
    assert row["known_pct"] > 98


def test_an_output_can_come_from_a_modules_parameters() -> None:
    shapes = ((8, 3, 10, 10), (6, 3, 3, 3))
    assert output_shape(shapes, {"stride": [2, 2], "padding": 1}, "Conv2d") == (8, 6, 5, 5)
    assert output_shape(shapes, {"padding": "same"}, "Conv2d") == (8, 6, 10, 10)
    transposed = output_shape(((8, 6, 5, 5), (6, 3, 4, 4)), {"stride": 2}, "ConvTranspose2d")
    assert transposed == (8, 3, 12, 12)


def test_collectives_have_the_bytes_of_their_messages(
    profile: ProfileFactory, tmp_path: Path
) -> None:
    connection = imported(profile("ddp2_resnet50_amp"), tmp_path)
    rows = connection.execute(
        "SELECT * FROM view_op_units WHERE unit_name = 'allreduce_' AND calls > 1"
    ).fetchall()
    sizes = {int(str(row["input_shapes"])[2:].split("]")[0]): row for row in rows}
    # The gradients of ResNet-50's 25,557,032 parameters, in buckets, float32
    assert sum(sizes) == 25_557_032
    assert all(row["bytes_per_call"] == 4 * size for size, row in sizes.items())
    # Their kernel names no type: it is that of the buffers joined before
    rows = connection.execute(
        "SELECT * FROM view_op_units WHERE unit_name = 'broadcast_' AND calls > 1"
    ).fetchall()
    found = {row["input_shapes"].split("]")[0]: row["bytes_per_call"] for row in rows}
    assert found == {"[[53120": 4 * 53120, "[[53": 8 * 53}
    # What they could take at best depends on the others: unknown
    row = connection.execute(
        "SELECT * FROM view_op_efficiency WHERE op_node_id = 'BROADCAST__5'"
    ).fetchone()
    assert (row["flops"], row["ideal_time"], row["peak_pct"]) == (None, None, None)
    assert row["gbytes_per_second"] > 0
    assert row["unknown_reason"]
    row = connection.execute("SELECT known_pct FROM view_model_efficiency").fetchone()
    assert row["known_pct"] >= 99.0


def test_a_gpu_that_the_table_lacks_is_worked_out_from_what_the_profile_tells(
    tmp_path: Path,
) -> None:
    # GIVEN a capture whose GPU has an unknown name, 132 multiprocessors at 1980 MHz
    source = tmp_path / "ops.sqlite"
    source.write_bytes(lzma.decompress((DATA / "ops.sqlite.xz").read_bytes()))
    with sqlite3.connect(source) as export:
        export.execute("UPDATE TARGET_INFO_GPU SET name = 'NVIDIA Tomorrow'")
    connection = imported(source, tmp_path)
    # WHEN it is aggregated, and again with a rate that the user gives
    aggregate(tmp_path / "dldb.sqlite", AggregationRequest(gpu_peaks="bfloat16=1"), NullProgress())
    rates = {
        (row["aggr_id"], row["rate_name"]): row["rate"]
        for row in connection.execute("SELECT * FROM view_peak_rates")
    }
    # THEN
    expected = {"float32": 256, "float16": 4096, "float8": 8192}
    for aggr in (1, 2):
        for name, per_clock in expected.items():
            assert rates[aggr, name] == pytest.approx(132 * per_clock * 1.98e-3, rel=1e-4)
        assert rates[aggr, "bandwidth"] == pytest.approx(4814.3)
        assert rates[aggr, "link"] is None
    assert rates[2, "bfloat16"] == 1.0
    names = {row[0] for row in connection.execute("SELECT gpu_name FROM view_peak_rates")}
    assert names == {"NVIDIA Tomorrow: 132 SM x 1980 MHz"}


def test_what_nothing_is_known_of_is_null_and_never_0(
    profile: ProfileFactory, tmp_path: Path
) -> None:
    # GIVEN ranges of custom domains, and no framework's
    connection = imported(profile("nvtx_domains"), tmp_path)
    costs = "flops, bytes, ideal_time, left_time, peak_pct"
    for view in ("view_op_metrics", "view_op_type_summary", "view_group_summary"):
        names = {row["name"] for row in connection.execute(f"PRAGMA table_info({view})")}
        known = ", ".join(name for name in costs.split(", ") if name in names)
        rows = connection.execute(f"SELECT domain_name, {known} FROM {view}").fetchall()
        assert len({row["domain_name"] for row in rows}) == 4
        assert all(value is None for row in rows for value in tuple(row)[1:])
    row = connection.execute("SELECT * FROM view_model_efficiency").fetchone()
    assert (row["mfu"], row["model_flops"], row["flops"], row["bytes"]) == (None,) * 4
    assert row["known_pct"] == 0.0
