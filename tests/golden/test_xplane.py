"""XPlane files of JAX: device work, ops and steps; other devices and damage in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest

from aggregator.errors import (
    CorruptProfileError,
    NoGpuActivityError,
    ProfileError,
    UnsupportedProfileError,
)
from aggregator.profile.profile import Profile
from aggregator.sources import open_profile
from aggregator.sources.xplane.wire import WireError, read_fields
from aggregator.system.progress import NullProgress
from aggregator.tables.timeline.protobuf import message, text, varint
from tests.builders import analyze_file, unpacked

CAPTURES = Path(__file__).parents[1] / "data" / "captures" / "xplane"
HOST_ONLY = CAPTURES / "host.xplane.pb"
OPS = "SELECT op_node_name, kernel_calls FROM view_op_nodes WHERE aggr_id = 1 AND kernel_calls > 0"
START_NS = 1_000_000
STEP_NS = 100_000
DETAILS = "regs:32 static_shared:0 dynamic_shared:0 grid:8,4,1 block:256,1,1 occ_pct:50"
COPY = "kind_src:pageable kind_dst:device size:4096 dest:0 async:1"

Value = int | str
Event = tuple[str, int, int, Mapping[str, Value]]
"""Name, start and length in ns, and statistics."""


class Plane:
    """Writes a plane by the schema of OpenXLA's xplane.proto, one message after the other."""

    def __init__(self, name: str, **own: Value) -> None:
        self._body = text(2, name)
        self._names: dict[str, int] = {}
        self._stats: dict[str, int] = {}
        self._own = own

    def line(self, number: int, name: str, events: Iterable[Event]) -> Plane:
        body = varint(1, number) + text(2, name) + varint(3, START_NS)
        for event, start, length, stats in events:
            key = self._names.setdefault(event, len(self._names) + 1)
            times = varint(2, 1000 * start) + varint(3, 1000 * length)
            parts = b"".join(self._stat(*item, 4) for item in stats.items())
            body += message(4, varint(1, key) + times + parts)
        self._body += message(3, body)
        return self

    def _stat(self, name: str, value: Value, number: int) -> bytes:
        key = self._stats.setdefault(name, len(self._stats) + 1)
        content = text(5, value) if isinstance(value, str) else varint(4, value)
        return message(number, varint(1, key) + content)

    def encoded(self) -> bytes:
        body = self._body + b"".join(self._stat(*item, 6) for item in self._own.items())
        for number, names in ((4, self._names), (5, self._stats)):
            for name, key in names.items():
                metadata = varint(1, key) + text(2, name)
                body += message(number, varint(1, key) + message(2, metadata))
        return message(1, body)


def gpu_planes(steps: int = 6) -> list[Plane]:
    """A program of a product and a copy in each step."""
    calls: list[Event] = []
    kernels: list[Event] = []
    copies: list[Event] = []
    host: list[Event] = []
    for step in range(steps):
        at = step * STEP_NS
        host.append(("train", at, STEP_NS - 1000, {"step_num": step}))
        host.append(("jit_step:XLA GPU module", at + 1000, 50_000, {}))
        for place, op in enumerate(("gemm_fusion_dot.1", "loop_tanh_fusion")):
            number, begin = 10 * step + place, at + 2000 + 10_000 * place
            calls.append(("cuLaunchKernel", begin, 3000, {"correlation_id": number}))
            stats: dict[str, Value] = {
                "correlation_id": number,
                "kernel_details": DETAILS,
                "hlo_module": "jit_step",
                "hlo_op": op,
                "tf_op": "jit(step)/layer_0/dot_general:",
            }
            kernels.append((op.replace(".", "_"), begin + 5000, 8000, stats))
        number = 10 * step + 5
        calls.append(("cuMemcpyHtoDAsync_v2", at + 60_000, 2000, {"correlation_id": number}))
        of_copy: dict[str, Value] = {"correlation_id": number, "memcpy_details": COPY}
        copies.append(("MemcpyH2D", at + 63_000, 4000, of_copy))
    device = Plane("/device:GPU:0", core_count=132, compute_cap_major=9, compute_cap_minor=0)
    device.line(7, "Stream #7(Compute)", kernels).line(8, "Stream #8(MemcpyH2D)", copies)
    return [
        device,
        Plane("/host:CUPTI").line(77, "", calls),
        Plane("/host:CPU").line(77, "python", host),
    ]


def write(path: Path, planes: list[Plane]) -> Path:
    path.write_bytes(b"".join(plane.encoded() for plane in planes))
    return path


def read(path: Path) -> Profile:
    return open_profile(path, NullProgress())


