"""Reads an XPlane file of JAX or TensorFlow on a GPU into a ``Profile``.

XLA's profiler records the activities of CUPTI, as Nsight Systems does: one plane for each GPU with
a line for each stream; CUDA calls are on the lines of the host's threads, and have the name of the
kernel that they launch. It writes no ranges of HLO ops; each kernel says its module and op instead.
They become the ranges that XLA writes for Nsight Systems (domain ``TSL``), so that ops and
iterations follow from the same rules. Kernels of a command buffer (a CUDA graph) say the buffer
only.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from aggregator.errors import CorruptProfileError, UnsupportedProfileError
from aggregator.frameworks.xla import DOMAIN
from aggregator.kernels.names import demangle, short_name
from aggregator.profile.arrays import Codes, row_codes
from aggregator.profile.profile import (
    DEFAULT_DOMAIN,
    ApiCalls,
    Device,
    DeviceWork,
    Kernels,
    Marks,
    MemoryOps,
    Profile,
    ProfileWarning,
    Ranges,
    Session,
    SourceFormat,
)
from aggregator.sources.formats import no_activity
from aggregator.sources.xplane.planes import Plane, read_planes
from aggregator.sources.xplane.wire import WireError
from aggregator.texts import say

if TYPE_CHECKING:
    from pathlib import Path

    from aggregator.profile.arrays import Bool, Int32, Int64
    from aggregator.system.progress import Progress

_MOST_BYTES: Final = (1 << 31) - 1
"""Larger messages are no protocol buffers: XLA could not have written one."""
_GPU: Final = re.compile(r"^/device:GPU:(\d+)")
_OTHER_DEVICE: Final = re.compile(r"^/device:(?!GPU|CUSTOM)(\w+)")
_HOST: Final = re.compile(r"^/host:(?:CPU|CUPTI)")
"""Calls had a plane of their own in files of 2021."""
_STREAM: Final = re.compile(r"^Stream #(\d+)")
_COPY: Final = re.compile(r"^Memcpy(\w+)")
_COPY_KINDS: Final = {"H2D": 1, "D2H": 2, "D2D": 8, "H2H": 9, "P2P": 10}
_DETAIL: Final = re.compile(r"(\w+):([\w,.]+)")
_MODULE_RUN: Final = re.compile(r"^(.+):XLA GPU module$")
_THREAD_BITS: Final = 24
_NO_PROCESS: Final = 1
"""For a file that does not have the number of its process."""
_GRAPH: Final = re.compile(r" \(CudaGraph:\d+\)$")
_LAUNCH: Final = "cuLaunchKernel"
"""For calls that have the name of their kernel: XLA launches with the driver."""
_MAKES_GRAPH: Final = "cuGraphCreate"
_ADDS_NODE: Final = "cuGraphAddKernelNode"
_NO_PATH: Final = "XlaModule:"


def read(path: Path, progress: Progress) -> Profile:
    """Read the columns of a file.

    Raises:
        CorruptProfileError: It is incomplete, or no XPlane.
        UnsupportedProfileError: Of another device than a GPU, or too large.
        NoGpuActivityError: Of a host only.
    """
    progress.phase("read", 0)
    progress.message("Reading the planes of XLA's profiler")
    if path.stat().st_size > _MOST_BYTES:
        raise UnsupportedProfileError(
            say("'{path}' has more than 2 GiB, the most of an XPlane.", path=str(path)),
            hint=say("Trace fewer steps."),
        )
    try:
        planes = read_planes(np.fromfile(path, dtype=np.uint8))
    except WireError as error:
        raise CorruptProfileError(
            say("The XPlane '{path}' is damaged or incomplete.", path=str(path)),
            hint=say("Copy it again; the program may have been ended while it wrote."),
        ) from error
    gpus = [plane for plane in planes if _GPU.match(plane.name) and len(plane)]
    if not gpus:
        _refuse(path, planes)
    return _Assembly(path, planes, gpus).profile()


def _refuse(path: Path, planes: list[Plane]) -> None:
    other = next((found[1] for p in planes if (found := _OTHER_DEVICE.match(p.name))), None)
    if other is not None:
        raise UnsupportedProfileError(
            say(
                "The XPlane '{path}' is of a {device}, not of a GPU.", path=str(path), device=other
            ),
            hint=say("Open it with XProf: pip install xprof"),
        )
    if not any(plane.name.startswith(("/host:", "/device:")) for plane in planes):
        raise CorruptProfileError(
            say("'{path}' is no XPlane of JAX or TensorFlow.", path=str(path)),
            hint=say("Write one with: jax.profiler.trace('log')"),
        )
    hint = say("Trace a program that runs on a GPU, with the CUDA build of jaxlib or TensorFlow.")
    raise no_activity(path, hint)


@dataclass
class _Assembly:
    """Joins the planes to a profile."""

    path: Path
    planes: list[Plane]
    gpus: list[Plane]
    strings: Codes[str] = field(default_factory=Codes)
    range_names: Codes[str] = field(default_factory=Codes)
    threads: Codes[int] = field(default_factory=Codes)
    hlo_texts: Codes[tuple[str, str, str]] = field(default_factory=Codes)
    thread_names: dict[int, str] = field(default_factory=dict)
    unused: Counter[str] = field(default_factory=Counter)

    def profile(self) -> Profile:
        hosts = [plane for plane in self.planes if _HOST.match(plane.name) and len(plane)]
        used = [*self.gpus, *hosts]
        start_ns = min(int(plane.start_ns.min()) for plane in used)
        for plane in used:
            plane.start_ns, plane.end_ns = plane.start_ns - start_ns, plane.end_ns - start_ns
        for plane in self.planes:
            self.unused[plane.name] += plane.num_untimed
            if plane not in used:
                self.unused[plane.name] += len(plane)
        work = self._work()
        is_call = [plane.numbers("correlation_id") >= 0 for plane in hosts]
        pairs = [*zip(hosts, is_call, strict=True)]
        calls = [plane.selected(np.flatnonzero(rows)) for plane, rows in pairs]
        api = self._api(calls, work.kernels.correlation_id)
        others = [plane.selected(np.flatnonzero(~rows)) for plane, rows in pairs]
        ranges = self._ranges(api, work, self._host_ranges(others))
        times = [plane.end_ns.max(initial=0) for plane in used]
        thread_ids = np.array(self.threads.values(), dtype=np.int64)
        return Profile(
            source_name=self.path.name,
            end_ns=int(max(times)),
            strings=self.strings.values(),
            range_names=self.range_names.values(),
            shape_texts=(),
            domain_names=(DEFAULT_DOMAIN, DOMAIN),
            threads=thread_ids,
            thread_process=np.zeros(len(thread_ids), dtype=np.int32),
            process_ids=(self._process(),),
            devices=tuple(map(_device, self.gpus)),
            ranges=ranges,
            start_end_ranges=Ranges(),
            marks=Marks(),
            api_calls=api,
            kernels=work.kernels,
            copies=work.copies,
            sets=work.sets,
            syncs=DeviceWork(),
            thread_names=self.thread_names,
            session=Session(start_utc_ns=self._start_utc_ns(start_ns)),
            source_format=SourceFormat.XPLANE,
            warnings=self._warnings(),
        )

    def _process(self) -> int:
        found = [plane.own.get("process_id") for plane in self.gpus]
        return next((pid for pid in found if isinstance(pid, int) and pid > 0), _NO_PROCESS)

    def _start_utc_ns(self, start_ns: int) -> int | None:
        """Times count from the start of the trace, which the plane of the task has."""
        for plane in self.planes:
            began = plane.own.get("profile_start_time")
            if isinstance(began, int):
                return began + start_ns if start_ns < began else start_ns
        return None

    def _warnings(self) -> list[ProfileWarning]:
        warnings = []
        unused = +self.unused
        if unused:
            kinds = ", ".join(f"{count} {name}" for name, count in sorted(unused.items()))
            text = say("events of the trace are of kinds that are not used: {kinds}.", kinds=kinds)
            warnings.append(ProfileWarning("UNUSED_EVENTS", text, unused.total()))
        return warnings

    def _threads_of(self, plane: Plane) -> Int32:
        """Row of the profile's threads of each event."""
        ids = plane.line_ids & ((1 << _THREAD_BITS) - 1) | self._process() << _THREAD_BITS
        rows = self.threads.codes(ids.tolist())
        self.thread_names |= {
            number: name
            for number, name in zip(ids.tolist(), plane.line_names, strict=True)
            if name and number not in self.thread_names
        }
        return rows[plane.line]

    def _named(self, plane: Plane, codes: Codes[str], change: Any = str) -> Int32:
        """Code of the name of each event."""
        distinct, row = np.unique(plane.event_name, return_inverse=True)
        texts = [change(plane.names.get(key, "")) for key in distinct.tolist()]
        return codes.codes(texts)[row].astype(np.int32)

    def _api(self, planes: list[Plane], numbers: Int64) -> ApiCalls:
        """CUDA calls; ``numbers``: correlation ids of the kernels."""
        if not planes:
            return ApiCalls()
        columns = [
            (
                plane.start_ns,
                plane.end_ns,
                self._threads_of(plane),
                plane.numbers("correlation_id"),
                self._called(plane, numbers),
            )
            for plane in planes
        ]
        start, end, thread, correlation, name = map(np.concatenate, zip(*columns, strict=True))
        return ApiCalls(start, end, thread, correlation, name)

    def _called(self, plane: Plane, numbers: Int64) -> Int32:
        """Code of the name of each call: one with the name of a kernel launches it.

        Where graphs are made, a call without a kernel of its own adds one to a graph.
        """
        kernels = {name for gpu in self.gpus for name in gpu.names.values()}
        names = [plane.names.get(key, "") for key in np.unique(plane.event_name).tolist()]
        makes_graphs = any(name.startswith(_MAKES_GRAPH) for name in names)
        launch, adds = (
            np.isin(plane.event_name, [k for k, name in plane.names.items() if name in kernels]),
            makes_graphs & ~np.isin(plane.numbers("correlation_id"), numbers),
        )
        code = self._named(plane, self.strings, lambda name: _GRAPH.sub("", name))
        code[launch] = self.strings.code(_LAUNCH)
        code[launch & adds] = self.strings.code(_ADDS_NODE)
        return code

    def _work(self) -> _Work:
        parts = [self._work_of(row, plane) for row, plane in enumerate(self.gpus)]
        kernels = _concatenated(Kernels, [part.kernels for part in parts])
        copies = _concatenated(MemoryOps, [part.copies for part in parts])
        sets = _concatenated(MemoryOps, [part.sets for part in parts])
        correlation, code = (
            np.concatenate([part.hlo_of[place] for part in parts]) for place in (0, 1)
        )
        _, first = np.unique(correlation, return_index=True)
        hlo_of = (correlation[first], code[first])
        return _Work(kernels, copies, sets, hlo_of, self.hlo_texts.values())

    def _work_of(self, device: int, plane: Plane) -> _Work:
        streams = [_STREAM.match(name) for name in plane.line_names]
        numbers = np.array([int(found[1]) if found else -1 for found in streams], dtype=np.int64)
        has_stream = numbers[plane.line] >= 0
        self.unused[plane.name] += int(np.count_nonzero(~has_stream))
        names = [plane.names.get(key, "") for key in plane.event_name.tolist()]
        is_copy = has_stream & np.array([bool(_COPY.match(name)) for name in names], dtype=bool)
        is_set = has_stream & np.array([name.startswith("Memset") for name in names], dtype=bool)
        rows = np.flatnonzero(has_stream & ~is_copy & ~is_set)
        common: dict[str, Any] = {
            "start_ns": plane.start_ns,
            "end_ns": plane.end_ns,
            "device": np.full(len(plane), device, dtype=np.int32),
            "stream_id": numbers[plane.line],
            "process": np.zeros(len(plane), dtype=np.int32),
            "correlation_id": plane.numbers("correlation_id"),
        }
        long_name = self._named(plane, self.strings, demangle)
        texts = self.strings.values()
        short = {code: self.strings.code(short_name(texts[code])) for code in set(long_name[rows])}
        grid, block = _sizes(plane)
        kernels = Kernels(
            **{key: column[rows] for key, column in common.items()},
            name=np.array([short[code] for code in long_name[rows]], dtype=np.int32),
            long_name=long_name[rows],
            grid=grid[rows],
            block=block[rows],
        )
        copies, sets = (_memory(plane, common, chosen, names) for chosen in (is_copy, is_set))
        hlo_of = _hlo_names(plane, common["correlation_id"], self.hlo_texts)
        return _Work(kernels, copies, sets, hlo_of, ())

    def _ranges(self, api: ApiCalls, work: _Work, host: Ranges) -> Ranges:
        """The host's ranges, and one for each sequence of calls for one HLO op.

        A run of its module begins another one. Where the host's threads do not show these runs, the
        calls do.
        """
        correlation, code = work.hlo_of
        at = np.minimum(np.searchsorted(correlation, api.correlation_id), len(correlation) - 1)
        if not len(correlation) or not len(api):
            return host
        rows = np.flatnonzero(correlation[at] == api.correlation_id)
        rows = rows[np.lexsort((api.start_ns[rows], api.thread[rows]))]
        hlo, texts = code[at[rows]], work.hlo_texts
        runs = np.sort(host.start_ns[host.domain == 1])
        run = np.searchsorted(runs, api.start_ns[rows], side="right")
        module_of = Codes[str]()
        module = module_of.codes([module for module, _, _ in texts])[hlo].astype(np.int64)
        if not len(runs):
            names = [f"XlaModule:#hlo_module={name},program_id=0#" for name in module_of.values()]
            named = np.array([*map(bool, module_of.values())], dtype=bool)[module]
            host = host.joined(self._joined(api, rows[named], (module[named],), names))
        names = [f"Thunk:#name={path},hlo_op={op}#" for _, op, path in texts]
        return host.joined(self._joined(api, rows, (hlo, run), names))

    def _joined(
        self, api: ApiCalls, rows: Int64, keys: tuple[Int64, ...], names: list[str]
    ) -> Ranges:
        """A range around each sequence of calls of a thread with the same keys."""
        columns = (api.thread[rows].astype(np.int64), *keys)
        new = np.ones(len(rows), dtype=bool)
        new[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
        heads = np.flatnonzero(new)
        code = np.asarray(self.range_names.codes(names), dtype=np.int32)
        count = len(heads)
        return Ranges(
            start_ns=api.start_ns[rows[heads]],
            end_ns=np.maximum.reduceat(api.end_ns[rows], heads),
            thread=api.thread[rows[heads]],
            domain=np.full(count, 1, dtype=np.int32),
            name=code[keys[0][heads]],
            seq=np.full(count, -1, dtype=np.int64),
            shapes=np.full(count, -1, dtype=np.int32),
        )

    def _host_ranges(self, planes: list[Plane]) -> Ranges:
        runs: list[tuple[int, int, int, str]] = []
        steps: list[tuple[int, int, int, str]] = []
        for plane in planes:
            thread, step = self._threads_of(plane), plane.numbers("step_num")
            names = {key: _MODULE_RUN.match(name) for key, name in plane.names.items()}
            runs_of = [key for key, found in names.items() if found is not None]
            is_run = np.isin(plane.event_name, runs_of)
            rows = np.flatnonzero(is_run | (step >= 0))
            self.unused[plane.name] += len(plane) - len(rows)
            for row in rows.tolist():
                times = (int(plane.start_ns[row]), int(plane.end_ns[row]), int(thread[row]))
                found = names.get(int(plane.event_name[row]))
                if found is not None:
                    text = f"XlaModule:#hlo_module={found[1]},program_id=0#"
                    runs.append((*times, text))
                else:
                    name = plane.names[int(plane.event_name[row])]
                    steps.append((*times, f"{name} {step[row]}"))
        return self._built(runs, 1).joined(self._built(steps, 0))

    def _built(self, spans: list[tuple[int, int, int, str]], domain: int) -> Ranges:
        columns = [*zip(*spans, strict=True)] or [(), (), (), ()]
        start, end, thread = (np.array(column, dtype=np.int64) for column in columns[:3])
        count = len(spans)
        return Ranges(
            start_ns=start,
            end_ns=end,
            thread=thread.astype(np.int32),
            domain=np.full(count, domain, dtype=np.int32),
            name=np.asarray(self.range_names.codes([*columns[3]]), dtype=np.int32),
            seq=np.full(count, -1, dtype=np.int64),
            shapes=np.full(count, -1, dtype=np.int32),
        )


@dataclass
class _Work:
    kernels: Kernels
    copies: MemoryOps
    sets: MemoryOps
    hlo_of: tuple[Int64, Int64]  # Correlation ids in order, and code of the texts of each.
    hlo_texts: tuple[tuple[str, str, str], ...]  # Module, HLO op, path in the framework.


def _concatenated(kind: Any, parts: list[Any]) -> Any:
    columns = vars(parts[0])
    return kind(**{name: np.concatenate([vars(part)[name] for part in parts]) for name in columns})


def _hlo_names(
    plane: Plane, correlation: Int64, texts: Codes[tuple[str, str, str]]
) -> tuple[Int64, Int64]:
    """Correlation ids of the events that name an op, and the code of what they name.

    TensorFlow's own ops have no HLO op: ``model/dense/MatMul:MatMul`` is a path and a kind.
    """
    (module, modules), (op, ops), (path, paths) = (
        plane.texts(name) for name in ("hlo_module", "hlo_op", "name")
    )
    if not len(paths):
        path, paths = plane.texts("tf_op")
    paths = tuple("" if text.startswith(_NO_PATH) else text.partition(":")[0] for text in paths)
    has_path = np.array([*map(bool, paths), False], dtype=bool)[path]
    rows = np.flatnonzero(((op >= 0) | has_path) & (correlation >= 0))
    first, inverse = row_codes(module[rows], op[rows], path[rows])
    named = []
    for row in rows[first].tolist():
        scope = paths[path[row]] if path[row] >= 0 else ""
        if op[row] >= 0:
            name = ops[op[row]]
        else:
            scope, _, name = scope.rpartition("/")
        named.append((modules[module[row]] if module[row] >= 0 else "", name, scope))
    return correlation[rows], texts.codes(named)[inverse].astype(np.int64)


def _details(plane: Plane, name: str) -> tuple[Int64, list[dict[str, str]]]:
    code, texts = plane.texts(name)
    return code, [dict(_DETAIL.findall(text)) for text in texts]


def _sizes(plane: Plane) -> tuple[Int32, Int32]:
    """Grid and block of each event, from ``regs:32 .. grid:8,1,1 block:256,1,1 ..``."""
    code, details = _details(plane, "kernel_details")
    unknown = (-1, -1, -1)
    found = []
    for key in ("grid", "block"):
        values = [_three(detail.get(key, "")) or unknown for detail in details]
        table = np.array([*values, unknown], dtype=np.int32)
        found.append(table[code])
    return found[0], found[1]


def _three(text: str) -> tuple[int, ...] | None:
    parts = text.split(",")
    is_size = len(parts) == 3 and all(part.isdecimal() and len(part) < 10 for part in parts)
    return tuple(map(int, parts)) if is_size else None


def _memory(plane: Plane, common: dict[str, Any], chosen: Bool, names: list[str]) -> MemoryOps:
    rows = np.flatnonzero(chosen)
    sizes, hosts = np.full((2, len(plane)), -1, dtype=np.int64)
    for name in ("memcpy_details", "memset_details"):
        code, details = _details(plane, name)
        for column, read_value in ((sizes, _bytes_of), (hosts, _host_kind)):
            values = np.array([*map(read_value, details), -1], dtype=np.int64)
            column[code >= 0] = values[code[code >= 0]]
    kinds = [
        _COPY_KINDS.get(found[1], -1) if (found := _COPY.match(names[row])) else -1
        for row in rows.tolist()
    ]
    return MemoryOps(
        **{key: column[rows] for key, column in common.items()},
        num_bytes=sizes[rows],
        copy_kind=np.array(kinds, dtype=np.int64),
        host_kind=hosts[rows],
    )


def _bytes_of(detail: dict[str, str]) -> int:
    text = detail.get("size", detail.get("num_bytes", ""))
    return int(text) if text.isdecimal() and len(text) < 18 else -1


def _host_kind(detail: dict[str, str]) -> int:
    kinds = {detail.get("kind_src"), detail.get("kind_dst")}
    return 0 if "pageable" in kinds else 1 if "pinned" in kinds else -1


def _device(plane: Plane) -> Device:
    number = _GPU.match(plane.name)
    own = plane.own

    def whole(name: str) -> int | None:
        value = own.get(name)
        return value if isinstance(value, int) and value > 0 else None

    major, minor = own.get("compute_cap_major"), own.get("compute_cap_minor")
    clock = whole("clock_rate")
    name = own.get("device_type_string", own.get("gpu_device_name", ""))
    return Device(
        device_id=int(number[1]) if number else 0,
        name=name if isinstance(name, str) else "",
        compute_capability=(major, minor)
        if isinstance(major, int) and isinstance(minor, int)
        else None,
        sm_count=whole("core_count"),
        memory_bytes=whole("memory_size"),
        clock_hz=clock * 1000 if clock else None,
        bandwidth=whole("memory_bandwidth"),
    )
