"""Kineto traces: what is in them is in the profile, and what is damaged is said in a sentence."""

from __future__ import annotations

import gzip
import json
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aggregator.costs.messages import find_messages
from aggregator.errors import (
    CorruptProfileError,
    NoGpuActivityError,
    ProfileError,
    UnsupportedProfileError,
)
from aggregator.kernels.names import short_name
from aggregator.profile.profile import Profile
from aggregator.sources import open_profile
from aggregator.sources.kineto import trace_json as kineto_json
from aggregator.sources.kineto.arguments import Arguments, read_arguments
from aggregator.sources.kineto.names import copy_kinds, data_type
from aggregator.system.progress import NullProgress
from tests.builders import analyze_file

PID, MAIN, ENGINE = 100, 100, 107


def _event(cat: str, name: str, ts: float, dur: float, tid: int = MAIN, **args: Any) -> Any:
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": PID,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def _kernel(name: str, ts: float, dur: float, correlation: int) -> Any:
    where = {"device": 0, "stream": 7, "grid": [2, 3, 4], "block": [128, 1, 1]}
    event = _event("kernel", name, ts, dur, tid=7, correlation=correlation, **where)
    return event | {"pid": 0}


def _events() -> list[Any]:
    """One step: a convolution in a module called by a script, its backward node, a copy."""
    sizes: dict[str, Any] = {"Input Dims": [[8, 3, 4, 4], [6, 3, 3, 3], []]}
    types: dict[str, Any] = {"Input type": ["c10::Half", "c10::Half", ""]}
    wrapper = "autograd::engine::evaluate_function: ConvolutionBackward0"
    return [
        {"ph": "M", "name": "thread_name", "pid": PID, "tid": ENGINE, "ts": 0,
         "args": {"name": f"thread {ENGINE} (pt_autograd_0)"}},
        _event("user_annotation", "ProfilerStep#1", 1000.001, 900.5),
        _event("python_function", "train.py(12): <module>", 990, 1000),
        _event("python_function", "nn.Module: Conv2d_0", 1010, 100),
        _event("python_function", "conv.py(552): forward", 1011, 98),
        _event("python_function", "<built-in conv2d at 0x7f12>", 1012, 90),
        _event("cpu_op", "aten::conv2d", 1013, 80, **{"Sequence number": 5}, **sizes, **types),
        _event("cuda_runtime", "cudaLaunchKernel", 1020, 10, correlation=1),
        _kernel("void cudnn::conv<(int)3, A>(float*)", 1030.123, 20.004, 1),
        _event("cpu_op", wrapper, 1200, 60, ENGINE, **{"Sequence number": 5}),
        _event("cpu_op", "ConvolutionBackward0", 1201, 50, ENGINE, **{"Sequence number": 5}),
        _event("cuda_runtime", "cudaLaunchKernel", 1210, 10, ENGINE, correlation=2),
        _kernel("void cudnn::wgrad<3>(float*)", 1220, 30.5, 2),
        _event("cuda_runtime", "cudaMemcpyAsync", 1500, 10, correlation=3),
        _event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 1510, 4, 7, correlation=3,
               device=0, stream=7, bytes=4096) | {"pid": 0},
        _event("overhead", "Lazy Function Loading", 1520, 4),
    ]  # fmt: skip


def steps(count: int, apart_us: float) -> list[Any]:
    """Several such steps, so long apart."""
    found = []
    for step in range(count):
        for event in _events():
            args = dict(event["args"])
            if "correlation" in args:
                args["correlation"] += 10 * step
            name = event["name"].replace("#1", f"#{step + 1}")
            at = event["ts"] + apart_us * step
            found.append(event | {"args": args, "name": name, "ts": at})
    return found


