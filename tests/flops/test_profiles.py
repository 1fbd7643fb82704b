"""Costs of real captures: what is known, and the totals, beside PyTorch's own counter."""

from __future__ import annotations

import lzma
import re
import shutil
import sqlite3
from pathlib import Path

import pytest

from aggregator.frameworks.shapes import convolution_output
from aggregator.options import AggregationRequest
from aggregator.pipeline import aggregate
from aggregator.system.progress import NullProgress
from tests.builders import Trace, alter, analyze, analyze_file, one_gpu
from tests.conftest import ProfileFactory
from tests.flops.counters import DATA

RESNET50_IMAGE = 777_570_484_224 // 32
"""Operations of a training step on one image: tests/flops/test_torch_counts.py."""
BERT_STEP = 1_338_966_540_288 + 12 * (805_306_368 + 2_013_265_920)
"""Linear layers by PyTorch's counter, and 12 layers of attention, forward and backward."""


def _analyze(source: Path, folder: Path) -> Path:
    return analyze_file(source, folder / "dldb.sqlite").path


def opened(database: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    return connection


@pytest.fixture(scope="module", params=["pytorch_resnet50_fp32", "pytorch_bert_bf16"])
def run(request: pytest.FixtureRequest, imported: ProfileFactory) -> tuple[str, sqlite3.Connection]:
    name = str(request.param)
    return name, opened(imported(name))


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
        " JOIN view_iterations_all USING (aggr_id, iter_value)"
        " WHERE matrix_flops > 0 AND aggr_id = 1"
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


def test_a_convolution_has_its_output_from_the_gradient(imported: ProfileFactory) -> None:
    connection = opened(imported("pytorch_resnet50_fp32"))
    row = connection.execute(
        "SELECT * FROM view_op_units WHERE op_node_id = 'CONV2D_1' AND unit_name = 'convolution'"
    ).fetchone()
    assert row["output_shape"] == "[32,64,112,112]"
    assert row["flops_per_call"] == 2 * 32 * 64 * 112 * 112 * 3 * 7 * 7
    assert row["bytes_per_call"] == 4 * (32 * 3 * 224 * 224 + 64 * 147 + 32 * 64 * 112 * 112)


def test_user_peaks_make_another_aggregation(imported: ProfileFactory, tmp_path: Path) -> None:
    database = shutil.copyfile(imported("pytorch_resnet50_fp32"), tmp_path / "dldb.sqlite")
    connection = opened(database)
    request = AggregationRequest(gpu_peaks="float32=1,bandwidth=1000")
    result = aggregate(database, request, NullProgress())
    assert result.aggr_id == 3
    first, second = connection.execute("SELECT * FROM view_model_efficiency WHERE aggr_id != 2")
    assert first["flops"] == second["flops"]
    assert second["mfu"] == pytest.approx(first["mfu"] * 66.9, rel=1e-4)
    rates = dict(
        connection.execute("SELECT rate_name, rate FROM view_peak_rates WHERE aggr_id = 3")
    )
    assert (rates["float32"], rates["bandwidth"], rates["tf32"]) == (1.0, 1000.0, 494.7)


def test_markers_hold_what_ranges_do_not(golden_dir: Path, tmp_path: Path) -> None:
    # The golden run's ranges have no sizes; its dictionary markers have.
    connection = opened(_analyze(golden_dir / "nsys_profile.sqlite", tmp_path))
    rows = connection.execute("SELECT * FROM view_op_units WHERE flops_per_call > 0")
    found = {row["op_node_id"]: (row["flops_per_call"], row["bytes_per_call"]) for row in rows}
    elements = 32 * 3 * 32 * 32 + 6 * 3 * 3 * 3 + 6 + 32 * 6 * 30 * 30
    assert found["CONV2D_1"] == (2 * 32 * 6 * 30 * 30 * 3 * 3 * 3, 4 * elements)
    assert found["RELU_1"] == (172_800, 2 * 4 * 172_800)
    row = connection.execute("SELECT known_pct FROM view_model_efficiency").fetchone()
    assert row["known_pct"] > 98


def test_an_output_can_come_from_a_modules_parameters() -> None:
    shapes = ((8, 3, 10, 10), (6, 3, 3, 3))
    assert convolution_output(shapes, {"stride": [2, 2], "padding": 1}, "Conv2d") == (8, 6, 5, 5)
    assert convolution_output(shapes, {"padding": "same"}, "Conv2d") == (8, 6, 10, 10)
    transposed = convolution_output(((8, 6, 5, 5), (6, 3, 4, 4)), {"stride": 2}, "ConvTranspose2d")
    assert transposed == (8, 3, 12, 12)


def test_collectives_have_the_bytes_of_their_messages(imported: ProfileFactory) -> None:
    connection = opened(imported("ddp2_resnet50_amp"))
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


def test_peaks_of_a_gpu_not_in_the_table_are_computed_from_the_profile(
    tmp_path: Path,
) -> None:
    # GIVEN a capture whose GPU has an unknown name, 132 multiprocessors at 1980 MHz
    source = tmp_path / "ops.sqlite"
    source.write_bytes(lzma.decompress((DATA / "ops.sqlite.xz").read_bytes()))
    alter(source, "UPDATE TARGET_INFO_GPU SET name = 'NVIDIA Tomorrow'")
    connection = opened(_analyze(source, tmp_path))
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


def test_unknown_costs_are_null_and_never_0(imported: ProfileFactory) -> None:
    # GIVEN ranges of custom domains, and no framework's
    connection = opened(imported("nvtx_domains"))
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


@pytest.mark.parametrize(
    "name", ["pytorch_resnet50_fp32", "pytorch_bert_bf16", "ddp2_resnet50_amp"]
)
def test_rates_and_intensity_are_those_of_the_same_work(
    imported: ProfileFactory, name: str
) -> None:
    rows = opened(imported(name)).execute("SELECT * FROM view_op_efficiency").fetchall()
    full = [row for row in rows if row["arithmetic_intensity"] is not None]
    assert len(full) > 100
    for row in full:
        rate = row["arithmetic_intensity"] * row["gbytes_per_second"] / 1000
        assert row["tflops_per_second"] == pytest.approx(rate, rel=1e-3, abs=1e-4), row[
            "op_node_name"
        ]


def test_ops_that_mostly_wait_for_other_gpus_are_not_on_the_roofline(
    imported: ProfileFactory,
) -> None:
    rows = (
        opened(imported("ddp2_resnet50_amp"))
        .execute(
            "SELECT DISTINCT e.* FROM view_op_efficiency AS e JOIN view_kernel_metrics AS k"
            " USING (aggr_id, op_node_id) WHERE k.kernel_name LIKE 'nccl%AllReduce%'"
        )
        .fetchall()
    )
    apart = [row for row in rows if row["bound"] == "link"]
    assert len(apart) > 5
    assert {(row["peak_pct"], row["left_time"], row["arithmetic_intensity"]) for row in apart} == {
        (None, None, None)
    }
    assert all(row["peak_pct"] is None or row["peak_pct"] <= 100 for row in rows)


WHOLE_RUN = "SELECT * FROM view_model_efficiency WHERE aggr_id = 1"


def test_the_utilization_of_a_compiled_model_is_that_of_its_products(
    imported: ProfileFactory,
) -> None:
    # nanoGPT under torch.compile: 36.0 % by its own count, 6 N D and attention.
    (row,) = opened(imported("gpt")).execute(WHOLE_RUN).fetchall()
    assert row["median_step_mfu"] == pytest.approx(36.0, abs=1.0)
    assert row["hfu"] == row["mfu"]


def test_utilization_of_a_gpu_of_unknown_peak_is_unknown(imported: ProfileFactory) -> None:
    database = opened(imported("mi300__resnet_act_checkpoint.json.gz"))
    (row,) = database.execute(WHOLE_RUN).fetchall()
    assert row["model_flops"] > 0
    names = [name for name in row.keys() if name.removeprefix("median_step_")[:3] in {"mfu", "hfu"}]  # noqa: SIM118
    assert len(names) == 6
    assert {row[name] for name in names} == {None}


def test_recomputed_products_are_the_hardwares_only(imported: ProfileFactory) -> None:
    database = opened(imported("mi300__resnet_act_checkpoint.json.gz"))
    (row,) = database.execute(WHOLE_RUN).fetchall()
    assert 1.1 < row["hardware_flops"] / row["model_flops"] <= 4 / 3


def _convolution_backward(trace: Trace, kernels: tuple[str, ...]) -> None:
    """The first convolution of MobileNetV2, whose input needs no gradient."""
    sizes = "[[64, 3, 224, 224], [32, 3, 3, 3], [], [], [], [], []]"
    main = trace.thread()
    engine = main.process.thread(2)
    main.op("conv2d", 0, 90, seq=1, sizes=sizes)
    main.launch("sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc", 10)
    engine.wrapper("ConvolutionBackward0", 100, 400)
    engine.node("ConvolutionBackward0", 102, 398, seq=1)
    more = "[[64, 32, 112, 112], [64, 3, 224, 224], [32, 3, 3, 3], [], []]"
    engine.op("convolution_backward", 110, 390, sizes=more)
    for number, kernel in enumerate(kernels):
        engine.launch(kernel, 120 + 50 * number)


WEIGHT = "sm90_xmma_wgrad_indexed_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_execute_"
ONE_GRADIENT = 1_387_266_048


@pytest.mark.parametrize(
    ("kernels", "gradients"),
    [
        ((WEIGHT + "segment_k_on_kernel__5x_cudnn",), 1),
        ((WEIGHT + "kernel__5x_cudnn", WEIGHT + "split_k_kernel__5x_cudnn"), 1),
        ((WEIGHT + "kernel__5x_cudnn", "void cudnn::reduce_wgrad_nchw_helper<float>(float*)"), 1),
        (("void splitKreduce_kernel<32, 16, int>(float*)", "cutlass_tensorop_f16_wgrad_64x64"), 1),
        ((WEIGHT + "kernel__5x_cudnn", WEIGHT.replace("wgrad", "dgrad") + "kernel__5x_cudnn"), 2),
        (("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nt"), 2),
    ],
)
def test_the_sum_of_a_split_product_is_no_second_gradient(
    tmp_path: Path, kernels: tuple[str, ...], gradients: int
) -> None:
    trace = Trace()
    trace.gpu()
    _convolution_backward(trace, kernels)
    rows = analyze(trace, tmp_path).query(
        "SELECT flops_per_call FROM view_op_units WHERE unit_name = 'convolution_backward'"
    )
    assert rows == [(gradients * ONE_GRADIENT,)]


@pytest.mark.parametrize(("kernel", "is_known"), [("my_gemm", False), ("triton_poi_fused_3", True)])
def test_products_that_are_not_counted_make_the_utilization_a_bound(
    tmp_path: Path, kernel: str, is_known: bool
) -> None:
    trace, thread = one_gpu()
    for step in range(3):
        at = 1_000_000 * step
        thread.range(f"iteration {step}", at, at + 900_000)
        thread.op("mm", at + 100, at + 800, sizes="[[512, 512], [512, 512]]")
        thread.launch("ampere_sgemm_128x64_nn", at + 110, gpu=(at + 200, at + 100_200))
        thread.op("custom", at + 1_000, at + 1_800)
        thread.launch(kernel, at + 1_110, gpu=(at + 200_000, at + 600_000))
    (row,) = analyze(trace, tmp_path, gpu_peaks="float32=67,bandwidth=3352").query(
        "SELECT mfu IS NOT NULL, mfu_at_least > 0, median_step_mfu IS NOT NULL,"
        " median_step_mfu_at_least > 0 FROM view_model_efficiency"
    )
    assert row == (is_known, 1, is_known, 1)


def test_the_median_step_of_gradient_accumulation_has_its_products(tmp_path: Path) -> None:
    # GIVEN four micro-batches a step, whose data is fetched in a burst before them
    ms, products, trace = 1_000_000, 4, Trace()
    trace.gpu(name="NVIDIA H100 80GB HBM3")
    main = trace.thread()
    loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__, op_id = 5"
    for step in range(8):
        at = 100 * ms * step
        for batch in range(products):
            main.range(loader, at + 10_000 * batch, at + 10_000 * batch + 5_000)
        for batch in range(products):
            begin = at + (1 + 20 * batch) * ms
            main.op("mm", begin, begin + ms, sizes="[[4096, 4096], [4096, 4096]]")
            name = "nvjet_sm90_tst_160x256_64x4_1x2_h_bz_coopA_TNN"
            main.launch(name, begin + 100, gpu=(begin + ms, begin + 2 * ms))
        main.range("Optimizer.step#AdamW.step, op_id = 9", at + 90 * ms, at + 91 * ms)
    main.call("cudaDeviceSynchronize_v3020", 800 * ms, 801 * ms)
    # WHEN it is aggregated
    found = analyze(trace, tmp_path)
    assert found.result.key_node == "Optimizer.step#AdamW.step"
    # THEN the utilization is that of four products in 100 ms at 989.4 TFLOP/s
    expected = 100 * products * 2 * 4096**3 / 0.1 / 989.4e12
    rows = found.query("SELECT median_step_mfu FROM view_model_efficiency ORDER BY aggr_id")
    assert rows
    assert [row[0] for row in rows] == pytest.approx([expected] * len(rows), rel=0.02)
