"""Programs that end, fork, fill the disk or handle signals while they are recorded."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from aggregator.sources import open_profile
from aggregator.sources.collector import records as kinds
from aggregator.sources.collector.export import write_export
from aggregator.system.progress import NullProgress
from tests.collector.programs import Program

LAUNCHES = """
fake.fake_init()
for number in range(20):
    fake.nvtx_push(b"step")
    fake.fake_launch(b"kernel", 0)
    fake.nvtx_pop()
"""


def _read_whole(program: Program, kernels: int) -> None:
    found = program.read()
    assert found.is_complete
    assert len(found.columns[kinds.KERNEL]) == kernels


@pytest.mark.parametrize("dies", ["loaded", "first record"])
@pytest.mark.parametrize("is_separate", [True, False], ids=["by the collector", "by the program"])
@pytest.mark.parametrize("begins", ["started", "late", "said"])
def test_cupti_is_alive_when_the_program_ends(
    program: Program, dies: str, is_separate: bool, begins: str
) -> None:
    """CUPTI's own handler of the end runs after ours, whenever and by whom it was registered."""
    if is_separate:
        program.separate_cupti()
    begin = {
        "started": "",
        "late": f"""
open({str(program.records / "started")!r}, "w").close()
while not any(os.path.getsize(one) > 100 for one in os.scandir({str(program.records)!r})):
    time.sleep(0.001)
# The thread of the collector may still be attaching CUPTI: this waits for it.
begin()
""",
        "said": "assert begin() == 1",
    }[begins]
    script = LAUNCHES.replace("fake.fake_init()", f"fake.fake_init()\n{begin}")
    done = program.run(script, begins=begins == "started", more={"FAKE_DIES": dies})
    assert done.returncode == 0, done.stderr
    _read_whole(program, kernels=20)


@pytest.mark.parametrize("dies", ["loaded", "first record"])
def test_cupti_is_alive_at_the_end_of_a_second_window(program: Program, dies: str) -> None:
    script = f"{LAUNCHES}\ndetach()\nbegin()\nfake.fake_launch(b'kernel', 0)"
    done = program.run(script, more={"FAKE_DIES": dies})
    assert done.returncode == 0, done.stderr
    _read_whole(program, kernels=21)


@pytest.mark.parametrize(
    ("ends", "code"),
    [("os._exit(5)", 5), ("os.abort()", -6), ("raise ValueError", 1), ("sys.exit(3)", 3)],
)
def test_the_exit_code_of_a_program_stays(program: Program, ends: str, code: int) -> None:
    done = program.run(f"{LAUNCHES}\n{ends}", more={"FAKE_DIES": "loaded"})
    assert done.returncode == code


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("file systems cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


FILLS = """
fake.fake_init()
begin()
for number in range(40):
    fake.nvtx_push(b"x" * 100_000)
    fake.nvtx_pop()
while not any(name.startswith("problem.") for name in os.listdir(os.environ["DLPROF_COLLECT"])):
    time.sleep(0.01)
while fake.fake_is_attached():
    time.sleep(0.01)
print("done", begin())
"""


def _check_failure(program: Program, folder: Path, script: str, reason: int) -> None:
    program.environment["DLPROF_COLLECT"] = str(folder)
    done = program.run(script, begins=False)
    assert (done.returncode, done.stdout) == (0, "done 0\n"), done.stderr
    names = [path.name.split(".") for path in folder.iterdir()]
    # The name is the message: there is no room for a text.
    assert [int(name[2]) for name in names if name[0] == "problem"] == [reason]
    assert "complete" not in {name[0] for name in names}


def test_a_full_disk_is_reported_and_ends_the_collection(
    program: Program, small_disk: Path
) -> None:
    """CUPTI is detached: what it costs would be for nothing."""
    _check_failure(program, small_disk, FILLS, errno.ENOSPC)
    (path,) = small_disk.glob("*.records")
    found = kinds.read_records(path)
    assert not found.is_complete
    assert [window.ended_by for window in found.windows] == ["failure"]


def test_a_file_that_may_grow_no_more_is_reported(program: Program) -> None:
    limit = """
import resource
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))
"""
    _check_failure(program, program.records, limit + FILLS, errno.EFBIG)


def test_a_child_writes_names_that_its_parent_was_learning(program: Program) -> None:
    """Threads of the parent add names and write at the moment of the fork."""
    script = """
fake.fake_init()
end = threading.Event()
def learn(thread):
    number = 0
    while not end.is_set():
        number += 1
        fake.fake_launch(b"kernel_%d_%d" % (thread, number), 0)
        fake.cuptiActivityFlushAll(1)
threads = [threading.Thread(target=learn, args=(thread,)) for thread in range(3)]
[thread.start() for thread in threads]
for _ in range(20):
    child = os.fork()
    if not child:
        fake.nvtx_push(b"child")
        fake.nvtx_pop()
        collector.dlprof_collector_detach()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
end.set()
[thread.join() for thread in threads]
"""
    done = program.run(script)
    assert done.returncode == 0, done.stderr
    found = [kinds.read_records(path) for path in program.files()]
    assert len(found) == 21
    assert sum(one.nvtx_text == b"child" for one in found) == 20


def test_a_signal_handler_may_write_ranges(program: Program) -> None:
    """It interrupts the thread that holds the locks for which it would wait."""
    done = program.run(f"{LAUNCHES}\nfake.nvtx_interrupted(100)\nprint('done')")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    export = program.folder / "export.sqlite"
    write_export(program.files(), export, {})
    # How many are missing depends on the moments of the signals.
    count = sum(map(int, program.read().notes("interrupted")))
    warnings = {one.code: one.count for one in open_profile(export, NullProgress()).warnings}
    assert warnings.get("INTERRUPTED_RANGES", 0) == count
