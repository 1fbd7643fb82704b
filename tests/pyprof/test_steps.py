"""PyProf's two steps on an nvprof file made by hand, and on the golden run's export."""

from __future__ import annotations

import ast
import csv
import io
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from aggregator.errors import CorruptProfileError, UnsupportedProfileError
from aggregator.kernels.names import demangle
from profiler_cli.dlprof import main
from profiler_cli.pyprof.markers import sort_out
from profiler_cli.pyprof.parse import parse_file, short_name
from profiler_cli.pyprof.rows import read_record, rows
from tests.builders import Trace
from tests.conftest import ProfileFactory
from tests.pyprof.nvprof_file import (
    CONCURRENT,
    GEMM,
    IMAGE,
    LINEAR,
    RELU,
    RELU_MARKER,
    TID,
    NvprofFile,
)

FLOP_COUNTER = Path(__file__).parents[1] / "data" / "captures" / "kineto" / "flop_counter.json"


@pytest.fixture(params=[CONCURRENT, "CUPTI_ACTIVITY_KIND_KERNEL"])
def net(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A linear layer and a relu, forward and backward, as nvprof wrote them."""
    path = tmp_path / "net.sql"
    file = NvprofFile(path, str(request.param))
    file.linear_and_relu()
    file.marker("ReluBackward0, seq = 4", 310, 400)
    file.kernel(RELU, 330, 900)
    file.marker("AddmmBackward, seq = 3", 410, 500)
    file.kernel(GEMM, 420, 4000)
    file.kernel(GEMM, 450, 4500)
    file.marker("optimizer", 510, 600)
    file.kernel("_ZN5thing7unknownEv", 520)
    file.close()
    return path


def test_every_kernel_is_a_dictionary_with_pyprofs_keys(net: Path) -> None:
    count, records = parse_file(net)
    found = list(records)
    assert count == len(found) == 6
    assert list(found[0]) == [
        *("kShortName", "kDuration", "layer", "trace", "reprMarkers", "marker", "seqMarker"),
        *("seqId", "subSeqId", "altSeqId", "dir", "mod", "op", "tid", "device", "stream", "grid"),
        *("block", "kLongName"),
    ]
    assert found[0] == {
        "kShortName": GEMM,
        "kDuration": 5000,
        "layer": ["encoder"],
        "trace": ["net.py:7", "net.py:3"],
        "reprMarkers": [],
        "marker": [LINEAR],
        "seqMarker": ["addmm, seq = 3"],
        "seqId": [3],
        "subSeqId": 0,
        "altSeqId": [],
        "dir": "fprop",
        "mod": ["torch.nn.functional"],
        "op": ["linear"],
        "tid": TID,
        "device": 0,
        "stream": 7,
        "grid": (80, 1, 1),
        "block": (256, 1, 1),
        "kLongName": GEMM,
    }
    assert [record["dir"] for record in found] == ["fprop"] * 2 + ["bprop"] * 3 + ["fprop"]
    assert [record["subSeqId"] for record in found] == [0, 0, 0, 0, 1, 0]
    assert [record["op"] for record in found[2:]] == [["Relu"], ["Addmm"], ["Addmm"], ["optimizer"]]
    assert found[1]["kShortName"] == "elementwise_kernel"
    assert found[1]["kLongName"] == "void at::native::elementwise_kernel<512, 1>(int)"


def test_backward_kernels_use_what_forward_recorded(net: Path) -> None:
    found = list(rows(parse_file(net)[1]))
    size = 2 * (64 * 32 + 64 * 128 + 32 * 128)
    flops = 2 * 64 * 32 * 128
    values = [
        [row[name] for name in ("op", "params", "tc", "flops", "bytes", "layer")] for row in found
    ]
    assert values == [
        ["linear", "M=32,N=64,K=128,fp16,", "1", flops, size, "encoder"],
        ["relu", "T=(64,128),fp16,", "-", 8192, 2 * 2 * 8192, "encoder"],
        ["relu", "T=(64,128),fp16,", "-", 8192, 3 * 2 * 8192, "encoder"],
        ["linear", "M=128,N=64,K=32,fp16,", "1", flops, size, "encoder"],
        ["linear", "M=128,N=32,K=64,fp16,", "1", flops, size, "encoder"],
        ["optimizer", "na=na,", "na", "na", "na", "-"],
    ]


def test_the_readmes_example_is_reproduced() -> None:
    # The rows of PyProf2's README: relu of 51,380,224 elements of 16 bits, forward.
    shape = "(64, 64, 112, 112)"
    argument = f"{{'name': '', 'type': 'tensor', 'shape': {shape}, 'dtype': 'float16'}}"
    marker = f"{{'mod': 'torch.nn.functional', 'op': 'relu', 'args': [{argument}]}}"
    record = {
        "kShortName": "elementwise_kernel",
        "kDuration": 381028,
        "marker": [marker],
        "dir": "fprop",
        "seqId": [1],
        "subSeqId": 0,
        "mod": ["torch.nn.functional"],
        "op": ["relu"],
    }
    row = next(iter(rows([record])))
    assert (row["flops"], row["bytes"]) == (51380224, 205520896)


def test_columns_have_their_widths_and_forms(
    net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pyprof", "parse", str(net)]) == 0
    out, err = capsys.readouterr()
    assert err == "Found 6 kernels. Getting info for each kernel.\n"
    assert all(isinstance(ast.literal_eval(line), dict) for line in out.splitlines())
    dictionary = tmp_path / "net.dict"
    dictionary.write_text(out)
    assert main(["pyprof", "prof", "--csv", str(dictionary)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == '"Idx","Direction","Sub","Module","Op","Kernel","Params","Sil(ns)"'
    assert lines[2] == (
        '"2","fprop","0","torch.nn.functional","relu","elementwise_kernel","T=(64,128),fp16,","700"'
    )
    assert main(["pyprof", "prof", "-w", "60", "-c", "idx,kernel,trace", str(dictionary)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "      1 " + GEMM[:28].ljust(28) + " " + "net.py:3".ljust(25) + " "
    assert main(["pyprof", "prof", "-c", "seq,tc,grid", str(dictionary)]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["SeqId TC Grid", "3 1 80,1,1"]


def test_all_writes_twenty_columns(
    net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dictionary = tmp_path / "net.dict"
    dictionary.write_text("".join(f"{record!r}\n" for record in parse_file(net)[1]))
    assert main(["pyprof", "prof", "--csv", "-c", "all", str(dictionary)]) == 0
    header, *found = csv.reader(io.StringIO(capsys.readouterr().out))
    assert len(header) == 20
    assert all(len(row) == 20 for row in found)


def test_errors_are_pyprofs(net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pyprof", "prof", str(tmp_path / "none.dict")]) == 4
    assert f"Error opening file {tmp_path / 'none.dict'}. Exiting." in capsys.readouterr().err
    assert main(["pyprof", "prof", "-c", "idx,nonsense", "x"]) == 2
    assert "nonsense is not a valid column name. Valid column names are idx,seq," in (
        capsys.readouterr().err
    )
    assert main(["pyprof", "prof", "-w", "30", "-c", "idx,trace", str(net)]) == 1
    assert capsys.readouterr().out == ("Minimum width required to print idx,trace = 32. Exiting.\n")
    assert main(["pyprof", "parse", str(tmp_path / "none.sql")]) == 4
    empty = tmp_path / "empty.sql"
    NvprofFile(empty).close()
    assert main(["pyprof", "parse", str(empty)]) == 0
    assert "Found 0 kernels. Exiting." in capsys.readouterr().err


def test_an_export_without_cuda_activity_has_no_kernels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = Trace()
    trace.process().thread().range("step", 0, 10)
    path = tmp_path / "cpu.sqlite"
    trace.write(path)
    assert main(["pyprof", "parse", str(path)]) == 0
    printed = capsys.readouterr()
    assert "holds no CUDA activity" in printed.err
    assert "Found 0 kernels. Exiting." in printed.err
    assert not printed.out


def test_each_of_several_calls_with_one_sequence_number_has_its_own_cost(tmp_path: Path) -> None:
    """Without gradients PyTorch does not count on: all norms of gradients have one number."""
    path = tmp_path / "net.sql"
    file = NvprofFile(path)
    norm = f"{{'mod': 'Tensor', 'op': 'norm', 'args': [{IMAGE}]}}"
    for start in (0, 100, 200):
        file.marker(norm, start, start + 90)
        file.marker("norm, seq = 7", start + 10, start + 80)
        file.kernel("reduce_kernel", start + 20, 900)
        file.kernel("last_pass", start + 40, 100)
    file.close()
    found = list(rows(parse_file(path)[1]))
    assert [row["sub"] for row in found] == [0, 1, 2, 3, 4, 5]
    assert [row["flops"] for row in found] == [2 * 64 * 128 + 1, 0] * 3
    assert [row["bytes"] for row in found] == [2 * 64 * 128, 0] * 3


def test_text_of_a_file_is_never_evaluated(tmp_path: Path) -> None:
    path = tmp_path / "made"
    evil = f"{{'mod': 'm', 'op': 'o', 'args': [], 'type': open({str(path)!r}, 'w')}}"
    around = sort_out((evil,))
    assert around.markers == [evil]
    assert not path.exists()
    with pytest.raises(CorruptProfileError):
        read_record(f"{{'kShortName': open({str(path)!r}, 'w'), 'kDuration': 1}}", 1)
    assert not path.exists()


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("no database")
    with pytest.raises(UnsupportedProfileError):
        parse_file(path)


def test_one_unknown_op_stops_nothing(net: Path) -> None:
    records = list(parse_file(net)[1])
    records[1]["marker"] = [RELU_MARKER.replace("(64, 128)", "'what'")]
    records[0]["marker"] = [LINEAR.replace("'linear'", "'of_tomorrow'")]
    found = list(rows(records))
    assert len(found) == 6
    assert (found[0]["op"], found[0]["flops"], found[0]["params"]) == (
        "of_tomorrow",
        "na",
        "T=[(64,128),(32,128)],['float16','float16']",
    )
    assert found[1]["flops"] == "na"


def test_todays_pytorch_is_read_like_older_versions() -> None:
    today = sort_out(("iteration 3", "aten::linear, seq = 5", "aten::addmm, seq = 5"))
    assert (today.seq_ids, today.direction, today.ops[0]) == ([5], "fprop", "aten::addmm")
    wrapper = "autograd::engine::evaluate_function: AddmmBackward0"
    assert sort_out((wrapper,)).direction == "bprop"
    assert sort_out((wrapper, "AddmmBackward0, seq = 5")).ops == ["Addmm"]


def test_an_export_without_ranges_is_read(tmp_path: Path) -> None:
    trace = Trace()
    trace.gpu()
    trace.thread().launch("sgemm", 10, gpu=(20, 60))
    export = trace.write(tmp_path / "export.sqlite")
    count, records = parse_file(export)
    (found,) = records
    assert count == 1
    assert (found["kDuration"], found["marker"], found["seqId"]) == (40, [], [])


def test_the_golden_run_is_read(golden_dir: Path) -> None:
    count, records = parse_file(golden_dir / "nsys_profile.sqlite")
    found = list(rows(records))
    assert count == len(found) == 59
    query = "SELECT end - start FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY rowid"
    uri = f"file:{golden_dir / 'nsys_profile.sqlite'}?mode=ro&immutable=1"
    with sqlite3.connect(uri, uri=True) as connection:
        assert [row["sil"] for row in found] == [row[0] for row in connection.execute(query)]
    first = found[0]
    assert first["params"].startswith("N=32,C=3,H=32,W=32,K=6,P=30,Q=30,R=3,S=3,")
    assert first["flops"] == 2 * 32 * 6 * 30 * 30 * 3 * 3 * 3


def test_names_are_demangled_and_shortened() -> None:
    assert demangle("_ZN2at6native3addEi") == "at::native::add(int)"
    assert demangle("plain_name") == "plain_name"
    assert demangle("_Zbroken") == "_Zbroken"
    assert short_name("void at::native::<unnamed>::multi<float>(int)") == "multi"
    assert short_name("void at::native::(anonymous namespace)::multi<float>(int)") == "multi"


def test_sizes_of_todays_pytorch_give_costs(profile: ProfileFactory) -> None:
    # GIVEN a run without PyProf's markers, whose ranges hold the sizes of their operators
    found = list(rows(parse_file(profile("pytorch_bert_bf16"))[1]))
    # THEN the products of its 15 steps are those of PyTorch's own counter
    products = [row for row in found if row["op"] in ("mm", "addmm")]
    assert sum(row["flops"] for row in products) == 15 * 1_338_966_540_288
    assert {row["tc"] for row in products if row["flops"]} == {"1"}
    assert sum(row["sil"] for row in found if row["bytes"] != "na") > 0.8 * sum(
        row["sil"] for row in found
    )


def _cost(op: str, *args: str, name: str = "elementwise_kernel", sub: int = 0) -> list[object]:
    """Operations, bytes and parameters of a forward kernel."""
    record = {
        "kShortName": name,
        "kLongName": name,
        "kDuration": 1,
        "marker": [f"{{'mod': 'torch', 'op': '{op}', 'args': [{', '.join(args)}]}}"],
        "dir": "fprop",
        "seqId": [1],
        "subSeqId": sub,
    }
    row = next(iter(rows([record])))
    return [row["flops"], row["bytes"], row["params"]]


def test_tensors_are_made_and_joined() -> None:
    size = "{'name': '', 'type': 'tuple', 'value': (2, 3)}"
    number = "{'name': '', 'type': 'int', 'value': 4}"
    half = "{'name': 'dtype', 'type': 'dtype', 'value': 'torch.float16'}"
    assert _cost("full", size, number) == [0, 24, "T=(2,3),fp32,"]
    assert _cost("zeros", number, number, half) == [0, 32, "T=(4,4),fp16,"]
    assert _cost("stack", IMAGE, IMAGE) == [0, 65536, "T=[(64,128),(64,128)],fp16,"]
    assert _cost("lerp", IMAGE, IMAGE, number)[:2] == [3 * 8192, 3 * 8192 * 2]
    mixed = _cost("__mul__", IMAGE, IMAGE.replace("float16", "float32"))
    assert mixed == [8192, 8192 * (2 + 4 + 2), "T=[(64,128),(64,128)],['float16','float32']"]
    assert _cost("__iadd__", number, number) == [1, "na", "T=[()],"]


def test_a_group_of_a_convolution_is_a_kernel_of_its_own_only_then() -> None:
    image = "{'name': '', 'type': 'tensor', 'shape': (8, 64, 14, 14), 'dtype': 'float32'}"
    weight = "{'name': '', 'type': 'tensor', 'shape': (64, 32, 1, 1), 'dtype': 'float32'}"
    groups = "{'name': 'groups', 'type': 'int', 'value': 2}"
    whole = 2 * 8 * 14 * 14 * 64 * 32
    old = _cost("conv2d", image, weight, groups, name="volta_scudnn_128x64_relu_small_nn_v1")
    new = _cost("conv2d", image, weight, groups, name="sm80_xmma_fprop_implicit_gemm_f32f32")
    assert (old[0], new[0]) == (whole // 2, whole)


def test_nothing_slow_is_loaded() -> None:
    code = "import sys, profiler_cli.pyprof.parse; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert {"pandas", "pyarrow", "adbc_driver_sqlite"}.isdisjoint(loaded.stdout.split())


@pytest.mark.parametrize(
    ("name", "steps", "images"), [("resnet50_fp32", 8, 1), ("resnet50_amp", 20, 2)]
)
def test_convolutions_of_todays_pytorch_have_the_operations_of_its_counter(
    profile: ProfileFactory, name: str, steps: int, images: int
) -> None:
    # GIVEN ranges that hold the sizes of inputs alone: outputs come from the nodes that go back
    found = list(rows(parse_file(profile(f"pytorch_{name}"))[1]))
    # THEN each step has what torch.utils.flop_counter counts for 32 images (times two)
    counted = json.loads(FLOP_COUNTER.read_text())["resnet50"]
    for op in ("convolution", "convolution_backward"):
        flops = [row["flops"] for row in found if row["op"] == op]
        assert sum(flops) == steps * images * counted[f"aten.{op}"]
    unknown = sum(row["sil"] for row in found if row["bytes"] == "na")
    assert unknown < 0.02 * sum(row["sil"] for row in found)


def test_what_pyprof_printed_among_the_dictionaries_is_left_out_and_reported(
    net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "net.dict"
    chatter = "Initializing NVTX monkey patches\nDone with NVTX monkey patching\n"
    path.write_text(chatter + "".join(f"{record!r}\n" for record in parse_file(net)[1]))
    assert main(["pyprof", "prof", "-c", "idx,op", str(path)]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[:2] == ["Idx Op", "1 linear"]
    assert err == "Skipped 2 lines that are not dictionaries; the first is line 1.\n"
    path.write_text(chatter)
    assert main(["pyprof", "prof", str(path)]) == 4
    assert "Line 1 is no dictionary of a kernel." in capsys.readouterr().err
