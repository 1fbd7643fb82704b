"""A step of a language model that was profiled with nvprof and PyProf in 2020 and published.

The file is built anew from what its dictionaries say (markers, nodes, kernels), the rows beside it
are those that PyProf printed. Every cell is PyProf's, except where ``changed`` says otherwise, for
one of the reasons that docs/sources.md names.
"""

from __future__ import annotations

import ast
import csv
import io
from pathlib import Path
from typing import NamedTuple

import pytest

from profiler_cli.dlprof import main
from tests.pyprof.nvprof_file import BACKWARD_TID, TID, NvprofFile

COLUMNS = "kernel,mod,op,dir,sil,tc,flops,bytes,device,stream,block,grid"
HEADER = (
    '"Kernel","Module","Op","Direction","Sil(ns)","TC","FLOPs","Bytes","Device","Stream","Block",'
    '"Grid"'
)
# Reasons, as docs/sources.md names them.
WHOLE = "printed as a whole number"
PER_ELEMENT = "one operation per element"
ALL_TERMS = "all three terms in bytes"
UNKNOWN = "unknown, not 0"
COUNTED = "operations counted"

FUNCTIONAL = "torch.nn.functional"
Shape = tuple[int, ...]


class Kernel(NamedTuple):
    """A kernel of the run.

    Attributes:
        published: PyProf's row: kernel, module, op, direction, time, TC, operations, bytes.
        marks: PyProf's markers around its launch.
        nodes: PyTorch's, outermost first.
        size: Block and grid as printed.
        changed: Our cells that differ, with the reason.
    """

    published: str
    marks: tuple[str, ...]
    nodes: tuple[str, ...]
    size: str
    changed: dict[str, tuple[str, str]] = {}


def tensor(*shape: int, dtype: str = "float32") -> str:
    return f"{{'name': '', 'type': 'tensor', 'shape': {shape}, 'dtype': '{dtype}'}}"


def number(value: float, name: str = "") -> str:
    return f"{{'name': '{name}', 'type': '{type(value).__name__}', 'value': {value}}}"


def mark(mod: str, op: str, *args: str) -> str:
    return f"{{'mod': '{mod}', 'op': '{op}', 'args': [{', '.join(args)}]}}"


NONE = "{'name': '', 'type': 'NoneType', 'value': None}"
STATE = tensor(35, 20, 200)
EMBEDDING = mark(
    *(FUNCTIONAL, "embedding", tensor(35, 20, dtype="int64"), tensor(33278, 200)),
    *(NONE, NONE, number(2.0), number(False), number(False)),
)
POSITION = mark(
    *(FUNCTIONAL, "embedding", tensor(35, 1, dtype="int64"), tensor(35, 200)),
    *(NONE, NONE, number(2.0), number(False), number(False)),
)
SCALE = mark("Tensor", "__mul__", STATE, number(14.142135623730951))
ADD_POSITION = mark("Tensor", "__add__", STATE, tensor(35, 1, 200))
ADD = mark("Tensor", "__add__", STATE, STATE)
DROPOUT = mark(FUNCTIONAL, "dropout", STATE, number(0.2), number(True), number(False))
ATTENTION = mark(
    *(FUNCTIONAL, "multi_head_attention_forward", STATE, STATE, STATE, number(200), number(1)),
    *(tensor(600, 200), tensor(600), NONE, NONE, number(False), number(0.2)),
    *(tensor(200, 200), tensor(200), number(True, "training")),
)
NORM = mark(FUNCTIONAL, "layer_norm", STATE, tensor(200), tensor(200), number(1e-05))
LINEAR = mark(FUNCTIONAL, "linear", STATE, tensor(200, 200), tensor(200))
DECODER = mark(FUNCTIONAL, "linear", STATE, tensor(33278, 200), tensor(33278))
RELU = mark(FUNCTIONAL, "relu", STATE)
SOFTMAX = mark(FUNCTIONAL, "log_softmax", tensor(35, 20, 33278), number(-1, "dim"))
LOSS = mark(FUNCTIONAL, "cross_entropy", tensor(700, 33278), tensor(700, dtype="int64"))
BACKWARD = mark("Tensor", "backward", tensor(), NONE)
CLIP = mark("Tensor", "norm", tensor(600, 200), number(2.0))
SHRINK = mark("Tensor", "mul_", tensor(600, 200), number(0.07))
UPDATE = mark("Tensor", "add_", tensor(600, 200), number(-20), tensor(600, 200))
UPDATE_BIAS = mark("Tensor", "add_", tensor(200), number(-20), tensor(200))

WIDE, POINT = "128,1,1|274,1,1", "512,1,1|274,1,1"
N, V = 35 * 20 * 200, 35 * 20 * 33278
NA = {"FLOPs": ("na", UNKNOWN), "Bytes": ("na", UNKNOWN)}
LINEAR_BYTES = {"Bytes": (str(4 * (2 * N + 200 * 200)), ALL_TERMS)}
DECODER_BYTES = {"Bytes": (str(4 * (V + N + 33278 * 200)), ALL_TERMS)}