def trace(events: list[Any], **more: Any) -> str:
    device = {"id": 0, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": 132}
    head = {"schemaVersion": 1, "deviceProperties": [device], "cuda_runtime_version": 13000}
    return json.dumps({**head, **more, "traceEvents": events, "traceName": "t.json"}, indent=2)


def _read(tmp_path: Path, text: str | bytes, name: str = "t.pt.trace.json") -> Profile:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return open_profile(path, NullProgress())


def test_events_become_columns(tmp_path: Path) -> None:
    profile = _read(tmp_path, trace(_events(), baseTimeNanoseconds=10**18))
    # The first event, train.py at 990 us, is time 0.
    assert profile.kernels.start_ns.tolist() == [40_123, 230_000]
    assert (profile.kernels.end_ns - profile.kernels.start_ns).tolist() == [20_004, 30_500]
    assert [profile.strings[c] for c in profile.kernels.name.tolist()] == ["conv", "wgrad"]
    assert profile.kernels.grid.tolist() == [[2, 3, 4]] * 2
    assert profile.session.start_utc_ns == 10**18 + 990_000
    assert profile.copies.num_bytes.tolist() == [4096]
    assert (profile.copies.copy_kind.tolist(), profile.copies.host_kind.tolist()) == ([2], [1])
    assert len(profile.api_calls) == 3
    assert profile.thread_names == {PID << 24 | ENGINE: "pt_autograd_0"}
    assert profile.devices[0].compute_capability == (9, 0)
    assert profile.system.cuda_version == "13.0"
    assert profile.warnings == []


def test_counters_are_counted_as_not_read(tmp_path: Path) -> None:
    counters = [{"ph": "C", "cat": "pm_sampling", "name": "sm", "ts": at, "args": {"value": 5}}
                for at in (1000.5, 1001.5)]  # fmt: skip
    profile = _read(tmp_path, trace([*_events(), *counters]))
    messages = {warning.code: (warning.count, warning.message) for warning in profile.warnings}
    count, message = messages["UNUSED_EVENTS"]
    assert (count, "2 pm_sampling" in message) == (2, True)


def test_counters_without_kernels_are_no_work(tmp_path: Path) -> None:
    """Alone they are refused; beside calls, the times on the GPU are unknown."""
    counters = [
        {"ph": "C", "cat": "pm_sampling", "name": "sm__cycles_active.avg.pct_of_peak_sustained",
         "pid": 0, "ts": at, "args": {"value": 5}} for at in (1000.5, 1001.5)
    ]  # fmt: skip
    with pytest.raises(NoGpuActivityError, match="no CUDA activity"):
        _read(tmp_path, trace(counters))
    calls = [event for event in _events() if event.get("cat") not in {"kernel", "gpu_memcpy"}]
    profile = _read(tmp_path, trace([*calls, *counters]))
    assert "NO_GPU_WORK" in {warning.code for warning in profile.warnings}
    assert len(profile.kernels) == len(profile.copies) == 0


def test_points_in_time_and_asynchronous_events_are_counted_as_not_read(tmp_path: Path) -> None:
    events = [{"ph": phase, "cat": "request", "name": "r", "ts": 1000.5, "id": 1, "s": "t"}
              for phase in "ibestf"]  # fmt: skip
    found = _read(tmp_path, trace([*_events(), *events])).warnings
    assert [(warning.code, warning.count) for warning in found] == [("UNUSED_EVENTS", 4)]


def test_events_of_graphs_and_their_links_are_counted_as_not_read(tmp_path: Path) -> None:
    """What PyTorch's newer backend writes of the nodes of a graph, and how they depend."""
    nodes = [
        _event(cat, "node", 1001, 1, correlation=0)
        for cat in ("graph_event_node", "graph_host_node")
    ]
    links = [
        {
            "ph": phase,
            "cat": "graph_dep",
            "name": "dep",
            "id": 1 << 40,
            "pid": 0,
            "tid": 7,
            "ts": 1001,
        }
        for phase in "sf"
    ]
    profile = _read(tmp_path, trace([*_events(), *nodes, *links]))
    messages = {warning.code: (warning.count, warning.message) for warning in profile.warnings}
    count, message = messages["UNUSED_EVENTS"]
    assert count == 2 + 1
    assert "1 graph_host_node, 1 links graph_dep" in message


def _arrow(number: object, before: Any, after: Any) -> list[Any]:
    """An arrow between nodes of a graph, as PyTorch 2.14 writes it."""
    end = {"ph": "s", "ts": before["ts"] + before["dur"], "tid": before["tid"]}
    start = {"ph": "f", "ts": after["ts"], "tid": after["tid"], "bp": "e"}
    return [{"cat": "ac2g", "name": "ac2g", "id": number, "pid": 0, **at} for at in (end, start)]


def test_arrows_between_nodes_of_graphs_are_dependencies_of_kernels(tmp_path: Path) -> None:
    """Arrows within a stream repeat its order; one to what is no kernel is counted."""
    kernels = [_kernel(f"k{n}", 1000 + 10 * n, 5.003, 5) for n in range(4)]
    for kernel, lane in zip(kernels, (20, 20, 21, 22), strict=True):
        kernel["tid"] = kernel["args"]["stream"] = lane
    lost = {**kernels[3], "ts": 1037}
    pairs = [(kernels[0], kernels[1]), (kernels[0], kernels[2]), (kernels[1], lost)]
    arrows = [arrow for n, pair in enumerate(pairs) for arrow in _arrow((1 << 40) + n, *pair)]
    launches = [
        _arrow(number, kernels[1], kernels[3])[0] for number in (5, "x", 1 << 70, None, 1.5)
    ]
    nowhere = _arrow((1 << 40) + 9, kernels[0], kernels[2])
    nowhere[0] |= {"pid": 1 << 80, "tid": "stream"}
    launches += nowhere
    profile = _read(tmp_path, trace([*_events(), *kernels, *arrows, *launches]))
    names = [profile.strings[code] for code in profile.kernels.name.tolist()]
    before, after = profile.kernel_links.tolist()
    assert [(names[a], names[b]) for a, b in zip(before, after, strict=True)] == [("k0", "k2")]
    assert [(w.code, w.count) for w in profile.warnings] == [("UNUSED_EVENTS", 2)]
    assert "2 links of graph nodes" in profile.warnings[0].message


@pytest.mark.parametrize("backward", ["", "_backward"])
@pytest.mark.parametrize(
    "op",
    [
        *(f"_scaled_dot_product_{kind}_attention" for kind in ("flash", "efficient", "cudnn")),
        "_flash_attention{forward}",
        "_cudnn_attention{forward}",
    ],
)
def test_the_mask_of_an_attention_is_where_pytorch_has_it(op: str, backward: str) -> None:
    torch = pytest.importorskip("torch")
    name = op.format(forward=backward or "_forward") + backward * ("{" not in op)
    arguments = getattr(torch.ops.aten, name).default._schema.arguments
    written = json.dumps([str(argument.name == "is_causal") for argument in arguments]).encode()
    found = read_arguments(Arguments(b"", b"", written, f"aten::{name}"))
    assert found.parameters == '{"is_causal":true}'


@pytest.mark.parametrize("memory", ["pageable", "pinned"])
@pytest.mark.parametrize(("kind", "sides"), [("DtoH", "Device -> {}"), ("HtoD", "{} -> Device")])
def test_kinds_of_copies_in_their_arguments_are_those_of_names(
    tmp_path: Path, kind: str, sides: str, memory: str
) -> None:
    """PyTorch 2.14 writes ``Memcpy``, and what older versions write in the name as arguments."""
    old, new = _events(), _events()
    words = sides.format(memory.capitalize())
    old[-2]["name"] = f"Memcpy {kind} ({words})"
    source, target = words.lower().split(" -> ")
    new[-2]["name"] = "Memcpy"
    new[-2]["args"] |= {"copy kind": kind, "src kind": source, "dst kind": target}
    expected, found = (_read(tmp_path, trace(events)) for events in (old, new))
    assert expected.copies.host_kind.tolist() == [memory == "pinned"]
    for column in ("copy_kind", "host_kind", "num_bytes", "start_ns", "end_ns", "stream_id"):
        values = getattr(expected.copies, column).tolist()
        assert getattr(found.copies, column).tolist() == values
    assert found.strings == expected.strings
    assert [w.code for w in found.warnings] == [w.code for w in expected.warnings]


def test_kinds_of_copies_that_are_unknown_are_counted(tmp_path: Path) -> None:
    events = _events()
    events[-2]["name"] = "Memcpy"
    events[-2]["args"] |= {"copy kind": "Sideways"}
    profile = _read(tmp_path, trace(events))
    assert profile.copies.copy_kind.tolist() == [-1]
    assert {w.code: w.count for w in profile.warnings}["ODD_VALUES"] == 1


@pytest.mark.parametrize(
    ("kind", "elements", "expected"),
    [("BFloat16", 100, 200), ("Float8_e4m3fn", 100, 100), ("Double", 0, 0), ("Other", 100, -1)],
)
def test_kernels_of_collectives_have_the_bytes_of_their_messages(
    tmp_path: Path, kind: str, elements: int, expected: int
) -> None:
    events = _events()
    kernels = [event for event in events if event.get("cat") == "kernel"]
    kernels[0]["args"] |= {"In msg nelems": elements, "dtype": kind}
    profile = _read(tmp_path, trace(events))
    assert profile.message_bytes.tolist() == [expected] + [-1] * (len(kernels) - 1)
    found = find_messages(profile, np.zeros(len(kernels), dtype=np.int32))
    assert found.num_bytes.tolist() == ([expected] if expected >= 0 else [])
    assert found.kernel.tolist() == ([0] if expected >= 0 else [])


def test_modules_and_stacks_are_ranges(tmp_path: Path) -> None:
    profile = _read(tmp_path, trace(_events()))
    names = [profile.range_names[code] for code in profile.ranges.name.tolist()]
    marker = json.dumps({"traceMarker": ["train.py(12): <module>", "conv.py(552): forward"]})
    # The built-in function is what the op lies in directly: it carries the stack.
    assert sorted(names) == sorted(
        [
            "ProfilerStep#1",
            "torch.nn: Conv2d_0 (Conv2d)",
            marker,
            "aten::conv2d",
            "autograd::engine::evaluate_function: ConvolutionBackward0",
            "ConvolutionBackward0",
            json.dumps({"traceMarker": ["train.py(12): <module>"]}),
        ]
    )
    op = names.index("aten::conv2d")
    assert profile.ranges.seq[op] == 5
    assert profile.shape_texts[profile.ranges.shapes[op]] == "[[8, 3, 4, 4], [6, 3, 3, 3], []]"
    assert profile.shape_types[profile.ranges.shapes[op]] == "float16"
    assert profile.ranges.seq[names.index("ConvolutionBackward0")] == 5


def test_call_stacks_of_older_traces_are_kept(tmp_path: Path) -> None:
    events = [event for event in _events() if event.get("cat") != "python_function"]
    op = next(event for event in events if event["name"] == "aten::conv2d")
    op["args"]["Call stack"] = "conv.py(552): forward;train.py(12): <module>"
    profile = _read(tmp_path, trace(events))
    stack = ["train.py(12): <module>", "conv.py(552): forward"]
    assert json.dumps({"traceMarker": stack}) in profile.range_names


def _named_ranges(profile: Profile) -> list[tuple[int, int, str]]:
    ranges = profile.ranges
    names = [profile.range_names[code] for code in ranges.name.tolist()]
    return sorted(zip(ranges.start_ns.tolist(), ranges.end_ns.tolist(), names, strict=True))


@pytest.mark.parametrize("layers", [0, 1, 2])
def test_a_byte_order_mark_and_a_second_packing_change_nothing(tmp_path: Path, layers: int) -> None:
    data = b"\xef\xbb\xbf" + trace(_events()).encode()
    for _ in range(layers):
        data = gzip.compress(data)
    assert _read(tmp_path, data).counts() == _read(tmp_path, trace(_events())).counts()


def test_gzip_and_plain_are_the_same_in_blocks_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = trace([*_events(), _event("cpu_op", 'aten::"x\\"}, {"ph": "', 1800, 1)])
    whole = _read(tmp_path, text)
    for size in (7, 64, 1000):
        monkeypatch.setattr(kineto_json, "BLOCK_BYTES", size)
        packed = _read(tmp_path, gzip.compress(text.encode()), "t.json.gz")
        assert packed.counts() == whole.counts()
        assert _named_ranges(packed) == _named_ranges(whole)
        assert np.array_equal(packed.kernels.start_ns, whole.kernels.start_ns)


def test_numbers_that_are_none_do_not_stop_the_rest(tmp_path: Path) -> None:
    text = trace(_events()).replace('"bytes": 4096', '"bytes": 4096, "bandwidth": inf')
    assert _read(tmp_path, text).copies.num_bytes.tolist() == [4096]


def test_events_without_a_time_are_counted(tmp_path: Path) -> None:
    events = _events()
    del events[6]["dur"]
    events[7]["dur"] = -3
    profile = _read(tmp_path, trace(events))
    codes = {warning.code: warning.count for warning in profile.warnings}
    assert (codes["BROKEN_EVENTS"], codes["REVERSED_EVENTS"]) == (1, 1)


def test_the_rank_is_read(tmp_path: Path) -> None:
    info = {"backend": "nccl", "rank": 3, "world_size": 8}
    assert _read(tmp_path, trace(_events(), distributedInfo=info)).rank == 3


def test_a_trace_without_a_gpu_is_refused(tmp_path: Path) -> None:
    events = [event for event in _events() if event.get("cat") in {"cpu_op", "user_annotation"}]
    with pytest.raises(NoGpuActivityError, match="no CUDA activity"):
        _read(tmp_path, trace(events))


def test_calls_without_work_are_warned_of(tmp_path: Path) -> None:
    work = {"kernel", "gpu_memcpy"}
    events = [event for event in _events() if event.get("cat") not in work]
    codes = {w.code: w.count for w in _read(tmp_path, trace(events)).warnings}
    assert codes["NO_GPU_WORK"] == 3


@pytest.mark.parametrize(("field", "value"), [("cat", "Kernel"), ("cat", "gpu_op")])
def test_capital_categories_are_read(tmp_path: Path, field: str, value: str) -> None:
    """PyTorch before 1.12 wrote them with capitals; what is not known is counted."""
    events = _events()
    for event in events:
        if event.get("cat") == "kernel":
            event[field] = value
    profile = _read(tmp_path, trace(events))
    codes = {warning.code: warning.count for warning in profile.warnings}
    if value == "Kernel":
        assert len(profile.kernels) == 2
    else:
        assert (len(profile.kernels), codes["UNUSED_EVENTS"]) == (0, 2)


def _op(name: str, start: float, **values: Any) -> Any:
    spelt = {
        "dims": "Input Dims",
        "types": "Input type",
        "concrete": "Concrete Inputs",
        "seq": "Sequence number",
    }
    return _event("cpu_op", name, start, 5, **{spelt[key]: value for key, value in values.items()})


def _shape(profile: Profile, name: str) -> int:
    codes = profile.ranges.name.tolist()
    row = next(r for r, code in enumerate(codes) if profile.range_names[code] == name)
    return int(profile.ranges.shapes[row])


def test_parameters_and_lists_are_read(tmp_path: Path) -> None:
    image, weight = [8, 3, 9, 9], [4, 3, 3, 3]
    none: list[int] = []
    conv = _op(
        "aten::conv2d",
        1600,
        dims=[image, weight, none, none, none, none, none],
        types=["float", "float", "", "ScalarList", "ScalarList", "ScalarList", "Scalar"],
        concrete=["", "", "", "[2, 2]", "", "[1, 1]", "1"],
    )
    cat = _op("aten::cat", 1610, dims=[[[2, 3], [4, 3]], []], types=["TensorList", "Scalar"])
    profile = _read(tmp_path, trace([*_events(), conv, cat]))
    row = _shape(profile, "aten::cat")
    assert profile.shape_texts[row] == "[[2, 3], [4, 3], []]"
    parameters = next(json.loads(text) for text in profile.shape_parameters if '"stride"' in text)
    # A word instead of numbers is left out of the trace: unknown, not the default.
    assert parameters == {"stride": [2, 2], "padding": "", "dilation": [1, 1], "groups": 1}


@pytest.mark.parametrize(("blocks", "known"), [(3, True), (4, False)])
def test_long_lists_have_the_sizes_of_the_gradients(
    tmp_path: Path, blocks: int, known: bool
) -> None:
    """Two parameters need two blocks and one; where the kernels had more they are not those."""
    gradient = "torch::autograd::AccumulateGrad"
    events = [
        _op(gradient, 1600, dims=[[10]], types=["float"]),
        _op(gradient, 1610, dims=[[70000]], types=["float"]),
        _op("aten::_foreach_mul_", 1620, dims=[[], []], types=["TensorList", "Scalar"]),
        _event("cuda_runtime", "cudaLaunchKernel", 1621, 2, correlation=9),
        _kernel("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<A>(A)",
                1640, 5, 9),
    ]  # fmt: skip
    events[-1]["args"]["grid"] = [blocks, 1, 1]
    profile = _read(tmp_path, trace([*_events(), *events]))
    code = _shape(profile, "aten::_foreach_mul_")
    assert (code >= 0) == known
    if known:
        assert profile.shape_texts[code] == "[[70000], [10], []]"


def test_modules_made_anew_in_every_step_are_one(tmp_path: Path) -> None:
    events = []
    for step in range(3):
        start = 2000 + 100 * step
        events += [
            _event("python_function", "nn.Module: Net_0", start, 50),
            _event("python_function", f"nn.Module: Loss_{step}", start + 10, 20),
            _op("aten::mean", start + 12, dims=[[4]], types=["float"]),
            _event("python_function", "nn.Module: Linear_0", start + 40, 5),
        ]
    profile = _read(tmp_path, trace([*_events(), *events]))
    names = [profile.range_names[code] for code in profile.ranges.name.tolist()]
    assert names.count("torch.nn: Loss_0 (Loss)") == 3
    assert names.count("torch.nn: Linear_0 (Linear)") == 3


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"{}", UnsupportedProfileError),
        (b"[]", UnsupportedProfileError),
        (b'{"a": [1, 2]}', UnsupportedProfileError),
        (b'{"traceEvents": [', CorruptProfileError),
        (b'{"traceEvents": []}', NoGpuActivityError),
        (b'{"traceEvents": [{"ph": "X", "args": {"grid": "x"}}]}', NoGpuActivityError),
        (b'{"traceEvents": [1, 2]}', CorruptProfileError),
        (b"\x1f\x8b", CorruptProfileError),
        (gzip.compress(b"", mtime=0), CorruptProfileError),
        (gzip.compress(b"no trace", mtime=0), UnsupportedProfileError),
        (gzip.compress(gzip.compress(b"", mtime=0), mtime=0), CorruptProfileError),
        (gzip.compress(gzip.compress(b"{", mtime=0)[:15], mtime=0), CorruptProfileError),
        (b"\x1f\x8b\x08\x00 not packed at all", CorruptProfileError),
        (b'{"traceEv', CorruptProfileError),
    ],
)
def test_files_that_are_no_traces_are_refused(
    tmp_path: Path, text: bytes, error: type[ProfileError]
) -> None:
    with pytest.raises(error):
        _read(tmp_path, text)