def test_device_work_has_its_times_streams_and_sizes(tmp_path: Path) -> None:
    found = read(write(tmp_path / "a.xplane.pb", gpu_planes()))
    assert (len(found.kernels), len(found.copies), len(found.api_calls)) == (12, 6, 18)
    assert set(found.kernels.stream_id.tolist()) == {7}
    assert (found.kernels.end_ns - found.kernels.start_ns).tolist() == [8000] * 12
    assert found.kernels.start_ns[0] == 7000
    assert found.kernels.grid[0].tolist() == [8, 4, 1]
    assert found.kernels.block[0].tolist() == [256, 1, 1]
    assert found.copies.num_bytes.tolist() == [4096] * 6
    assert (set(found.copies.copy_kind.tolist()), set(found.copies.host_kind.tolist())) == (
        {1},
        {0},
    )
    assert found.devices[0].compute_capability == (9, 0)
    assert found.devices[0].sm_count == 132
    assert found.warnings == []


def test_kernels_belong_to_the_hlo_ops_that_they_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.xplane.pb", gpu_planes())
    found = analyze_file(path, tmp_path / "out.sqlite")
    ops = "SELECT op_node_name, sum(kernel_calls), sum(gpu_time) FROM view_op_nodes"
    assert found.query(f"{ops} WHERE aggr_id = 1 AND kernel_calls > 0 GROUP BY 1 ORDER BY 1") == [
        ("/jit_step/layer_0/dot_general/gemm_fusion_dot.1", 6, 48_000),
        ("/jit_step/layer_0/dot_general/loop_tanh_fusion", 6, 48_000),
    ]


def test_kernels_of_tensorflow_belong_to_the_ops_that_they_name(tmp_path: Path) -> None:
    """Without XLA there is neither a module nor an HLO op."""
    ops = ("model/dense/MatMul:MatMul", "gradient_tape/model/dense/MatMul/MatMul_1:MatMul")
    calls: list[Event] = []
    kernels: list[Event] = []
    for number in range(12):
        calls.append(("cuLaunchKernel", 10_000 * number, 3000, {"correlation_id": number}))
        stats: dict[str, Value] = {"correlation_id": number, "tf_op": ops[number % 2]}
        kernels.append(("gemm", 10_000 * number + 5000, 2000, stats))
    planes = [
        Plane("/device:GPU:0").line(7, "Stream #7(Compute)", kernels),
        Plane("/host:CPU").line(77, "", calls),
    ]
    found = analyze_file(write(tmp_path / "a.xplane.pb", planes), tmp_path / "out.sqlite")
    assert dict(found.query(OPS)) == {f"/{op.partition(':')[0]}": 6 for op in ops}


def test_steps_that_the_program_marks_are_ranges(tmp_path: Path) -> None:
    found = read(write(tmp_path / "a.xplane.pb", gpu_planes()))
    steps = np.flatnonzero(found.ranges.domain == 0)
    names = [found.range_names[code] for code in found.ranges.name[steps].tolist()]
    assert names == [f"train {step}" for step in range(6)]
    assert found.ranges.start_ns[steps].tolist() == [step * STEP_NS for step in range(6)]


def test_runs_of_modules_follow_from_calls_without_host_threads(tmp_path: Path) -> None:
    path = write(tmp_path / "a.xplane.pb", gpu_planes()[:2])
    found = analyze_file(path, tmp_path / "out.sqlite")
    [(count,)] = found.query("SELECT count(*) FROM ops WHERE op_name LIKE '/jit_step/layer_0/%'")
    assert count == 2


def test_events_that_are_not_used_are_counted(tmp_path: Path) -> None:
    planes = gpu_planes()
    planes[2].line(78, "worker", [("ThreadpoolListener::Record", 0, 10, {})] * 3)
    planes[0].line(9, "XLA Modules", [("jit_step", 0, 10, {})])
    found = read(write(tmp_path / "a.xplane.pb", planes))
    assert [(warning.code, warning.count) for warning in found.warnings] == [("UNUSED_EVENTS", 4)]


def test_a_capture_of_jax_has_its_kernels_by_hlo_op(tmp_path: Path) -> None:
    """Twelve steps of twenty kernels, each of an op and a call of its own.

    ``tests/gpu/programs/jax_xplane.py`` with JAX 0.11.2 on an H200, without the plane of its HLO.
    """
    path = unpacked(CAPTURES / "jax_kernels.xplane.pb.xz", tmp_path)
    profile = read(path)
    assert (len(profile.kernels), len(profile.api_calls)) == (240, 240)
    assert np.isin(profile.kernels.correlation_id, profile.api_calls.correlation_id).all()
    assert (profile.kernels.grid > 0).all()
    [device] = profile.devices
    assert (device.name, device.compute_capability, device.sm_count) == ("NVIDIA H200", (9, 0), 132)
    found = analyze_file(path, tmp_path / "out.sqlite")
    ops = dict(found.query(OPS))
    assert len(ops) == 20
    assert set(ops.values()) == {12}
    assert "/jit_train_step/transpose(jvp(layer_1))/dot_general/custom-call.6" in ops
    assert set(found.warnings()) == {"UNUSED_EVENTS"}
    # XProf works the operations of HLO ops out from the program; the events have none.
    reasons = found.query("SELECT DISTINCT unknown_reason FROM view_op_units WHERE aggr_id = 1")
    assert reasons == [("the sizes of its arguments were not recorded",)]


