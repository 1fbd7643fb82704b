"""``dlprof --collector=cupti <application>``, with stand-ins for CUDA and NVTX."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from aggregator.sources.collector.folder import driver_version
from profiler_cli.capture.native import find_compiler
from tests.cli.forking import Forks

REPOSITORY = Path(__file__).resolve().parents[2]
FAKE = REPOSITORY / "tests/collector/fake_cuda.c"
#: The package ``nvtx``, through the stand-in.
NVTX = """
import ctypes, os
fake = ctypes.CDLL(os.environ["FAKE_CUDA"])
fake.nvtx_start.restype = ctypes.c_uint64
fake.nvtx_init()

class Domain:
    def get_event_attributes(self, message):
        return message.encode()
    def push_range(self, text):
        return fake.nvtx_push(text)
    def pop_range(self):
        return fake.nvtx_pop()
    def start_range(self, text):
        return fake.nvtx_start(text)
    def end_range(self, number):
        fake.nvtx_end(ctypes.c_uint64(number))

def get_domain(name=None):
    return Domain()
"""
CUDA = """
import ctypes, os, sys, time
fake = ctypes.CDLL(os.environ["FAKE_CUDA"])
fake.fake_launch.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
fake.nvtx_init()
"""
LOOP = """
fake.fake_init()
for step in range({steps}):
    fake.nvtx_push(b"step")
    fake.nvtx_push(b"aten::addmm, op_id = 1")
    fake.fake_launch(b"kernel", 0)
    fake.nvtx_pop()
    fake.nvtx_pop()
    fake.cuptiActivityFlushAll(0)
    time.sleep({seconds})
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the stand-in for CUDA, and for the library of the collector."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C compiler is installed")
    folder = tmp_path_factory.mktemp("own")
    words = [compiler, "-O1", "-fPIC", "-shared", f"-I{REPOSITORY / 'dlprof_nvtx/native'}"]
    target = ["-o", str(folder / "libcupti.so.99"), "-ldl"]
    subprocess.run([*words, str(FAKE), *target], check=True)
    return folder


class Bench:
    """A folder in which dlprof runs."""

    def __init__(self, folder: Path, cache: Path, forks: Forks | None = None) -> None:
        self.folder, self.forks = folder, forks
        (folder / "site" / "nvtx").mkdir(parents=True)
        (folder / "site" / "nvtx" / "__init__.py").write_text(NVTX)
        self.environment = {
            **os.environ,
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": f"{REPOSITORY}:{folder / 'site'}",
            "DLPROF_CACHE_DIR": str(cache),
            "FAKE_CUDA": str(cache / "libcupti.so.99"),
        }

    def run(
        self, script: str, *options: str, setting: str = "", **more: str
    ) -> subprocess.CompletedProcess[str]:
        (self.folder / "train.py").write_text(CUDA + script)
        return self.start(*options, sys.executable, "train.py", setting=setting, **more)

    def start(
        self, *words: str, setting: str = "", **more: str
    ) -> subprocess.CompletedProcess[str]:
        assert self.forks is not None
        return self.forks.run(list(words), self.folder, self.environment | more, setting)

    def rows(self, query: str, file: str = "nsys_profile.sqlite") -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / file)) as connection:
            return connection.execute(query).fetchall()

    def left(self) -> list[str]:
        """Folders of records that were kept."""
        return [path.name for path in self.folder.glob("*.records*")]


@pytest.fixture
def bench(tmp_path: Path, cache: Path, forks: Forks) -> Bench:
    """A folder in which dlprof runs."""
    return Bench(tmp_path, cache, forks)


def test_an_application_is_recorded_and_aggregated(bench: Bench) -> None:
    done = bench.run(LOOP.format(steps=30, seconds=0), "--collector=cupti")
    assert done.returncode == 0, done.stderr
    assert "Profiling with dlprof's own collector" in done.stdout
    assert bench.rows("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL") == [(30,)]
    # One more than the steps if the last kernel ended after its op.
    assert re.search('Found 3[01] iterations using key_node "/step/addmm"', done.stdout)
    assert bench.left() == []