@pytest.mark.parametrize(
    ("field", "value", "odd"),
    [
        ("grid", "grid(100,)", 1),
        ("block", [1, 2], 1),
        ("stream", "0x7f", 0),
        ("stream", {}, 1),
        ("device", 1 << 70, 1),
        ("correlation", "none", 1),
    ],
)
def test_a_value_of_another_type_is_unknown(
    tmp_path: Path, field: str, value: Any, odd: int
) -> None:
    events = _events()
    kernel = next(event for event in events if event.get("cat") == "kernel")
    kernel["args"][field] = value
    profile, plain = _read(tmp_path, trace(events)), _read(tmp_path, trace(_events()))
    assert len(profile.kernels) == len(plain.kernels)
    assert profile.kernels.end_ns.tolist() == plain.kernels.end_ns.tolist()
    assert [w.count for w in profile.warnings if w.code == "ODD_VALUES"] == [1] * odd
    if field == "stream":
        assert (0x7F in profile.kernels.stream_id.tolist()) == (odd == 0)


@pytest.mark.parametrize("args", [None, [], {}, {"correlation": 1}])
def test_work_that_names_no_gpu_counts_for_the_first(tmp_path: Path, args: Any) -> None:
    work = {"kernel", "gpu_memcpy"}
    events = [event | {"args": args} if event["cat"] in work else event for event in _events()[1:]]
    profile = _read(tmp_path, trace(events))
    assert (len(profile.kernels), len(profile.copies)) == (2, 1)
    assert [device.device_id for device in profile.devices] == [0]
    assert {w.code: w.count for w in profile.warnings}["UNKNOWN_DEVICES"] == 3


