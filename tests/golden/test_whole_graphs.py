"""CUDA graphs that were recorded as a whole: what their kernels did is unknown, not absent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import Analyzed, analyze, one_gpu, query
from tests.conftest import ProfileFactory

TENSOR_CORE_KERNEL = "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_nn"
USED = "SELECT op_node_name, tc_eligible, using_tc FROM view_op_nodes WHERE aggr_id = ?"
SHARES = (
    "SELECT p.tc_utilization, t.tc_utilization, m.tc_utilization FROM view_performance_summary AS p"
    " JOIN view_tc_utilization AS t USING (aggr_id) JOIN view_model_summary AS m USING (aggr_id)"
    " WHERE aggr_id = ?"
)


def _analyzed(tmp_path: Path) -> Analyzed:
    """Two steps; the graphs of the first one are all that is not seen of the run."""
    trace, main = one_gpu()
    for step in range(3):
        at = 10_000 * step
        main.range("Optimizer.zero_grad#SGD.zero_grad, op_id = 5", at, at + 10)
        main.op("linear", at + 100, at + 1000)
        main.launch(TENSOR_CORE_KERNEL, at + 110, gpu=(at + 200, at + 300))
        main.op("matmul", at + 2000, at + 3000)
        main.op("relu", at + 4000, at + 5000)
        main.launch("relu_kernel", at + 4100, gpu=(at + 4200, at + 4300))
        main.op("replay", at + 6000, at + 7000)
        if step == 1:
            main.graph(at + 2010, gpu=(at + 2100, at + 2500))
            main.graph(at + 6010, gpu=(at + 6100, at + 6500))
    main.call("cudaDeviceSynchronize_v3020", 31_000, 32_000)
    return analyze(trace, tmp_path)


def _flags(found: Analyzed, aggregation: int) -> dict[str, list[int | None]]:
    rows = found.query(USED, aggregation)
    return {name.split("/")[-1].split("[")[0]: flags for name, *flags in rows}


def test_an_op_that_ran_only_graphs_uses_tensor_cores_or_not(tmp_path: Path) -> None:
    found = _analyzed(tmp_path)
    flags = _flags(found, 1)
    assert flags["linear"] == [1, 1]
    assert flags["relu"] == [0, 0]
    assert flags["matmul"] == [1, None]
    assert flags["replay"] == [0, None]
    assert found.query(SHARES, 1) == [(None, None, None)]
    sql = "SELECT op_node_name, using_tc, tc_utilization FROM view_tensor_core_ops ORDER BY 1"
    assert [row[1:] for row in found.query(sql)] == [(1, 100.0), (None, None)]
    fits = dict(found.query("SELECT op_node_type, tc_fit FROM view_op_metrics WHERE aggr_id = 1"))
    assert (fits["relu"], fits["replay"], fits["linear"]) == (0, None, 1)


def test_where_no_graph_ran_it_is_known(tmp_path: Path) -> None:
    found = _analyzed(tmp_path)
    again = found.aggregate(iter_start=3, iter_stop=3)
    flags = _flags(found, again.aggr_id)
    assert flags["matmul"] == [1, 0]
    assert found.query(SHARES, again.aggr_id) == [(100.0, 100.0, 100.0)]


@pytest.mark.parametrize("name", ["zx3"])
def test_tensor_cores_of_whole_graphs_are_unknown(
    name: str, profile: ProfileFactory, imported: ProfileFactory, tmp_path: Path
) -> None:
    flags = query(
        imported(name),
        "SELECT op_node_type, tc_eligible, using_tc, tc_fit, tc_fit_reason FROM view_op_metrics",
    )
    reason = "the kernels of its CUDA graphs were not recorded"
    assert flags == [("simple_mode_global_node_op_type", None, None, None, reason)]
    command = (
        f"--database={profile(name)}",
        f"--output_path={tmp_path}",
        "--reports=detail,summary",
        "--extended=true",
    )
    subprocess.run([sys.executable, "-m", "profiler_cli.dlprof", *command], check=True)
    lines = (tmp_path / "dlprof_detailed.csv").read_text().splitlines()
    header, row = (line.split(",") for line in lines[1:3])
    cells = dict(zip(header, row, strict=False))
    assert (cells["TC Eligible"], cells["Using TC"], cells["TC Possible"]) == ("", "", "unknown")
    summary = (tmp_path / "dlprof_summary.csv").read_text()
    assert "Tensor Core Kernel Utilization %,\n" in summary
    assert "CUDA Graph Duration %,99.6\n" in summary
