"""Every class of ops that PyProf2 knew, from a file of nvprof to the twenty columns.

``op_classes.json`` holds for each kernel what PyProf2's formulas give (operator, parameters, Tensor
Cores, operations, bytes: worked out from its published sources, in its form) and what is different
here, with a reason that docs/sources.md names.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from profiler_cli.dlprof import main
from tests.pyprof.nvprof_file import BACKWARD_TID, TID, NvprofFile

ROOT = Path(__file__).parents[1]
CASES: list[dict[str, Any]] = json.loads((ROOT / "data/pyprof/op_classes.json").read_text())
TRACE = ["train.py:40", "/usr/lib/torch/nn/modules/module.py:493", "net.py:7"]
HEADER = [
    *("Idx", "SeqId", "AltSeqId", "TId", "Layer", "Trace", "Direction", "Sub", "Module", "Op"),
    *("Kernel", "Params", "Sil(ns)", "TC", "Device", "Stream", "Grid", "Block", "FLOPs", "Bytes"),
]
STEP = 10_000


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """All cases one after another, forward and backward, as nvprof wrote them."""
    path = tmp_path / "net.sql"
    file = NvprofFile(path)
    for number, case in enumerate(CASES, start=1):
        begin = number * STEP
        file.marker(f"layer:{case['class']}", begin + 10, begin + 4900)
        file.marker(
            str({"traceMarker": TRACE, "funcStack": "/net/forward"}), begin + 20, begin + 4800
        )
        file.marker(case["marker"], begin + 30, begin + 4700)
        file.marker(f"{case['op']}, seq = {number}", begin + 40, begin + 4600)
        file.marker(
            f"{case['op'].title()}Backward, seq = {number}",
            begin + 5000,
            begin + 9900,
            BACKWARD_TID,
        )
        for row, kernel in enumerate(case["kernels"]):
            forward = kernel["dir"] == "fprop"
            called = begin + (100 if forward else 5100) + 300 * row
            x, y, z = map(int, kernel["grid"].split(","))
            thread = TID if forward else BACKWARD_TID
            file.kernel(kernel["kernel"], called, 100 + row, tid=thread, grid=(x, y, z))
    file.close()
    return path


def _expected(number: int, case: dict[str, Any], row: int, kernel: dict[str, Any]) -> list[str]:
    values = dict(
        zip(("op", "params", "tc", "flops", "bytes"), kernel["pyprof2"].split(" "), strict=True)
    )
    values |= {name: value for name, (value, _) in kernel["here"].items()}
    thread = TID if kernel["dir"] == "fprop" else BACKWARD_TID
    return [
        *(str(number), "-", str(thread), case["class"], "train.py:40,net.py:7"),
        *(kernel["dir"], str(kernel["sub"]), case["mod"], values["op"], kernel["kernel"]),
        *(values["params"], str(100 + row), values["tc"], "0", "7", kernel["grid"], "256,1,1"),
        *(values["flops"], values["bytes"]),
    ]


def test_every_class_has_pyprof2s_columns_or_a_reason(
    net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # WHEN a file of nvprof goes through both steps
    assert main(["pyprof", "parse", str(net)]) == 0
    dictionary = tmp_path / "net.dict"
    dictionary.write_text(capsys.readouterr().out)
    assert main(["pyprof", "prof", "--csv", "-c", "all", str(dictionary)]) == 0
    header, *found = csv.reader(io.StringIO(capsys.readouterr().out))
    # THEN each cell is PyProf2's, but for those with a reason
    assert header == HEADER
    expected = [
        _expected(number, case, row, kernel)
        for number, case in enumerate(CASES, start=1)
        for row, kernel in enumerate(case["kernels"])
    ]
    assert len(found) == len(expected)
    for index, (ours, theirs) in enumerate(zip(found, expected, strict=True), start=1):
        assert ours == [str(index), *theirs]


def test_every_reason_is_documented_and_every_class_is_there() -> None:
    text = " ".join((ROOT.parent / "docs" / "sources.md").read_text().split())
    kernels = [kernel for case in CASES for kernel in case["kernels"]]
    reasons = {reason for kernel in kernels for _, reason in kernel["here"].values()}
    assert sorted(reason for reason in reasons if reason not in text) == []
    assert {case["class"] for case in CASES} == {
        *("conv", "gemm", "activation", "normalization", "pooling", "dropout", "embedding"),
        *("softmax", "loss", "pointwise", "reduction", "convert", "movement", "optim", "random"),
        *("recurrent", "misc"),
    }