@pytest.mark.parametrize("category", ["xpu_runtime", "mtia_runtime", "PrivateUse1_driver"])
def test_calls_of_other_makers_launch_their_work(tmp_path: Path, category: str) -> None:
    events = [
        event | {"cat": category} if event.get("cat") == "cuda_runtime" else event
        for event in _events()
    ]
    assert _read(tmp_path, trace(events)).api_calls.correlation_id.tolist() == [1, 2, 3]


@pytest.mark.parametrize("apart_us", [0.5, 0.0, -0.5])
def test_ranks_joined_in_one_trace_keep_their_work(tmp_path: Path, apart_us: float) -> None:
    """Both count their calls from 1, and run in step."""
    joined = []
    for rank, event in ((rank, event) for rank in (0, 1) for event in _events()[1:]):
        is_work = event["cat"] in {"kernel", "gpu_memcpy"}
        args = event["args"] | ({"device": rank} if is_work else {})
        at = event["ts"] + rank * apart_us
        joined.append(event | {"pid": rank if is_work else PID + rank, "ts": at, "args": args})
    profile = _read(tmp_path, trace(joined))
    assert profile.process_ids == (PID, PID + 1)
    for work in (profile.kernels, profile.copies):
        assert work.process.tolist() == work.device.tolist()
        assert set(work.device.tolist()) == {0, 1}


