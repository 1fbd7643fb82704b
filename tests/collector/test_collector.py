"""The collector's library in a process, and the export of its records."""

from __future__ import annotations

import atexit
import platform
import re
import shutil
import sqlite3
import subprocess
import tempfile
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aggregator.errors import CollectorError, CorruptProfileError, NoGpuActivityError
from aggregator.sources import open_profile
from aggregator.sources.collector import records as kinds
from aggregator.sources.collector.export import write_export
from aggregator.sources.collector.records import read_records
from aggregator.system.progress import NullProgress
from hatch_build import library_name
from profiler_cli.capture import native
from tests.collector.programs import HERE, LIMIT_S, REPOSITORY, Program

SOURCE = REPOSITORY / "dlprof_nvtx" / "native"
TRAIN = """
fake.fake_init()
for step in range(20):
    fake.nvtx_push(b"step")
    for number in range(3):
        fake.nvtx_push(b"aten::addmm, op_id = %d" % number)
        fake.fake_launch(b"_ZN2at6native4FillEfPf" if number else b"plain_kernel", 0)
        fake.nvtx_pop()
    fake.fake_copy(4096, 0)
    fake.fake_copy(512, 1)
    fake.fake_wait(2)
    fake.nvtx_pop()
"""


def _export(program: Program) -> Path:
    export = program.folder / "export.sqlite"
    write_export(program.files(), export, {"Hostname": "host"})
    return export


def _rows(export: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(export)) as connection:
        return connection.execute(query).fetchall()


def test_the_export_holds_what_the_program_did(program: Program) -> None:
    assert program.run(TRAIN).returncode == 0
    assert program.read().is_complete
    export = _export(program)
    names = 'SELECT s.value FROM "CUPTI_ACTIVITY_KIND_KERNEL" k JOIN StringIds s ON s.id = '
    assert set(_rows(export, f"{names} k.shortName")) == {("Fill",), ("plain_kernel",)}
    assert ("at::native::Fill(float, float *)",) in _rows(export, f"{names} k.demangledName")
    calls = _rows(
        export,
        'SELECT s.value, count(*) FROM "CUPTI_ACTIVITY_KIND_RUNTIME" c'
        " JOIN StringIds s ON s.id = c.nameId GROUP BY 1 ORDER BY 1",
    )
    # No queries, and no calls of the driver that calls of the runtime made.
    assert calls == [
        ("cudaLaunchKernel_v7000", 60),
        ("cudaMemcpyAsync_v3020", 40),
        ("cudaStreamSynchronize_v3020", 20),
    ]
    grid = "gridX, gridY, gridZ, blockX, blockY, blockZ, streamId, graphNodeId"
    assert set(_rows(export, f'SELECT {grid} FROM "CUPTI_ACTIVITY_KIND_KERNEL"')) == {
        (10, 11, 12, 20, 21, 22, 7, None)
    }
    copies = 'SELECT copyKind, bytes, srcKind, dstKind, count(*) FROM "CUPTI_ACTIVITY_KIND_MEMCPY"'
    found = _rows(export, f"{copies} GROUP BY 1, 2, 3, 4 ORDER BY 1")
    assert found == [(1, 4096, 1, 2, 20), (10, 512, 1, 2, 20)]
    syncs = 'SELECT DISTINCT syncType, eventSyncId FROM "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"'
    assert _rows(export, syncs) == [(3, 42)]


def test_the_profile_joins_ranges_calls_and_kernels(program: Program) -> None:
    program.run(TRAIN)
    profile = open_profile(_export(program), NullProgress())
    kernels, calls, ranges = profile.kernels, profile.api_calls, profile.ranges
    assert (len(kernels), len(ranges), len(profile.waits)) == (60, 80, 20)
    order = np.argsort(calls.correlation_id)
    call = order[np.searchsorted(calls.correlation_id[order], kernels.correlation_id)]
    names = np.array(profile.range_names)[ranges.name]
    for row, start in zip(range(len(kernels)), calls.start_ns[call], strict=True):
        around = (ranges.start_ns <= start) & (ranges.end_ns >= calls.end_ns[call][row])
        assert sorted(names[around]) == ["aten::addmm", "step"]
    warnings = {one.code: one.count for one in profile.warnings}
    assert warnings == {"UNFINISHED_WORK": 40}


