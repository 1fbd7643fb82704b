"""Programs that say themselves when they are recorded: each time is a window."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from aggregator.sources import open_profile
from aggregator.sources.collector import records as kinds
from aggregator.sources.collector.export import write_export
from aggregator.sources.collector.records import read_records
from aggregator.system.progress import NullProgress
from tests.collector.programs import Program

STEPS = """
fake.fake_init()
def steps(name, count=3):
    for number in range(count):
        fake.nvtx_push(b"step")
        fake.nvtx_push(name + b" op")
        fake.fake_launch(name, 0)
        fake.nvtx_pop()
        fake.fake_wait(2)
        fake.nvtx_pop()
"""
TWO_WINDOWS = f"""{STEPS}
steps(b"before")
assert begin() == 1
steps(b"first")
assert detach() == 1 and not fake.fake_is_attached()
steps(b"between")
assert begin() == 1
steps(b"second")
assert detach() == 1 and fake.fake_finalized() == 2
steps(b"after")
"""


def _export(program: Program) -> Path:
    export = program.folder / "export.sqlite"
    write_export(program.files(), export, {})
    return export


def _rows(export: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(export)) as connection:
        return connection.execute(query).fetchall()


def _windows(export: Path) -> list[tuple[Any, ...]]:
    return _rows(export, "SELECT ended_by, end_ns - start_ns FROM DLPROF_WINDOW ORDER BY start_ns")


def test_only_windows_are_recorded_and_their_calls_stay_apart(program: Program) -> None:
    done = program.run(TWO_WINDOWS, begins=False)
    assert done.returncode == 0, done.stderr
    export = _export(program)
    # CUPTI numbers the calls of the second window from 1 again: each kernel has one call.
    kernels = (
        'SELECT s.value, count(*) FROM "CUPTI_ACTIVITY_KIND_KERNEL" k'
        ' JOIN "CUPTI_ACTIVITY_KIND_RUNTIME" c USING (correlationId)'
        " JOIN DLPROF_WINDOW w ON c.start BETWEEN w.start_ns AND w.end_ns"
        " JOIN StringIds s ON s.id = k.shortName GROUP BY 1, w.start_ns ORDER BY 1"
    )
    assert _rows(export, kernels) == [("first", 3), ("second", 3)]
    syncs = 'SELECT count(DISTINCT eventSyncId) FROM "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"'
    assert _rows(export, syncs) == [(2,)]
    texts = "SELECT DISTINCT text FROM NVTX_EVENTS WHERE text != 'step' ORDER BY 1"
    assert _rows(export, texts) == [("first op",), ("second op",)]
    found = _windows(export)
    assert [ended_by for ended_by, _ in found] == ["detach", "detach"]
    assert all(length_ns > 0 for _, length_ns in found)
    profile = open_profile(export, NullProgress())
    assert (len(profile.kernels), len(profile.ranges), len(profile.waits)) == (6, 12, 6)
    assert not profile.warnings


def test_ranges_do_not_cross_windows(program: Program) -> None:
    script = f"""{STEPS}
begin()
fake.nvtx_push(b"open in the first")
started = fake.nvtx_start(b"started in the first")
steps(b"first")
detach()
fake.nvtx_pop()
fake.nvtx_push(b"opened between")
begin()
fake.nvtx_pop()
fake.nvtx_end(started)
steps(b"second")
"""
    done = program.run(script, begins=False)
    assert done.returncode == 0, done.stderr
    export = _export(program)
    assert [ended_by for ended_by, _ in _windows(export)] == ["detach", "end"]
    crossing = (
        'SELECT n.text, n."end" = w.end_ns, n."end" > w.end_ns FROM NVTX_EVENTS n, DLPROF_WINDOW w'
        " WHERE w.ended_by = 'detach' AND n.start < w.end_ns AND n.\"end\" >= w.end_ns ORDER BY 1"
    )
    assert _rows(export, crossing) == [("open in the first", 1, 0), ("started in the first", 0, 1)]
    steps = "SELECT count(*), count(\"end\") FROM NVTX_EVENTS WHERE text = 'step'"
    assert _rows(export, steps) == [(6, 6)]


def test_detach_waits_for_work_on_its_way(program: Program) -> None:
    script = f"""{STEPS}
begin()
fake.fake_launch_slow(b"slow")
thread = threading.Timer(0.05, fake.fake_finish)
thread.start()
detach()
thread.join()
"""
    assert program.run(script, begins=False).returncode == 0
    found = program.read()
    assert (len(found.columns[kinds.KERNEL]), found.unfinished) == (1, 0)
    (window,) = found.windows
    assert window.end_ns >= found.columns[kinds.KERNEL][0]["end"]


def test_work_that_does_not_end_is_counted_after_a_second(program: Program) -> None:
    script = f"""{STEPS}