def size_of(text: str) -> tuple[int, int, int]:
    x, y, z = map(int, text.split(","))
    return x, y, z


def flops(value: int, reason: str) -> dict[str, tuple[str, str]]:
    return {"FLOPs": (str(value), reason)}


F, E = FUNCTIONAL, "elementwise_kernel"
MHA = f"{F} multi_head_attention_forward"
FORWARD = [
    Kernel(
        f"indexSelectLargeIndex {F} embedding fprop 6624 - 0 1125600",
        *((EMBEDDING,), ("embedding, seq = 65",), "128,1,1|640,1,1"),
    ),
    Kernel(
        f"{E} Tensor __mul__ fprop 3168 - 140000.0 1120000",
        *((SCALE,), ("mul, seq = 66",), POINT, flops(N, WHOLE)),
    ),
    Kernel(
        f"indexSelectLargeIndex {F} embedding fprop 2464 - 0 56280",
        *((POSITION,), ("embedding, seq = 67",), "128,1,1|55,1,1"),
    ),
    Kernel(
        f"{E} Tensor __add__ fprop 4992 - 143500.0 1148000",
        *((ADD_POSITION,), ("add, seq = 68",), WIDE, flops(N, PER_ELEMENT)),
    ),
    Kernel(
        f"fused_dropout_kernel {F} dropout fprop 6144 - 700000 1120000",
        *((DROPOUT,), ("_fused_dropout, seq = 69",), "256,1,1|547,1,1"),
    ),
    Kernel(
        f"volta_sgemm_32x128_tn {MHA} fprop 26880 - 0 0",
        *((ATTENTION,), ("mm, seq = 72",), "256,1,1|19,6,1", NA),
    ),
    Kernel(f"{E} {MHA} fprop 3168 - 0 0", (ATTENTION,), ("mul, seq = 76",), WIDE, NA),
    Kernel(
        f"{E} Tensor __add__ fprop 2624 - 210000.0 1680000",
        *((ADD,), ("add, seq = 98",), POINT, flops(N, PER_ELEMENT)),
    ),
    Kernel(
        f"RowwiseMomentsCUDAKernel {F} layer_norm fprop 5536 - 0 0",
        *((NORM,), ("native_layer_norm, seq = 99",), "512,1,1|700,1,1", NA),
    ),
    Kernel(
        f"volta_sgemm_64x32_sliced1x4_tn {F} linear fprop 19360 0 56000000 740000",
        *((LINEAR,), ("mm, seq = 101",), "256,1,1|4,22,1", LINEAR_BYTES),
    ),
    Kernel(
        f"{E} {F} bias fprop 4256 - 140000 1120000",
        *((LINEAR,), ("add_, seq = 103",), WIDE),
    ),
    Kernel(f"{E} {F} relu fprop 2176 - 140000 1120000", (RELU,), ("relu, seq = 104",), POINT),
    Kernel(
        f"volta_sgemm_128x64_tn {F} linear fprop 751162 0 9317840000 30510200",
        *((DECODER,), ("mm, seq = 116",), "128,1,1|260,11,1", DECODER_BYTES),
    ),
    Kernel(
        f"cunn_SoftMaxForward {F} log_softmax fprop 531452 - 0 279535200",
        *((SOFTMAX,), ("_log_softmax, seq = 119",), "1024,1,1|700,1,1", flops(21 * V, COUNTED)),
    ),
    Kernel(
        f"cunn_ClassNLLCriterion_updateOutput_kernel {F} cross_entropy fprop 22560 - 0 0",
        *((LOSS,), ("nll_loss_forward, seq = 122",), "32,1,1|1,1,1", NA),
    ),
    Kernel(
        f"{E} Tensor backward fprop 2464 - 0 0",
        *((BACKWARD,), ("fill_, seq = 123",), "128,1,1|1,1,1", NA),
    ),
]
BACKWARD_PASS = [
    Kernel(
        f"cunn_ClassNLLCriterion_updateGradInput_kernel {F} cross_entropy bprop 13920 - 0 0",
        (),
        ("NllLossBackward, seq = 122", "nll_loss_backward, seq = 0"),
        *("32,1,1|1,1,1", NA),
    ),
    Kernel(
        f"cunn_SoftMaxBackward {F} log_softmax bprop 516219 - 0 465892000",
        *((), ("LogSoftmaxBackward, seq = 119", "_log_softmax_backward_data, seq = 0")),
        *("1024,1,1|700,1,1", flops(21 * V, COUNTED)),
    ),
    Kernel("reduce_kernel na sum fprop 119455 na 0 0", (), ("sum, seq = 0",), "32,16,1|7,1,1", NA),
    Kernel(f"{E} na add_ fprop 2144 na 0 0", (), ("add_, seq = 0",), "512,1,1|65,1,1", NA),
    Kernel(
        f"volta_sgemm_32x32_sliced1x4_nt {F} linear bprop 878776 0 9317840000 30510200",
        *((), ("MmBackward, seq = 116", "mm, seq = 0"), "128,1,1|7,1040,1", DECODER_BYTES),
    ),
    Kernel(
        f"volta_sgemm_32x128_nn {F} linear bprop 1319380 0 9317840000 30510200",
        *((), ("MmBackward, seq = 116", "mm, seq = 0"), "256,1,1|7,6,8", DECODER_BYTES),
    ),
    Kernel(
        f"LayerNormBackwardCUDAKenrel {F} layer_norm bprop 3488 - 0 0",
        *((), ("NativeLayerNormBackward, seq = 99",), "256,1,1|700,1,1", NA),
    ),
    Kernel(
        f"kernelPointwiseApply3 {F} dropout bprop 2912 - 700000 1120000",
        *((), ("FusedDropoutBackward, seq = 69", "_masked_scale, seq = 0"), POINT),
    ),
    Kernel(
        f"{E} {F} relu bprop 2976 - 140000 1680000",
        *((), ("ReluBackward0, seq = 104", "threshold_backward, seq = 0"), POINT),
    ),
    Kernel(
        f"{E} {MHA} bprop 2880 - 0 0",
        *((), ("MulBackward0, seq = 76", "mul, seq = 0"), POINT, NA),
    ),
    Kernel(
        f"{E} na Split bprop 4960 na 0 0",
        *((), ("SplitBackward, seq = 75", "cat, seq = 0"), WIDE, NA),
    ),
    Kernel(
        f"{E} {F} embedding bprop 1440 - 0 84000",
        *((), ("EmbeddingBackward, seq = 67", "embedding_dense_backward, seq = 0")),
        "512,1,1|14,1,1",
    ),
    Kernel(
        f"embedding_backward_feature_kernel {F} embedding bprop 3904 - 0 0",
        *((), ("EmbeddingBackward, seq = 67", "embedding_dense_backward, seq = 0")),
        "32,32,1|7,1,1",
    ),
    Kernel(
        f"{E} Tensor __mul__ bprop 2016 - 140000.0 1120000",
        *((), ("MulBackward0, seq = 66", "mul, seq = 0"), POINT, flops(N, WHOLE)),
    ),
]
OPTIMIZER = [
    Kernel(
        "reduce_kernel Tensor norm fprop 126271 - 240001 480000",
        *((CLIP,), ("norm, seq = 124",), "512,1,1|1,1,1"),
    ),
    Kernel(
        f"{E} Tensor mul_ fprop 2464 - 120000.0 960000",
        *((SHRINK,), ("mul_, seq = 129",), "512,1,1|235,1,1", flops(120000, WHOLE)),
    ),
    Kernel(
        f"{E} Tensor add_ fprop 3584 - 180000.0 1440000",
        *((UPDATE,), ("add_, seq = 130",), "512,1,1|235,1,1", flops(120000, PER_ELEMENT)),
    ),
    Kernel(
        f"{E} Tensor add_ fprop 1408 - 300.0 2400",
        *((UPDATE_BIAS,), ("add_, seq = 130",), "512,1,1|1,1,1", flops(200, PER_ELEMENT)),
    ),
]
KERNELS = FORWARD + BACKWARD_PASS + OPTIMIZER


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """The step as nvprof wrote it."""
    path = tmp_path / "net.sql"
    file = NvprofFile(path)
    for index, kernel in enumerate(KERNELS):
        begin, end, tid = 1000 * index, 1000 * index + 900, TID
        if kernel in BACKWARD_PASS:
            tid = BACKWARD_TID
        else:
            trace = ["model.py:319", "/usr/lib/torch/nn/modules/module.py:532", f"model.py:{index}"]
            file.marker(f"{{'traceMarker': {trace}}}", begin, end)
        for depth, text in enumerate(kernel.marks + kernel.nodes, start=1):
            file.marker(text, begin + depth, end - depth, tid)
        name, duration = kernel.published.split()[0], int(kernel.published.split()[4])
        block, grid = (size_of(part) for part in kernel.size.split("|"))
        mangled = f"_ZN2at6native{len(name)}{name}ILi512ELi1EEEvi" if name == E else name
        file.kernel(mangled, begin + 400, duration, tid=tid, grid=grid, block=block)
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
        values = [*kernel.published.split(), "0", "7", *kernel.size.split("|")]
        expected = dict(zip(names, values, strict=True))
        expected |= {name: value for name, (value, _) in kernel.changed.items()}
        assert row == expected, kernel.published


def test_every_reason_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "sources.md").read_text()
    reasons = {reason for kernel in KERNELS for _, reason in kernel.changed.values()}
    assert reasons == {WHOLE, PER_ELEMENT, ALL_TERMS, UNKNOWN, COUNTED}
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