def test_bytes_that_were_not_recorded_are_unknown(tmp_path: Path) -> None:
    copy: dict[str, Any] = {
        "ph": "X",
        "cat": "gpu_memcpy",
        "name": "Memcpy DtoD (Device -> Device)",
    }
    copy |= {"pid": 0, "tid": 7, "ts": 1012, "dur": 5, "args": {"device": 0, "stream": 7}}
    events = [*_events(), copy, {**copy, "ts": 1020, "args": copy["args"] | {"bytes": 64}}]
    path = tmp_path / "t.pt.trace.json"
    path.write_bytes(trace(events).encode())
    found = analyze_file(path, tmp_path / "t.dldb.sqlite")
    sql = "SELECT bytes FROM view_memory_ops WHERE kind = 'memcpy'"
    assert {row[0] for row in found.query(sql)} >= {None, 64}
    # The bytes of an op that has such a copy are unknown, not less by one.
    sql = "SELECT min(bytes) FROM op_efficiency"
    assert (found.query(sql)[0][0] or 0) >= 0


def test_times_since_1970_are_exact_to_a_nanosecond(tmp_path: Path) -> None:
    # 2^43 us and more: float64 has steps of 2 ns there, and of 0.25 us today.
    for first in (5_000_000_000_000, 8_796_093_022_208, 1_773_709_742_341_309):
        starts = [f"{first + number}.{number:03d}" for number in range(40)]
        rows = [json.dumps(_kernel("k", 0, 0.5, number)) for number in range(40)]
        rows = [
            row.replace('"ts": 0', f'"ts": {start}')
            for row, start in zip(rows, starts, strict=True)
        ]
        text = '{"traceEvents": [' + ", ".join(rows) + "]}"
        profile = _read(tmp_path, text)
        assert profile.kernels.start_ns.tolist() == [number * 1001 for number in range(40)]
        assert (profile.kernels.end_ns - profile.kernels.start_ns).tolist() == [500] * 40
    assert profile.session.start_utc_ns == 1000 * first


