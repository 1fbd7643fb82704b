"""Calls without recorded sizes get those of the calls that do the same work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import Trace, analyze, one_gpu

WIDTH = 64
#: Rows of the input, step by step; sizes are recorded in the first five.
LENGTHS = [32, 64, 96, 32, 64, 96, 64, 32, 96, 96, 64, 32]
RECORDED = 5
PRODUCT = "FROM view_op_efficiency WHERE aggr_id = 1 AND op_node_type = 'mm'"


def _trace(*, same_grid: bool) -> Trace:
    """Steps of a product whose kernel has one grid for all sizes or not, between two reductions."""
    trace, main = one_gpu()
    for step, length in enumerate(LENGTHS):
        at = 10_000 * step
        main.range("Optimizer.zero_grad#SGD.zero_grad, op_id = 5", at, at + 100)
        for place, name in enumerate(("relu", "mm", "sum")):
            begin = at + 1_000 * (place + 1)
            sizes = (
                f"[[{length}, {WIDTH}], [{WIDTH}, {WIDTH}]]" if name == "mm" else f"[[{length}]]"
            )
            main.op(name, begin, begin + 500, sizes=sizes if step < RECORDED else "")
            main.launch(f"{name}_kernel", begin + 10, gpu=(begin + 50, begin + 400))
            if not (same_grid and name == "mm"):
                trace.tables["CUPTI_ACTIVITY_KIND_KERNEL"][-1]["gridX"] = length
        main.range("Optimizer.step#SGD.step, op_id = 6", at + 8_000, at + 9_000)
    return trace


@pytest.mark.parametrize("same_grid", [False, True])
def test_the_operations_of_all_steps_are_known(tmp_path: Path, same_grid: bool) -> None:
    """The kernels before and after it distinguish one that has the same grid for all sizes."""
    found = analyze(_trace(same_grid=same_grid), tmp_path)
    assert found.query(f"SELECT flops, known_calls {PRODUCT}") == [
        (sum(LENGTHS) * 2 * WIDTH * WIDTH, len(LENGTHS))
    ]


def test_sizes_that_were_never_recorded_stay_unknown(tmp_path: Path) -> None:
    trace = _trace(same_grid=False)
    for row in trace.tables["CUPTI_ACTIVITY_KIND_KERNEL"][-3:]:
        row["gridX"] = 7
    found = analyze(trace, tmp_path)
    assert found.query(f"SELECT known_calls {PRODUCT}") == [(len(LENGTHS) - 1,)]