RANGES = """
def many(kind):
    for number in range(3000):
        fake.nvtx_push(b"%s %d" % (kind, number))
    for number in range(3000):
        assert fake.nvtx_pop() == 2999 - number
    assert fake.nvtx_pop() == -1
threads = [threading.Thread(target=many, args=(b"thread %d" % n,)) for n in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
fake.nvtx_pop()
fake.nvtx_push_wide(ctypes.c_wchar_p("wide \\u00e4\\u20ac\\U0001f600"))
fake.nvtx_pop()
domain = fake.nvtx_domain(b"My domain")
kept = fake.nvtx_register(domain, b"registered")
fake.nvtx_domain_push(domain, ctypes.byref(Attributes(
    message_type=3, message=kept, payload_type=5, payload=0xFFFFFFFF, category=9)))
fake.nvtx_category(9, b"the category")
started = fake.nvtx_start(b"started")
fake.nvtx_push(b"inner")
fake.nvtx_domain_pop(domain)
fake.nvtx_pop()
threading.Thread(target=fake.nvtx_end, args=(started,)).start()
fake.nvtx_mark(b"a mark")
fake.nvtx_thread(threading.get_native_id(), b"the loop")
fake.nvtx_push(b"\\xff no UTF-8")
fake.nvtx_pop()
fake.nvtx_push(b"x" * 200_000)
fake.nvtx_pop()
fake.nvtx_push(None)
fake.nvtx_pop()
fake.nvtx_push(b"never closed")
"""


def test_ranges_of_threads_and_domains_are_paired(program: Program) -> None:
    assert program.run(RANGES).returncode == 0
    export = _export(program)
    rows = _rows(
        export,
        'SELECT text, eventType, "end" - start, domainId, category, int32Value, globalTid,'
        " endGlobalTid FROM NVTX_EVENTS WHERE text NOT GLOB 'thread*'"
        " AND text NOT GLOB CAST(x'ff2a' AS TEXT)",
    )
    found = {row[0]: row[1:] for row in rows}
    assert found["wide ä€😀"][0] == 59
    assert found["registered"][2:5] == (1, 9, -1)
    assert found["registered"][1] > found["inner"][1] >= 0
    assert found["My domain"][0] == 75
    assert found["the category"][0] == 33
    assert found["the category"][3] == 9
    assert found["a mark"][:2] == (34, None)
    kind, nanoseconds, *_, began, ended = found["started"]
    assert kind == 60
    assert nanoseconds > 0
    assert began != ended
    assert found["never closed"][1] is None
    assert found[""][0] == 59
    assert found["x" * (1 << 17)][0] == 59
    threads = 'SELECT s.value FROM "ThreadNames" t JOIN StringIds s ON s.id = t.nameId'
    main = f"{threads} WHERE t.globalTid = {found['inner'][5]}"
    assert _rows(export, main) == [("the loop",)]
    nested = _rows(
        export,
        "SELECT text, start, \"end\" FROM NVTX_EVENTS WHERE text GLOB 'thread 1 *'"
        " ORDER BY CAST(substr(text, 10) AS INTEGER)",
    )
    assert len(nested) == 3000
    # The first one opened is the last one closed.
    assert all(a[1] <= b[1] and b[2] <= a[2] for a, b in pairwise(nested))


def test_a_forked_child_has_a_file_of_its_own(program: Program) -> None:
    script = """
domain = fake.nvtx_domain(b"My domain")
fake.nvtx_push(b"parent")
child = os.fork()
if not child:
    fake.nvtx_domain_push(domain, ctypes.byref(Attributes(message_type=0)))
    fake.nvtx_push(b"child")
    sys.exit(0)
os.waitpid(child, 0)
fake.nvtx_pop()
"""
    assert program.run(script).returncode == 0
    assert len(program.files()) == 2
    rows = _rows(_export(program), "SELECT globalTid >> 24, text FROM NVTX_EVENTS WHERE text != ''")
    texts = {text: pid for pid, text in rows if text in {"parent", "child"}}
    assert len(set(texts.values())) == 2
    assert {pid for pid, text in rows if text == "My domain"} == set(texts.values())


