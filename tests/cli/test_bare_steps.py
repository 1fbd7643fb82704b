"""Steps that run without markers and collection: on a CPU, with a stand-in for nsys."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import pytest

from tests.cli.forking import Forks

# Not imported here: its own programs do that, and it takes seconds.
pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")

REPOSITORY = Path(__file__).resolve().parents[2]
FAKE = Path(__file__).with_name("fake_nsys.py")
NVTX = """
class Domain:
    def __getattr__(self, name):
        return lambda *_, **__: 1

def get_domain(name=None):
    return Domain()
"""
TRAIN = """
import sys, time, torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range({steps}):
    time.sleep({seconds})
    model(torch.zeros(2, 4)).sum().backward()
    optimizer.step()
    print("step", step, flush=True)
{end}
"""
INFER = """
import time, torch
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval()
with torch.no_grad():
    for step in range({steps}):
        time.sleep({seconds})
        model(torch.zeros(2, 4))
"""

#: Put before a script: its loop ends 20 steps after the collection has begun, however late that is.
UNTIL_PROFILED = """
import os
def range(most):
    left, step = 20, 0
    while left and step < most:
        yield step
        step += 1
        left -= os.path.exists("collecting")
"""
#: Writes the time between two calls of ``time.sleep``: each step of the scripts above has one.
OWN_CLOCK = """
import time
ends, sleep = [], time.sleep
def timed(seconds):
    sleep(seconds)
    ends.append(time.perf_counter_ns())
    if len(ends) > 1 and seconds == 0.04:
        with open("own_ns", "a") as log:
            print(ends[-1] - ends[-2], file=log)
time.sleep = timed
"""
MAP_CUDA = """
import mmap, os, time
file = open(os.environ["LIBRARY"], "rb")
kept = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
"""
SLOW_TORCH = f"""{MAP_CUDA}
time.sleep(1)
folder = os.environ["DLPROF_REFERENCE"]
with open("when", "w") as log:
    log.write(str(os.path.exists(os.path.join(folder, "started"))))
print("torch was imported")
__version__ = "1.9"
"""


class Bench:
    """A folder with a fake nsys that can begin to collect later."""

    def __init__(self, folder: Path, export: Path, forks: Forks) -> None:
        self.folder, self.forks = folder, forks
        program = folder / "bin" / "nsys"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {FAKE} "$@"\n')
        program.chmod(0o755)
        (folder / "site" / "nvtx").mkdir(parents=True)
        (folder / "site" / "nvtx" / "__init__.py").write_text(NVTX)
        self.environment = {
            **os.environ,
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "PYTHONPATH": f"{REPOSITORY}:{folder / 'site'}",
            "FAKE_LOG": str(folder / "nsys.log"),
            "FAKE_EXPORT": str(export),
            "FAKE_LATER": "1",
            "TMPDIR": str(folder),
        }

    def run(
        self, script: str, *options: str, setting: str = "", **more: str
    ) -> subprocess.CompletedProcess[str]:
        (self.folder / "train.py").write_text(script)
        words = ["--collector=nsys", *options, sys.executable, "train.py"]
        return self.forks.run(words, self.folder, self.environment | more, setting)

    def started(self) -> bool:
        return "start\n" in (self.folder / "nsys.log").read_text()

    def times(self) -> dict[str, list[int]]:
        """Times of the host's clock by phase, from the export."""
        with closing(sqlite3.connect(self.folder / "nsys_profile.sqlite")) as connection:
            query = "SELECT phase, hostNs FROM DLPROF_STEP_TIMES ORDER BY phase, number"
            found: dict[str, list[int]] = {}
            for phase, time_ns in connection.execute(query):
                found.setdefault(phase, []).append(time_ns)
        return found

    def reference(self) -> dict[str, object]:
        with closing(sqlite3.connect(self.folder / "dlprof_dldb.sqlite")) as connection:
            connection.row_factory = sqlite3.Row
            query = "SELECT * FROM view_step_reference WHERE aggr_id = 1 LIMIT 1"
            return dict(connection.execute(query).fetchone())


@pytest.fixture
def bench(tmp_path: Path, profile: Callable[[str], Path], forks: Forks) -> Bench:
    return Bench(tmp_path, profile("simple_no_nvtx"), forks)


@pytest.mark.parametrize("script", [TRAIN, INFER], ids=["training", "inference"])
def test_first_steps_are_timed_and_then_the_collection_begins(bench: Bench, script: str) -> None:
    # GIVEN a loop of steps of 40 ms, long enough for the first second without profiling
    program = script.format(steps=1_000, seconds=0.04, end="sys.exit(3)")
    done = bench.run(OWN_CLOCK + UNTIL_PROFILED + program, "--bare_steps=10")
    assert done.returncode == (3 if script is TRAIN else 0), done.stdout + done.stderr
    # THEN they are as long as the script's own clock says, in the export and in the database
    times = bench.times()
    assert bench.started()
    # Fewer only if they took 5 s.
    assert len(times["bare"]) >= 10 or (len(times["bare"]) >= 3 and sum(times["bare"]) >= 2e9)
    own_ns = [int(line) for line in (bench.folder / "own_ns").read_text().split()]
    assert 0.95 * min(own_ns) <= median(times["bare"]) <= 1.05 * max(own_ns)
    assert sum(times["bare"]) >= 1e9
    assert len(times["profiled"]) >= 5
    assert len(times["bare"]) + len(times["profiled"]) < len(own_ns) + 1
    found = bench.reference()
    if median(times["profiled"]) < 0.9 * median(times["bare"]):
        # The machine became faster meanwhile: the first steps are no reference.
        assert found["bare_step"] is None
        assert found["reason"]
    else:
        assert found["bare_steps"] == len(times["bare"])
        assert abs(int(str(found["bare_step"])) - median(times["bare"])) <= 1
        assert found["reason"] is None
        assert "Step without profiling: median" in done.stdout
    assert not list(bench.folder.glob("dlprof-steps-*"))