begin()
steps(b"quick")
fake.fake_launch_slow(b"slow")
began = time.monotonic()
detach()
assert not fake.fake_is_attached()
print(time.monotonic() - began)
"""
    done = program.run(script, begins=False)
    # The program does not stand still for longer than that.
    assert done.returncode == 0
    assert float(done.stdout) >= 0.9
    assert program.read().unfinished == 1
    profile = open_profile(_export(program), NullProgress())
    warnings = {one.code: one.count for one in profile.warnings}
    assert warnings == {"UNFINISHED_WORK": 1}


def test_threads_may_launch_while_another_detaches(program: Program) -> None:
    script = f"""{STEPS}
end = threading.Event()
def launch():
    while not end.is_set():
        fake.nvtx_push(b"thread")
        fake.fake_launch(b"kernel", 0)
        fake.fake_graph_node(5, 0)
        fake.nvtx_pop()
threads = [threading.Thread(target=launch) for _ in range(4)]
[thread.start() for thread in threads]
for number in range(30):
    assert begin() == 1
    assert detach() == 1
end.set()
[thread.join() for thread in threads]
assert fake.fake_finalized() == 30
"""
    done = program.run(script, begins=False)
    assert done.returncode == 0, done.stderr
    found = program.read()
    assert found.is_complete
    assert [window.ended_by for window in found.windows] == ["detach"] * 30


@pytest.mark.parametrize("where", ["subscribe", "finalize"])
def test_a_cupti_that_hangs_does_not_hold_the_program_up(program: Program, where: str) -> None:
    """It waits two seconds, for what hangs first and at the end."""
    script = f"""{STEPS}
print(begin())
steps(b"kernel", 1)
print(detach())
began = time.monotonic()
print(begin(), detach())
thread = threading.Thread(target=steps, args=(b"thread", 1))
thread.start()
thread.join()
assert time.monotonic() - began < 2
"""
    done = program.run(script, begins=False, more={"FAKE_HANGS": where})
    first = 0 if where == "subscribe" else 1
    assert (done.returncode, done.stdout) == (0, f"{first}\n0\n0 0\n"), done.stderr
    found = program.read()
    # What was recorded is in the file before CUPTI is detached.
    assert [window.ended_by for window in found.windows] == ["detach"] * first
    assert len(found.columns[kinds.KERNEL]) == first


def test_begin_and_detach_may_be_repeated(program: Program) -> None:
    script = f"""{STEPS}
assert detach() == 1
assert begin() == 1 and begin() == 1
steps(b"kernel")
assert detach() == 1 and detach() == 1
open({str(program.records / "started")!r}, "w").close()
steps(b"after")
"""
    # What the program has decided is not changed by dlprof.
    assert program.run(script, begins=False).returncode == 0
    found = program.read()
    assert len(found.columns[kinds.KERNEL]) == 3
    assert [window.ended_by for window in found.windows] == ["detach"]


def test_a_program_may_begin_before_it_uses_cuda(program: Program) -> None:
    script = STEPS.replace("fake.fake_init()", "begin()\nfake.fake_init()") + 'steps(b"kernel")'
    assert program.run(script, begins=False).returncode == 0
    assert len(program.read().columns[kinds.KERNEL]) == 3


def test_the_collector_gives_way_to_another_profiler(program: Program) -> None:
    script = f"""{STEPS}
assert begin() == 1
steps(b"first")
assert detach() == 1
fake.fake_other(1)
for _ in range(3):
    assert begin() == 0
    steps(b"of the other")
fake.fake_other(0)
assert begin() == 1
steps(b"second")
"""
    done = program.run(script, begins=False)
    assert done.returncode == 0, done.stderr
    found = program.read()
    assert set(found.strings.values()) >= {"first", "second"}
    assert "of the other" not in found.strings.values()
    assert len(found.notes("other_subscriber")) == 1
    assert [window.ended_by for window in found.windows] == ["detach", "end"]


def test_old_cupti_stays_attached_with_nothing_enabled(program: Program) -> None:
    """It crashes at CUDA graphs if it is detached and attached again."""
    script = TWO_WINDOWS.replace("fake.fake_finalized() == 2", "fake.fake_finalized() == 0")
    script = script.replace("and not fake.fake_is_attached()", "")
    done = program.run(script, begins=False, more={"FAKE_CUPTI_VERSION": "23"})
    assert done.returncode == 0, done.stderr
    found = program.read()
    assert len(found.columns[kinds.KERNEL]) == 6
    assert found.notes("not_finalized")


@pytest.mark.parametrize("variable", ["FAKE_SUBSCRIBED", "FAKE_NO_BUFFERS"])
def test_a_window_without_cupti_is_a_failure(program: Program, variable: str) -> None:
    """Its ranges are recorded, but an idle GPU is not what they show."""
    script = f'{STEPS}\nsteps(b"kernel")\nassert begin() == 1 or True'
    assert program.run(script, more={variable: "1"}).returncode == 0
    found = program.read()
    assert len(found.columns[kinds.NVTX]) == 12
    assert [window.ended_by for window in found.windows] == ["failure"]


def test_a_killed_program_has_a_window_that_failed(program: Program) -> None:
    script = f'{STEPS}\nsteps(b"kernel")\nfake.cuptiActivityFlushAll(1)\nos.kill(os.getpid(), 9)'
    assert program.run(script).returncode == -9
    (window,) = program.read().windows
    assert window.ended_by == "failure"
    assert window.end_ns > window.start_ns
    assert _windows(_export(program))[0][0] == "failure"


def test_stop_ends_the_window_and_detaches(program: Program) -> None:
    script = f"""{STEPS}