def test_a_killed_program_keeps_what_was_flushed(program: Program) -> None:
    script = (
        f"{TRAIN}\nfake.cuptiActivityFlushAll(0)\nfake.nvtx_push(b'open')\ntime.sleep({LIMIT_S})"
    )

    def is_written() -> bool:
        files = [path for path in program.files() if path.stat().st_size > len(kinds.MAGIC)]
        return any(
            one.nvtx_text.endswith(b"open") and len(one.columns[kinds.KERNEL]) == 60
            for one in map(read_records, files)
        )

    with program.start(script) as process:
        # The collector's own thread writes what there is.
        deadline = time.monotonic() + LIMIT_S
        while not is_written():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.kill()
    found = program.read()
    assert not found.is_complete
    assert len(found.columns[kinds.KERNEL]) == 60
    profile = open_profile(_export(program), NullProgress())
    assert len(profile.ranges) == 80
    assert {one.code for one in profile.warnings} >= {"INCOMPLETE_EVENTS", "OPEN_RANGES"}


def test_a_file_may_end_anywhere(program: Program) -> None:
    program.run(TRAIN)
    (path,) = program.files()
    whole = path.read_bytes()
    cut = program.folder / "cut.records"
    counts = []
    for size in (*range(600), *range(600, len(whole), 331), len(whole)):
        cut.write_bytes(whole[:size])
        if size < len(kinds.MAGIC):
            with pytest.raises(CorruptProfileError):
                read_records(cut)
            continue
        found = read_records(cut)
        texts = found.columns[kinds.NVTX]["text_bytes"].sum()
        assert texts <= len(found.nvtx_text)
        counts.append(len(found.columns[kinds.NVTX]) + len(found.columns[kinds.KERNEL]))
    assert counts == sorted(counts)
    assert counts[-1] == 20 * 8 + 60


def test_damaged_files_are_refused_or_read_in_part(program: Program) -> None:
    program.run(TRAIN)
    (path,) = program.files()
    whole = bytearray(path.read_bytes())
    random = np.random.default_rng(5)
    damaged = program.folder / "damaged.records"
    for _ in range(40):
        data = bytearray(whole)
        for place in random.integers(8, len(data), 20):
            data[place] = int(random.integers(0, 256))
        damaged.write_bytes(data)
        export = program.folder / "damaged.sqlite"
        try:
            write_export([damaged], export, {})
        except (CorruptProfileError, NoGpuActivityError):
            continue
        assert export.is_file()


def test_calls_of_the_driver_count_where_no_call_of_the_runtime_made_them() -> None:
    from aggregator.sources.collector.export import _is_nested

    calls = np.zeros(6, kinds.TYPES[kinds.API])
    calls["start"] = (10, 12, 30, 12, 50, 52)
    calls["end"] = (20, 18, 40, 18, 60, 70)
    calls["thread"] = (1, 1, 1, 2, 1, 1)
    calls["is_driver"] = (0, 1, 1, 1, 0, 1)
    assert _is_nested(calls).tolist() == [False, True, False, False, False, False]


def test_graph_nodes_are_recorded_with_their_originals(program: Program) -> None:
    script = """
fake.fake_init()
fake.fake_graph_node(5, 0)
fake.fake_graph_node(6, 5)
fake.fake_launch(b"kernel", 6)
"""
    program.run(script)
    profile = open_profile(_export(program), NullProgress())
    nodes = profile.graph_nodes
    assert list(zip(nodes.node, nodes.original, strict=True)) == [(5, -1), (6, 5)]
    assert nodes.of_work[0].tolist() == [6]


def test_nothing_is_recorded_before_the_collection_begins(program: Program) -> None:
    script = f"""
fake.fake_init()
fake.nvtx_push(b"before")
fake.fake_launch(b"before", 0)
domain = fake.nvtx_domain(b"My domain")
open({str(program.records / "started")!r}, "w").close()
ctypes.CDLL(os.environ["NVTX_INJECTION64_PATH"]).dlprof_collector_begin()
fake.nvtx_pop()
fake.nvtx_push(b"after")
fake.fake_launch(b"after", 0)
fake.nvtx_pop()
open({str(program.records / "stopped")!r}, "w").close()
while not os.path.exists({str(program.records)!r} + f"/complete.{{os.getpid()}}"):
    time.sleep(0.01)
fake.nvtx_push(b"at the end")
fake.fake_launch(b"at the end", 0)
"""
    assert program.run(script, begins=False).returncode == 0
    found = program.read()
    assert found.nvtx_text == b"My domainafter"
    assert len(found.columns[kinds.KERNEL]) == 1
    assert "after" in found.strings.values()