def test_a_program_that_ends_first_is_not_changed_and_its_steps_are_shown(bench: Bench) -> None:
    done = bench.run(TRAIN.format(steps=6, seconds=0.01, end="sys.exit(7)"))
    assert done.returncode == 7
    assert done.stdout.count("step ") == 6
    assert not bench.started()
    assert "Nothing was profiled" in done.stderr
    assert "Median of 4 steps without profiling: " in done.stderr
    assert "--bare_steps=0" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_crash_in_the_bare_steps_keeps_its_exit_code(bench: Bench) -> None:
    done = bench.run(TRAIN.format(steps=6, seconds=0.01, end="import os; os.abort()"))
    assert done.returncode == 128 + 6
    assert "Nothing was profiled" in done.stderr
    assert "Traceback" not in done.stderr


def test_cuda_that_torch_loads_begins_nothing(bench: Bench) -> None:
    """The driver's library is mapped long before the markers are enabled."""
    library = bench.folder / "libcuda.so.1"
    library.write_bytes(b"x" * 4096)
    (bench.folder / "site" / "torch").mkdir()
    (bench.folder / "site" / "torch" / "__init__.py").write_text(SLOW_TORCH)
    done = bench.run("import torch, time\n# .step(\ntime.sleep(0.5)\n", LIBRARY=str(library))
    assert "torch was imported" in done.stdout
    assert bench.started() is (done.returncode == 0)
    log = (bench.folder / "when").read_text().split()
    assert log == ["False"], "the collection began while torch was imported"


def test_a_torch_that_cannot_be_imported_is_the_same_error_to_the_program(bench: Bench) -> None:
    # GIVEN a broken torch, and no folder of messages any more
    (bench.folder / "site" / "torch").mkdir()
    broken = (
        "import os, shutil\n"
        "shutil.rmtree(os.environ['DLPROF_REFERENCE'])\n"
        "raise ImportError('libcudart')\n"
    )
    (bench.folder / "site" / "torch" / "__init__.py").write_text(broken)
    script = "try:\n    import torch\nexcept ImportError as error:\n    print('without', error)\n"
    done = bench.run(script)
    assert "without libcudart" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("uses_driver", [True, False])
def test_cuda_without_torch_begins_the_collection(bench: Bench, uses_driver: bool) -> None:
    """The library alone may be loaded by Nsight Systems."""
    library = bench.folder / "libcuda.so.1"
    library.write_bytes(b"x" * 4096)
    device = bench.folder / "dev" / ("nvidia-uvm" if uses_driver else "null")
    device.parent.mkdir()
    device.touch()
    program = MAP_CUDA + f"used = open({str(device)!r})\n"
    # It does not end before dlprof has looked; the other one has to for its end.
    waits = "while not os.path.exists('collecting'): time.sleep(0.05)\n"
    program += waits if uses_driver else "time.sleep(1.5)\n"
    done = bench.run(program, LIBRARY=str(library))
    assert (done.returncode == 0) is uses_driver or "Nothing was profiled" in done.stderr
    assert bench.started() is uses_driver


def test_a_session_that_is_not_ready_is_asked_again(bench: Bench) -> None:
    script = TRAIN.format(steps=40, seconds=0.04, end="")
    # It is tried for 8 s, in which a busy machine may not start three programs.
    setting = "from profiler_cli.capture import capture_session; capture_session._RETRY_S = 120"
    done = bench.run(script, setting=setting, FAKE_START_FAILURES="2")
    assert done.returncode == 0, done.stderr
    assert (bench.folder / "nsys.log").read_text().count("start\n") == 3
    assert bench.times()["bare"]


def test_a_program_without_a_loop_is_profiled_from_its_import_of_torch(bench: Bench) -> None:
    done = bench.run("import torch\nprint(torch.zeros(3) + 1)\n")
    assert done.returncode == 0
    assert bench.started()
    reason = str(bench.reference()["reason"])
    assert reason.startswith("The program's own files name nothing")


def test_a_data_loader_leaves_half_of_its_steps_to_the_profile(bench: Bench) -> None:
    script = (
        "import time, torch\nmodel = torch.nn.Linear(4, 4)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for batch in torch.utils.data.DataLoader(torch.zeros(40, 4), batch_size=2):\n"
        "    time.sleep(0.01)\n    model(batch).sum().backward()\n    optimizer.step()\n"
    )
    done = bench.run(script)
    assert done.returncode == 0, done.stderr
    times = bench.times()
    assert 3 <= len(times["bare"]) <= 10
    assert len(times["profiled"]) + len(times["marked"]) >= 8


def test_a_collection_that_cannot_begin_is_an_error_with_a_hint(bench: Bench) -> None:
    script = TRAIN.format(steps=40, seconds=0.04, end="")
    done = bench.run(script, FAKE_START_CODE="1")
    assert done.returncode == 3
    assert "--bare_steps=0" in done.stderr
    assert done.stdout.count("step ") >= 40


def test_options_that_say_when_to_begin_are_obeyed(bench: Bench) -> None:
    script = TRAIN.format(steps=6, seconds=0.01, end="")
    for option in ("--delay=0.1", "--nsys_profile_range=true"):
        bench.run(script, option, "--force=true")
        assert "--start-later" not in (bench.folder / "nsys.log").read_text()


def test_an_export_of_others_has_no_reference_and_says_so(bench: Bench) -> None:
    done = bench.run("print('no torch')\n", "--bare_steps=0")
    assert done.returncode == 0
    assert str(bench.reference()["reason"]).startswith("The capture holds no steps")