def test_kernels_of_a_command_buffer_are_of_the_buffer(tmp_path: Path) -> None:
    """As in an export: the graph that XLA makes of a step is one op."""
    path = unpacked(CAPTURES / "jax_command_buffer.xplane.pb.xz", tmp_path)
    found = analyze_file(path, tmp_path / "out.sqlite")
    assert found.query(OPS) == [("/jit_train_step/command_buffer_1", 240)]
    assert set(found.warnings()) == {"UNUSED_EVENTS"}
    names = {"cuGraphLaunch", "cuGraphCreate", "cuGraphAddKernelNode"}
    profile = read(path)
    assert {profile.strings[code] for code in profile.api_calls.name.tolist()} == names


def test_planes_of_one_name_are_read_as_several(tmp_path: Path) -> None:
    """The files of two hosts, joined: each has a first GPU."""
    found = read(write(tmp_path / "a.xplane.pb", [*gpu_planes(), *gpu_planes()]))
    assert len(found.devices) == 2
    assert np.bincount(found.kernels.device).tolist() == [12, 12]


def test_a_file_of_a_host_only_is_refused() -> None:
    with pytest.raises(NoGpuActivityError):
        read(HOST_ONLY)


def test_a_file_of_a_tpu_is_refused(tmp_path: Path) -> None:
    plane = Plane("/device:TPU:0").line(1, "XLA Ops", [("fusion", 0, 10, {})])
    with pytest.raises(UnsupportedProfileError, match="is of a TPU"):
        read(write(tmp_path / "a.xplane.pb", [plane]))


@pytest.mark.parametrize("share", [0.1, 0.37, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_is_refused(tmp_path: Path, share: float) -> None:
    data = write(tmp_path / "a.xplane.pb", gpu_planes()).read_bytes()
    cut = tmp_path / "cut.xplane.pb"
    cut.write_bytes(data[: int(share * len(data))])
    with pytest.raises(CorruptProfileError):
        read(cut)


def test_a_larger_file_than_a_message_can_be_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.xplane.pb"
    with path.open("wb") as file:
        file.truncate(1 << 31)
    with pytest.raises(UnsupportedProfileError, match="2 GiB"):
        read(path)


@pytest.mark.parametrize("content", [b"", b"\x00" * 64, b"not a message", b"\xff" * 99])
def test_other_bytes_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(content)
    with pytest.raises(ProfileError):
        read(path)


def test_a_trace_of_perfetto_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "run.pftrace"
    path.write_bytes(message(1, varint(8, 1)))
    with pytest.raises(UnsupportedProfileError, match="Perfetto") as refused:
        read(path)
    assert "export_chrome_trace" in (refused.value.hint or "")


@pytest.mark.parametrize("count", [1, 100])
def test_fields_are_those_that_were_written(count: int) -> None:
    """Few messages are read one by one, many at once: both ways find the same."""
    numbers = [3 + 977 * row - 40_000 for row in range(count)]
    bodies = [varint(1, n % 2**64) + text(5, "x" * (n % 7)) + varint(9, 1 << 40) for n in numbers]
    ends = np.cumsum([len(body) for body in bodies])
    starts = ends - np.array([len(body) for body in bodies])
    data = np.frombuffer(b"".join(bodies), dtype=np.uint8)
    found = read_fields(data, starts, ends)
    assert found.values(1, count).tolist() == numbers
    assert found.values(9, count).tolist() == [1 << 40] * count
    lengths = found.of(5, 2)
    assert (lengths.end - lengths.start).tolist() == [n % 7 for n in numbers]


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize(
    "body", [b"\x0a\x7f", b"\x08\xff", b"\x09\x00", b"\x0b", b"\x08" + b"\xff" * 12]
)
def test_a_message_that_ends_inside_a_field_is_an_error(count: int, body: bytes) -> None:
    data = np.frombuffer(body * count, dtype=np.uint8)
    starts = np.arange(count) * len(body)
    with pytest.raises(WireError):
        read_fields(data, starts, starts + len(body))