def test_without_nsys_the_own_collector_is_chosen(bench: Bench) -> None:
    if shutil.which("nsys", path=bench.environment["PATH"]):
        pytest.skip("this machine has an nsys of its own")
    done = bench.run(LOOP.format(steps=5, seconds=0), "--nsys_opts=-t osrt")
    assert done.returncode == 0, done.stderr
    assert "Profiling with dlprof's own collector" in done.stdout
    assert "--nsys_opts has no effect" in done.stdout


def test_the_exit_code_of_the_application_stays(bench: Bench) -> None:
    done = bench.run(LOOP.format(steps=5, seconds=0) + "\nsys.exit(7)", "--collector=cupti")
    assert done.returncode == 7
    assert bench.rows("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL") == [(5,)]
    done = bench.start("--collector=cupti", "sh", "-c", "exit 9")
    assert done.returncode == 9
    assert "failed with exit code 9 and no process of it was seen to use CUDA" in done.stderr
    assert bench.start("--collector=cupti", "true").returncode == 3
    assert bench.left() == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"FAKE_CUPTI_VERSION": "12"}, "CUPTI of the application is too old (API version 12)"),
        ({"FAKE_SUBSCRIBED": "1"}, "Another profiler of the application uses CUPTI"),
    ],
)
def test_the_reason_for_an_empty_capture_is_said(
    bench: Bench, more: dict[str, str], said: str
) -> None:
    done = bench.run(LOOP.format(steps=3, seconds=0), "--collector=cupti", **more)
    assert done.returncode == 3
    assert said in done.stderr
    assert "--collector=nsys" in done.stderr or "torch.profiler" in done.stderr
    assert bench.left() == []
    assert not (bench.folder / "nsys_profile.sqlite").exists()


def test_a_terminated_run_leaves_a_profile(bench: Bench) -> None:
    script = LOOP.format(steps=1000, seconds=0.05).replace(
        "range(1000):",
        """range(1000):
    if step == 5:
        os.kill(os.getppid(), 15)""",
    )
    done = bench.run(script, "--collector=cupti", "--bare_steps=0")
    assert done.returncode == 143
    assert bench.left() == []
    assert bench.rows("SELECT count(*) >= 5 FROM CUPTI_ACTIVITY_KIND_KERNEL") == [(1,)]


#: The delay counts from the first step, however long the program takes to get there.
FROM_THE_LOOP = """
import os, time
from profiler_cli.capture import cupti_collector
poll = cupti_collector.OwnCollection.poll
def from_the_loop(self, pid):
    if not os.path.exists("steps"):
        self._start_s = time.monotonic()
    elif not self.is_started:
        # As if dlprof itself did not run for so long.
        time.sleep({stall_s})
    poll(self, pid)
cupti_collector.OwnCollection.poll = from_the_loop
"""
#: Named after their steps, whose times are written down.
NUMBERED = """
fake.fake_init()
log = open("steps", "w")
for step in range(10_000):
    print(step, time.monotonic(), file=log, flush=True)
    fake.fake_launch(b"kernel_%d" % step, 0)
    time.sleep(0.05)
"""


def numbered_steps(bench: Bench) -> tuple[list[float], list[int]]:
    """When each step began, and the steps whose kernels were recorded."""
    lines = (bench.folder / "steps").read_text().splitlines()
    names = (
        "SELECT s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName"
    )
    recorded = sorted(int(name.removeprefix("kernel_")) for (name,) in bench.rows(names))
    return [float(line.split()[1]) for line in lines if " " in line], recorded


@pytest.mark.parametrize("stall_s", [0, 3])
def test_delay_and_duration_bound_the_collection(bench: Bench, stall_s: int) -> None:
    """One that begins late, because dlprof did not run, lasts as long."""
    options = ("--collector=cupti", "--delay=1", "--duration=1.5")
    done = bench.run(NUMBERED, *options, setting=FROM_THE_LOOP.format(stall_s=stall_s))
    assert done.returncode == 0, done.stderr
    assert "was ended after --duration=1.5" in done.stdout
    begun_s, recorded = numbered_steps(bench)
    first, last = recorded[0], recorded[-1]
    assert recorded == list(range(first, last + 1))
    # A poll takes 0.1 s, and a step half of that.
    assert begun_s[first] - begun_s[0] > 0.8
    assert [*begun_s, begun_s[-1] + 0.1][last + 1] - begun_s[first - 1] > 1.4