def test_every_cut_is_noticed_and_what_is_before_it_is_read(tmp_path: Path) -> None:
    text = trace(_events()).encode()
    packed = gzip.compress(text, mtime=0)
    chance = random.Random(1)
    for whole in (text, packed):
        end, read = len(whole.rstrip()) - 1, 0
        for cut in chance.sample(range(1, end), 60):
            try:
                profile = _read(tmp_path, whole[:cut])
            except ProfileError:
                continue
            read += 1
            assert "CUT_FILE" in {warning.code for warning in profile.warnings}
        assert read > 5


def test_damage_ends_in_an_answer(tmp_path: Path) -> None:
    text = bytearray(trace(_events()).encode())
    chance = random.Random(2)
    for _ in range(200):
        damaged = bytearray(text)
        for _ in range(3):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            profile = _read(tmp_path, bytes(damaged))
        except ProfileError:
            continue
        assert sum(profile.counts().values()) > 0


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void at::native::vec<8, at::f(at::T&)::{lambda(float)#1}>(int, A)", "vec"),
        ("void (anonymous namespace)::f<4>(int)", "f"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
         "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
        ("sm90_xmma_gemm_f16f16", "sm90_xmma_gemm_f16f16"),
        ("_ZN17cutlass__5x_cudnn6KernelINS_4conv6kernel", "Kernel"),
        ("_Z3addPfi", "add"),
        ("_Z99add", "_Z99add"),
        ("", ""),
    ],
)  # fmt: skip
def test_long_names_are_shortened(name: str, short: str) -> None:
    assert short_name(name) == short