@pytest.mark.parametrize("begins", [True, False], ids=["from the start", "later"])
def test_work_that_the_driver_launched_has_its_call(program: Program, begins: bool) -> None:
    script = f"""
fake.fake_init()
open({str(program.records / "started")!r}, "w").close()
ctypes.CDLL(os.environ["NVTX_INJECTION64_PATH"]).dlprof_collector_begin()
for number in range(3):
    fake.fake_launch_by_driver(b"product")
"""
    assert program.run(script, begins=begins).returncode == 0
    calls = (
        'SELECT s.value, count(*) FROM "CUPTI_ACTIVITY_KIND_KERNEL" k'
        ' JOIN "CUPTI_ACTIVITY_KIND_RUNTIME" c USING (correlationId)'
        " JOIN StringIds s ON s.id = c.nameId GROUP BY 1"
    )
    assert _rows(_export(program), calls) == [("cuLaunchKernel", 3)]


def test_the_collector_sleeps_until_the_collection_begins(program: Program) -> None:
    script = f"""
fake.fake_init()
def thread():
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{{task}}/comm") as name:
            if name.read() == "dlprof-collect\\n":
                return task
while thread() is None:
    time.sleep(0.01)
def wakes():
    with open(f"/proc/self/task/{{thread()}}/status") as lines:
        return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
def wakes_per_s():
    before, began = wakes(), time.monotonic()
    time.sleep(1.5)
    return (wakes() - before) / (time.monotonic() - began)
# It may begin late, and be interrupted by others.
print(next((found for found in (wakes_per_s() for _ in range(20)) if found <= 3), "too often"))
# It sees what is new in the folder.
open({str(program.records / "started")!r}, "w").close()
while not any(name.endswith(".records") for name in os.listdir({str(program.records)!r})):
    time.sleep(0.001)
"""
    assert float(program.run(script, begins=False).stdout) <= 3
    assert program.read().is_complete


def test_a_range_of_the_script_is_recorded(program: Program) -> None:
    script = f"""
fake.fake_init()
fake.fake_launch(b"before", 0)
fake.fake_profiler(1)
fake.nvtx_push(b"inside")
fake.fake_launch(b"inside", 0)
fake.nvtx_pop()
fake.fake_profiler(0)
while not os.path.exists({str(program.records)!r} + f"/complete.{{os.getpid()}}"):
    time.sleep(0.01)
fake.fake_launch(b"after", 0)
"""
    assert program.run(script, more={"DLPROF_COLLECT_RANGE": "1"}).returncode == 0
    found = program.read()
    assert (found.nvtx_text, len(found.columns[kinds.KERNEL])) == (b"inside", 1)


def test_dropped_records_are_counted(program: Program) -> None:
    program.run(TRAIN, more={"FAKE_DROPPED": "1"})
    profile = open_profile(_export(program), NullProgress())
    assert {one.code: one.count for one in profile.warnings}["DROPPED_EVENTS"] >= 3


@pytest.mark.parametrize(
    ("more", "note"),
    [
        ({"FAKE_CUPTI_VERSION": "12"}, "old_cupti"),
        ({"FAKE_SUBSCRIBED": "1"}, "other_subscriber"),
    ],
)
def test_the_program_runs_on_where_cupti_cannot_be_used(
    program: Program, more: dict[str, str], note: str
) -> None:
    assert program.run(TRAIN, more=more).returncode == 0
    found = program.read()
    assert found.notes(note)
    assert not len(found.columns[kinds.KERNEL])
    assert len(found.columns[kinds.NVTX]) == 160


def test_a_folder_that_cannot_be_written_does_not_stop_the_program(program: Program) -> None:
    shutil.rmtree(program.records)
    done = program.run(f"{TRAIN}\nprint('done')", begins=False)
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_without_its_folder_the_library_does_nothing(program: Program) -> None:
    assert program.run(TRAIN, more={"DLPROF_COLLECT": ""}).returncode == 0
    assert not program.files()