steps(b"kernel")
open({str(program.records / "stopped")!r}, "w").close()
while not os.path.exists({str(program.records)!r} + f"/complete.{{os.getpid()}}"):
    time.sleep(0.01)
assert not fake.fake_is_attached()
assert begin() == 0
"""
    assert program.run(script).returncode == 0
    assert [window.ended_by for window in program.read().windows] == ["stop"]


def test_a_child_of_a_program_between_windows_records_itself(program: Program) -> None:
    script = f"""{STEPS}
begin()
steps(b"first")
detach()
child = os.fork()
if not child:
    fake.nvtx_push(b"child, not recorded")
    begin()
    fake.nvtx_push(b"child")
    fake.nvtx_pop()
    detach()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
begin()
steps(b"second")
detach()
"""
    done = program.run(script, begins=False)
    assert done.returncode == 0, done.stderr
    parent, child = sorted(
        map(kinds.read_records, program.files()), key=lambda one: -len(one.columns[kinds.KERNEL])
    )
    assert len(parent.columns[kinds.KERNEL]) == 6
    assert (len(parent.windows), len(child.windows)) == (2, 1)
    assert child.nvtx_text == b"child"


@pytest.mark.parametrize("holds", [True, False])
def test_a_process_begins_with_cuda_for_itself_alone(program: Program, holds: bool) -> None:
    folder = program.folder / "reference"
    folder.mkdir()
    (folder / "hold.1").touch()
    hold = f'open({str(folder)!r} + f"/hold.{{os.getpid()}}", "w").close()' if holds else ""
    script = STEPS.replace("fake.fake_init()", f"{hold}\nfake.fake_init()") + 'steps(b"kernel")'
    more = {"DLPROF_REFERENCE": str(folder)}
    assert program.run(script, begins=False, more=more).returncode == 0
    assert len(program.files()) == (0 if holds else 1)
    assert len(list(folder.glob("began.*"))) == (0 if holds else 1)
    assert not list(folder.glob("start.*"))


def test_each_window_may_be_a_file_that_stands_for_itself(program: Program) -> None:
    domain = 'fake.nvtx_domain.argtypes = [ctypes.c_char_p]\nfake.nvtx_domain(b"mine")\n'
    script = domain + TWO_WINDOWS
    done = program.run(script, begins=False, more={"DLPROF_COLLECT_FILES": "1"})
    assert done.returncode == 0, done.stderr
    found = [read_records(path) for path in program.files()]
    assert [len(records.columns[kinds.KERNEL]) for records in found] == [3, 3]
    assert all(records.is_complete and len(records.windows) == 1 for records in found)
    names = [
        {records.strings[number] for number in records.columns[kinds.KERNEL]["name"]}
        for records in found
    ]
    assert names == [{"first"}, {"second"}]
    domains = [sum(records.columns[kinds.NVTX]["kind"] == kinds.DOMAIN) for records in found]
    assert domains == [1, 1]


def test_a_window_that_could_not_be_written_does_not_end_later_ones(program: Program) -> None:
    script = f"""{STEPS}
import resource
assert begin() == 1
steps(b"first")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
before = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
detach()
resource.setrlimit(resource.RLIMIT_FSIZE, before)
while begin() != 1:
    time.sleep(0.01)
steps(b"second")
assert detach() == 1
"""
    done = program.run(script, begins=False, more={"DLPROF_COLLECT_FILES": "1"})
    assert done.returncode == 0, done.stderr
    assert list(program.records.glob("problem.*"))
    last = read_records(program.files()[-1])
    assert last.is_complete
    assert len(last.columns[kinds.KERNEL]) == 3


def test_windows_in_files_of_their_own_leave_nothing_open(program: Program) -> None:
    script = f"""{STEPS}
def held():
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
for number in range(60):
    assert begin() == 1
    steps(b"kernel")
    assert detach() == 1
    [os.unlink({str(program.records)!r} + "/" + name)
     for name in os.listdir({str(program.records)!r}) if name.endswith(".records")]
    if number == 9:
        before = held()
assert held() == before, (held(), before)
"""
    done = program.run(script, begins=False, more={"DLPROF_COLLECT_FILES": "1"})
    assert done.returncode == 0, done.stderr