def test_each_process_is_recorded(bench: Bench) -> None:
    script = f"""
import subprocess
if "CHILD" not in os.environ:
    words = [sys.executable, __file__]
    children = [subprocess.Popen(words, env=dict(os.environ, CHILD="1")) for _ in range(2)]
    sys.exit(max(child.wait() for child in children))
{LOOP.format(steps=5, seconds=0)}
"""
    done = bench.run(script, "--collector=cupti", "--bare_steps=0")
    assert done.returncode == 0, done.stderr
    processes = "SELECT globalPid, count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY 1"
    assert [count for _, count in bench.rows(processes)] == [5, 5]


TRAINING = """
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
fake.fake_init()
def train(steps):
    for step in range(steps):
        time.sleep(0.04)
        model(torch.zeros(2, 4)).sum().backward()
        fake.fake_launch(b"kernel", 0)
        optimizer.step()
train(70)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
    train(1)
"""


def test_profiler_of_the_script_is_given_way_to(bench: Bench) -> None:
    if find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    options = ("--collector=cupti", "--bare_steps=6", "--profile_steps=all")
    script = TRAINING + "train(3)"
    done = bench.run(script, *options)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if "torch.profiler" in line]
    assert lines == [
        "dlprof: torch.profiler records now; dlprof's collector waits",
        "dlprof: torch.profiler has ended; dlprof's collector records again",
    ]
    ended_by = "SELECT ended_by FROM DLPROF_WINDOW ORDER BY start_ns"
    assert bench.rows(ended_by) == [("detach",), ("end",)]


def test_loop_of_a_dozen_steps_is_a_profile_that_says_what_it_holds(bench: Bench) -> None:
    if find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    script = TRAINING.partition("train(70)")[0] + "train(12)"
    done = bench.run(script, "--collector=cupti")
    assert done.returncode == 0, done.stderr
    ((steps, recorded),) = bench.rows('SELECT steps, "recordedSteps" FROM DLPROF_LOOPS')
    assert 3 <= recorded < steps <= 12
    assert bench.rows("SELECT ended_by FROM DLPROF_WINDOW") == [("end",)]
    assert f"Recorded {recorded} of {steps} steps, " in done.stdout


RANKS = """
import torch, torch.distributed
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
fake.fake_init()
for step in range(150):
    time.sleep(0.02)
    model(torch.zeros(2, 4)).sum().backward()
    fake.fake_launch(b"step%d" % step, 0)
    # A rank is some steps ahead of the others, as far as its launches go.
    if step % 3 == 0:
        torch.distributed.barrier()
    optimizer.step()
"""


def test_ranks_of_several_dlprofs_record_the_same_steps(bench: Bench) -> None:
    if find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    (bench.folder / "train.py").write_text(CUDA + RANKS)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    job = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    main = "import sys; from profiler_cli.dlprof import main; sys.exit(main())"
    words = [sys.executable, "-c", main, "--collector=cupti", "--output_path=rank%q{RANK}"]
    started = [
        subprocess.Popen(
            [*words, sys.executable, "train.py"],
            cwd=bench.folder,
            env=bench.environment | job | {"RANK": rank},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in "01"
    ]
    printed = [process.communicate()[0] for process in started]
    assert [process.returncode for process in started] == [0, 0], printed
    names = "SELECT value FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = shortName"
    first, second = (bench.rows(names, f"rank{rank}/nsys_profile.sqlite") for rank in "01")
    assert len(first) >= 40
    assert set(first) == set(second)
    bare = "SELECT count(*) FROM DLPROF_STEP_TIMES WHERE phase = 'bare'"
    assert bench.rows(bare, "rank1/nsys_profile.sqlite") >= [(10,)]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12", "535.183.01"),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build",
            "580.159.04",
        ),
        ("something else 1.2.3", ""),
    ],
)
def test_the_version_of_the_driver_is_read(text: str, version: str) -> None:
    assert driver_version(text) == version