def test_a_missing_or_failing_compiler_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A checkout has one after `make wheel`.
    monkeypatch.setattr(native, "find_prebuilt", lambda: None)
    monkeypatch.setenv("DLPROF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(CollectorError, match="needs a C compiler") as missing:
        native.build_library()
    assert "--collector=nsys" in missing.value.hint
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'cc: no such header' >&2\nexit 1\n")
    compiler.chmod(0o755)
    with pytest.raises(CollectorError, match="could not compile") as failed:
        native.build_library()
    assert failed.value.hint == "cc: no such header"
    assert not list((tmp_path / "cache").iterdir())


def test_the_library_of_the_package_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "native"
    shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("*.so"))
    monkeypatch.setattr(native, "_source_folder", lambda: source)
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.17"))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("DLPROF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    prebuilt = source / library_name(source, platform.machine())
    (source / library_name(source, "another")).touch()
    assert native.find_prebuilt() is None
    prebuilt.touch()
    assert native.build_library() == prebuilt
    # It was compiled from another source: that of a checkout has changed since.
    with (source / "abi.h").open("a") as file:
        file.write("\n")
    with pytest.raises(CollectorError, match="needs a C compiler"):
        native.build_library()


def test_a_cache_that_cannot_be_written_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if native.find_compiler() is None:
        pytest.skip("no C compiler is installed")
    (tmp_path / "file").touch()
    monkeypatch.setattr(native, "find_prebuilt", lambda: None)
    monkeypatch.setenv("DLPROF_CACHE_DIR", str(tmp_path / "file" / "folder"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    registered: list[tuple[Any, ...]] = []
    monkeypatch.setattr(atexit, "register", lambda *call, **_: registered.append(call))
    library = native.build_library()
    assert library.is_file()
    assert library.parents[1] == tmp_path
    assert registered == [(shutil.rmtree, library.parent)]


def test_the_library_compiles_without_a_warning(tmp_path: Path) -> None:
    compiler = native.find_compiler()
    if compiler is None:
        pytest.skip("no C compiler is installed")
    files = sorted(map(str, SOURCE.glob("*.c")))
    for more in ([], [f"-I{SOURCE}", str(REPOSITORY / "benchmarks/call_prices.c")]):
        chosen = [file for file in files if not more or not file.endswith("/cupti.c")]
        words = [compiler, f"@{SOURCE / 'flags'}", "-Wall", "-Wextra", "-Werror", *more, *chosen]
        target = ["-o", str(tmp_path / "library.so"), "-ldl"]
        done = subprocess.run([*words, *target], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_cupti_of_the_program_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "venv/bin/python"
    own = tmp_path / "venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcupti.so.13"
    other = tmp_path / "root/usr/local/cuda-12.4/extras/CUPTI/lib64/libcupti.so.12"
    for path in (python, own, other):
        path.parent.mkdir(parents=True)
        path.touch(mode=0o755)
    assert native.find_cupti(str(python), tmp_path / "root") == own
    own.unlink()
    assert native.find_cupti(str(python), tmp_path / "root") == other
    other.unlink()
    assert native.find_cupti("no-such-program", tmp_path / "root") is None


def _headers() -> list[Path]:
    roots = (Path("/usr/local"), *(Path(one) for one in __import__("site").getsitepackages()))
    patterns = ("cuda*/extras/CUPTI/include/cupti_activity.h", "nvidia/*/include/cupti_activity.h")
    return [path for root in roots for pattern in patterns for path in root.glob(pattern)]


def test_the_interface_is_that_of_the_installed_cupti() -> None:
    compiler = native.find_compiler()
    headers = _headers()
    if compiler is None or not headers:
        pytest.skip("no headers of CUPTI are installed")
    records = {
        "KERNEL": "Kernel",
        "MEMCPY": "Memcpy",
        "PEER": "MemcpyPtoP",
        "MEMSET": "Memset",
        "SYNC": "Synchronization",
        "EVENT": "CudaEvent",
        "OVERHEAD": "Overhead",
    }
    for header in headers:
        text = header.read_text()
        words = [f"-I{header.parent}", f"-I{header.parents[3] / 'include'}"]
        words += [f"-I{path.parent}" for path in header.parents[2].glob("*/include/cuda.h")]
        for macro, name in records.items():
            found = re.findall(rf"^}} (CUpti_Activity{name}(\d*));", text, re.MULTILINE)
            words.append(f"-D{macro}={max(found, key=lambda one: int(one[1] or 1))[0]}")
        words.append(f"-I{REPOSITORY / 'dlprof_nvtx/native'}")
        check = [compiler, "-w", "-fsyntax-only", *words, str(HERE / "check_abi.c")]
        done = subprocess.run(check, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
