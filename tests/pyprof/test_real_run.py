"""A step of a language model that was profiled with nvprof and PyProf in 2020 and published.

The file is built anew from what its dictionaries say (markers, nodes, kernels), the rows beside it
are those that PyProf printed. Every cell is PyProf's, except where ``changed`` says otherwise, for
one of the reasons that docs/sources.md names.
"""

from __future__ import annotations

import ast
import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from profiler_cli.dlprof import main
from tests.pyprof.nvprof_file import BACKWARD_TID, TID, NvprofFile

COLUMNS = "kernel,mod,op,dir,sil,tc,flops,bytes,device,stream,block,grid"
HEADER = (
    '"Kernel","Module","Op","Direction","Sil(ns)","TC","FLOPs","Bytes","Device","Stream","Block",'
    '"Grid"'
)
KERNELS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data/pyprof/real_run.json").read_text("utf-8")
)
"""The kernels of the run.

``published`` is PyProf's row (kernel, module, op, direction, time, TC, operations, bytes),
``marks`` are its markers around the launch, ``nodes`` those of PyTorch, outermost first, ``size``
is block and grid as printed, ``changed`` has the cells that differ here, each with the reason.
"""
REASONS = {
    *("printed as a whole number", "one operation per element", "all three terms in bytes"),
    *("unknown, not 0", "operations counted"),
}


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """The step as nvprof wrote it."""
    path = tmp_path / "net.sql"
    file = NvprofFile(path)
    for index, kernel in enumerate(KERNELS):
        begin, end, tid = 1000 * index, 1000 * index + 900, TID
        if kernel["pass"] == "backward":
            tid = BACKWARD_TID
        else:
            trace = ["model.py:319", "/usr/lib/torch/nn/modules/module.py:532", f"model.py:{index}"]
            file.marker(f"{{'traceMarker': {trace}}}", begin, end)
        for depth, text in enumerate(kernel["marks"] + kernel["nodes"], start=1):
            file.marker(text, begin + depth, end - depth, tid)
        name, _, _, _, duration, *_ = kernel["published"].split()
        block, grid = (json.loads(f"[{part}]") for part in kernel["size"].split("|"))
        if name == "elementwise_kernel":
            name = f"_ZN2at6native{len(name)}{name}ILi512ELi1EEEvi"
        file.kernel(name, begin + 400, int(duration), tid=tid, grid=grid, block=block)
    file.close()
    return path


@pytest.fixture
def dictionary(net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """What the first step prints."""
    assert main(["pyprof", "parse", str(net)]) == 0
    path = tmp_path / "net.dict"
    path.write_text(capsys.readouterr().out)
    return path


def test_every_cell_is_pyprofs_or_explained(
    dictionary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pyprof", "prof", "--csv", "-c", COLUMNS, str(dictionary)]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == HEADER
    found = list(csv.DictReader(io.StringIO(out)))
    assert len(found) == len(KERNELS)
    for kernel, row in zip(KERNELS, found, strict=True):
        names = [title.strip('"') for title in HEADER.split(",")]
        values = [*kernel["published"].split(), "0", "7", *kernel["size"].split("|")]
        expected = dict(zip(names, values, strict=True))
        expected |= {name: value for name, (value, _) in kernel["changed"].items()}
        assert row == expected, kernel["published"]


def test_every_reason_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "sources.md").read_text()
    reasons = {reason for kernel in KERNELS for _, reason in kernel["changed"].values()}
    assert reasons == REASONS
    assert [reason for reason in reasons if reason not in text] == []


def test_dictionaries_are_those_of_the_run(dictionary: Path) -> None:
    # Texts and numbers of PyProf's own dictionaries of that run.
    found = [ast.literal_eval(line) for line in dictionary.read_text().splitlines()]
    published = {
        16: (["nll_loss_backward, seq = 0", "NllLossBackward, seq = 122"], [122], 0, [], "bprop"),
        18: (["sum, seq = 0"], [], 0, [0], "fprop"),
        19: (["add_, seq = 0"], [], 0, [0], "fprop"),
        20: (["mm, seq = 0", "MmBackward, seq = 116"], [116], 0, [], "bprop"),
        21: (["mm, seq = 0", "MmBackward, seq = 116"], [116], 1, [], "bprop"),
        25: (["mul, seq = 0", "MulBackward0, seq = 76"], [76], 0, [], "bprop"),
        32: (["add_, seq = 130"], [130], 0, [], "fprop"),
        33: (["add_, seq = 130"], [130], 1, [], "fprop"),
    }
    for row, values in published.items():
        names = ("seqMarker", "seqId", "subSeqId", "altSeqId", "dir")
        assert tuple(found[row][name] for name in names) == values
    assert (found[18]["mod"], found[18]["op"]) == (["na"], ["sum"])
    assert found[20]["op"] == ["Mm"]
    assert found[26]["op"] == ["Split"]
    assert found[0]["trace"] == ["model.py:319", "model.py:0"]
    assert (found[0]["tid"], found[16]["tid"]) == (TID, BACKWARD_TID)