def test_copy_kinds_are_read_in_words_of_other_sources() -> None:
    assert copy_kinds("Memcpy HtoD (Pageable -> Device)") == (1, 0)
    assert copy_kinds("Memcpy DtoD (Device -> Device)") == (8, -1)
    assert copy_kinds("something else") == (-1, -1)
    assert data_type(b'["", "Scalar", "c10::BFloat16", "float"]') == "bfloat16"
    assert data_type(b'["TensorList"]') == ""


@pytest.mark.parametrize(
    ("head", "filling"),
    [
        (b'{"traceEvents": [', b" "),
        (b'{"traceEvents": [', b"["),
        (b'{"traceEvents": [{"name": "', b"}, "),
        (b'{"traceEvents": [{"name": "', b"} , "),
        (b'{"a": "', b"0"),
        (b"", b" "),
    ],
)
def test_a_bomb_is_refused_before_it_takes_time_or_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: bytes, filling: bytes
) -> None:
    for name in ("MAX_HEADER_BYTES", "MAX_EVENT_BYTES"):
        monkeypatch.setattr(kineto_json, name, 1 << 24)
    monkeypatch.setattr(kineto_json, "BLOCK_BYTES", 1 << 18)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(head, 1) + 64 * gzip.compress(filling * (1 << 20), 1))
    began = time.process_time()

    with pytest.raises(CorruptProfileError):
        open_profile(path, NullProgress())

    # Each block is looked at once: 16 MiB take a fraction of a second, also times ten.
    assert time.process_time() - began < 15
    assert path.stat().st_size < 2 << 20


def test_many_places_where_the_events_could_end_are_not_all_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kineto_json, "_MAX_END_BYTES", 1 << 22)
    tried: list[int] = []
    is_array = kineto_json._is_array

    def counted(text: bytes) -> bool:
        tried.append(len(text))
        return is_array(text)

    monkeypatch.setattr(kineto_json, "_is_array", counted)
    events = b'{"ph": "M"},' * 10_000
    ends = b'"a": [],' * 100_000

    with pytest.raises(CorruptProfileError):
        _read(tmp_path, b'{"traceEvents": [' + events + b"!],  " + ends + b'"b": []}')

    assert 0 < len(tried) < 60


@pytest.mark.parametrize("number", ["\u00b2", "9" * 5_000, "main thread"])
def test_threads_and_processes_of_any_name_are_numbered(tmp_path: Path, number: str) -> None:
    events = [event | {"tid": number, "pid": number} for event in _events()]

    profile = _read(tmp_path, json.dumps({"traceEvents": events}))

    assert len(profile.threads) == 1
    assert profile.process_ids == (0,)
