"""``dlprof --standby`` and ``dlprof record``, with stand-ins for CUDA and NVTX."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.errors import CollectorError
from aggregator.sources.collector import standing_by
from aggregator.sources.collector.standing_by import Job as JobFolder
from aggregator.sources.collector.standing_by import read_job, request_window
from aggregator.system.progress import NullProgress
from dlprof_nvtx.standby import Standby
from profiler_cli.standby.job import has_slowed, step_medians
from tests.cli.forking import Forks
from tests.cli.test_own_collector import CUDA, Bench, cache  # noqa: F401 - a fixture
from tests.process_figures import figures_of

TRAINING = """
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
fake.fake_init()
while not os.path.exists("stop"):
    while os.path.exists("pause"):
        time.sleep(0.01)
    time.sleep(0.005)
    model(torch.zeros(2, 4)).sum().backward()
    fake.fake_launch(b"kernel", 0)
    fake.fake_launch(b"second", 0)
    optimizer.step()
    with open("steps", "a") as file:
        file.write(".")
    if os.path.exists("kill"):
        os.kill(os.getpid(), 9)
"""
LIMIT_S = 120
MAIN = "import sys; from profiler_cli.dlprof import main; sys.exit(main())"


def wait_for(is_true: Callable[[], object]) -> None:
    """Wait for a condition; a loaded machine may need long."""
    deadline = time.monotonic() + LIMIT_S
    while not is_true():
        assert time.monotonic() < deadline, "it does not become true"
        time.sleep(0.02)


class Job:
    """A training that stands by, in the folder of a bench."""

    def __init__(
        self,
        bench: Bench,
        *options: str,
        script: str = TRAINING,
        launcher: Sequence[str] = (),
        main: str = MAIN,
    ) -> None:
        self.bench, self.folder = bench, bench.folder
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        bench.environment["TMPDIR"] = str(self.temporary)
        (self.folder / "train.py").write_text(CUDA + script)
        standby = () if "DLPROF_STANDBY" in bench.environment else ("--standby",)
        words = [*standby, *options, sys.executable, *launcher, "train.py"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", main, *words],
            cwd=self.folder,
            env=bench.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        wait_for(self.ready)

    def ready(self) -> list[Path]:
        assert self.process.poll() is None, self.process.communicate()[0]
        return list(self.temporary.glob("dlprof-standby-*/ready.*[0-9]"))

    @property
    def pid(self) -> int:
        return int(self.ready()[0].suffix[1:])

    def record(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.bench.start("record", *words)

    def begin_long_window(self) -> subprocess.Popen[str]:
        """Ask for a window that does not end by itself, and wait until it has steps."""
        words = [sys.executable, "-c", MAIN, "record", "--steps=100000", "--output_path=out"]
        found = subprocess.Popen(
            words, cwd=self.folder, env=self.bench.environment, stdout=subprocess.PIPE, text=True
        )
        wait_for(lambda: list(self.temporary.glob("*/seen.*")))
        records = "*.records-*/*.records"
        wait_for(lambda: any(path.stat().st_size for path in self.folder.glob(records)))
        # The file begins with the window, before a step of it has run.
        self.wait_for_steps(3)
        return found

    def wait_for_steps(self, count: int) -> None:
        """Wait until so many further steps have ended."""
        steps = self.folder / "steps"
        size = steps.stat().st_size
        wait_for(lambda: steps.stat().st_size >= size + count)

    def end(self) -> tuple[int, str]:
        (self.folder / "pause").unlink(missing_ok=True)
        (self.folder / "stop").touch()
        output, _ = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, output


@pytest.fixture(scope="module")
def job(
    tmp_path_factory: pytest.TempPathFactory,
    cache: Path,  # noqa: F811 - the fixture
    forks: Forks,
) -> Iterator[Job]:
    """A job that stands by; it is recorded again and again."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    found = Job(Bench(tmp_path_factory.mktemp("job"), cache, forks))
    yield found
    if found.process.poll() is None:
        found.end()


def _kernels(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM kernels").fetchone()[0])


def test_each_window_has_the_steps_that_were_asked_for(job: Job) -> None:
    for number, steps in enumerate((12, 7)):
        done = job.record(f"--steps={steps}", f"--output_path=out{number}", "--keep_export")
        assert done.returncode == 0, done.stderr
        export, database = sorted((job.folder / f"out{number}").iterdir())
        assert _kernels(database) == 2 * steps
        times = "SELECT count(*), min(hostNs) FROM DLPROF_STEP_TIMES WHERE phase = 'bare'"
        ((count, shortest_ns),) = job.bench.rows(times, str(export))
        assert 1 <= count <= 200
        assert shortest_ns > 5_000_000  # The sleep of a step.
    # The records of a window are gone with it.
    assert list(job.folder.glob("*.records-*/*.records")) == []
    assert list(job.folder.glob("*/*.records*")) == []


def test_a_job_is_found_by_process_and_command(job: Job) -> None:
    listed = json.loads(job.record("--list", "--format=json").stdout)
    assert [(one["pid"], list(one["ranks"])) for one in listed] == [
        (job.process.pid, [str(job.pid)])
    ]
    for name in (str(job.pid), str(job.process.pid), "train.py"):
        assert job.record(name, "--steps=3", f"--output_path=of-{name}").returncode == 0
    done = job.record("other.py")
    assert (done.returncode, "'other.py' stands by" in done.stderr) == (2, True)
    done = job.record(str(os.getpid()))
    assert (done.returncode, "does not stand by" in done.stderr) == (2, True)


def test_a_job_that_does_not_answer_is_left_alone(job: Job) -> None:
    (job.folder / "pause").touch()
    done = job.record("--limit=0.3", "--output_path=silent")
    assert done.returncode == 3
    assert "has ended for 0 s" in done.stderr or "No step" in done.stderr
    assert not (job.folder / "silent").exists()
    (job.folder / "pause").unlink()
    assert job.record("--steps=3", "--output_path=silent").returncode == 0


def test_a_second_request_is_refused_while_one_is_answered(job: Job) -> None:
    (job.folder / "pause").touch()
    words = [sys.executable, "-c", MAIN, "record", "--steps=3", "--output_path=first"]
    first = subprocess.Popen(words, cwd=job.folder, env=job.bench.environment)
    wait_for(lambda: list(job.temporary.glob("*/request.json")))
    done = job.record("--output_path=second")
    assert (done.returncode, "is being recorded" in done.stderr) == (2, True)
    (job.folder / "pause").unlink()
    assert first.wait(LIMIT_S) == 0


def test_a_request_whose_dlprof_was_killed_is_replaced(job: Job) -> None:
    (job.folder / "pause").touch()
    words = [sys.executable, "-c", MAIN, "record", "--steps=3", "--output_path=first"]
    first = subprocess.Popen(words, cwd=job.folder, env=job.bench.environment)
    wait_for(lambda: list(job.temporary.glob("*/request.json")))
    first.send_signal(signal.SIGKILL)
    first.wait(LIMIT_S)
    (job.folder / "pause").unlink()
    assert job.record("--steps=3", "--output_path=second").returncode == 0
    assert job.record("--steps=3", "--output_path=third").returncode == 0


def test_a_job_that_is_killed_in_a_window_leaves_what_was_recorded(bench: Bench) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    job = Job(bench)
    record = job.begin_long_window()
    (job.folder / "kill").touch()
    output, _ = record.communicate(timeout=LIMIT_S)
    # What CUPTI had not delivered died with the process.
    if record.returncode == 0:
        assert "ended before the window was complete" in output
        assert list((job.folder / "out").glob("window-*.sqlite"))
    else:
        assert not (job.folder / "out").exists()
    assert job.process.wait(LIMIT_S) == 137


@pytest.mark.parametrize("count", [30, 1000])
def test_windows_in_a_row_leave_no_memory_files_or_threads(job: Job, count: int) -> None:
    found = read_job(next(job.temporary.glob("dlprof-standby-*")))
    assert found is not None
    target = job.folder / "window"
    figures, left = [], []
    for _ in range(count):
        target.mkdir()
        window = request_window(found, target, steps=2, answer_s=LIMIT_S)
        assert list(target.glob("*.records")), window
        shutil.rmtree(target)
        figures.append(figures_of(job.pid))
        left.append({path.name for path in found.folder.iterdir() if "minutes" not in path.name})
    # The first windows load libraries, and memory is taken in steps.
    early, late = figures[count // 3], figures[-1]
    print(figures[:: max(1, count // 6)], late)
    assert late["files"] <= early["files"]
    assert late["threads"] <= early["threads"]
    assert late["memory_kib"] - early["memory_kib"] < 512
    assert left[-1] <= left[0]
    assert list(found.records.glob("*.records")) == []


def test_a_program_that_ends_in_a_window_leaves_a_profile_of_it_and_nothing_else(job: Job) -> None:
    record = job.begin_long_window()
    code, said = job.end()
    assert code == 0, said
    output, _ = record.communicate(timeout=LIMIT_S)
    assert record.returncode == 0, output
    assert "ended before the window was complete" in output
    (database,) = (job.folder / "out").iterdir()
    assert _kernels(database) > 0
    assert list(job.temporary.glob("dlprof-*")) == []
    assert list(job.folder.glob("*.records*")) == []
    done = job.record()
    assert (done.returncode, "No job stands by" in done.stderr) == (2, True)


DISK = """
import resource
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
def fill():
    size = 6000 if os.path.exists("full") else hard
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
"""


def test_a_full_disk_costs_a_window_and_nothing_else(bench: Bench) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    # A limit of the size of files is what a full disk is to who writes.
    job = Job(bench, script=DISK + TRAINING.replace("optimizer.step()", "optimizer.step(); fill()"))
    (job.folder / "full").touch()
    done = job.record("--steps=300", "--output_path=out")
    reason = f"Process {job.pid} could not write all of its records: File too large"
    assert reason in done.stdout + done.stderr
    left = list((job.folder / "out").glob("*")) if (job.folder / "out").exists() else []
    # What was recorded before is a profile, or there is no file.
    assert (done.returncode, len(left)) in {(0, 1), (3, 0)}, done
    (job.folder / "full").unlink()
    done = job.record("--steps=5", "--output_path=later")
    assert (done.returncode, "could not write" in done.stdout) == (0, False), done.stderr
    (database,) = (job.folder / "later").iterdir()
    assert _kernels(database) == 10
    code, output = job.end()
    assert code == 0, output
    assert list(job.folder.glob("*.records*")) == []


RANKS = """
import torch
import torch.distributed
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
fake.fake_init()
for step in range(1_000_000):
    while os.path.exists(f"pause{rank}"):
        time.sleep(0.01)
    time.sleep(0.02)
    model(torch.zeros(2, 4)).sum().backward()
    fake.fake_launch(b"step%d" % step, 0)
    fake.fake_launch(b"second", 0)
    optimizer.step()
    stops = torch.tensor(int(os.path.exists("stop")))
    torch.distributed.all_reduce(stops)  # As gradients keep the ranks together.
    if stops:
        break
os._exit(0)
"""


def record_all_ranks(job: Job, *options: str) -> subprocess.CompletedProcess[str]:
    """Record the same steps of all ranks, or try again where a loaded machine kept one of them."""
    while True:
        done = job.record("--all-ranks", "--steps=6", *options)
        if done.returncode != 3 or "saw the request after the first step" not in done.stderr:
            return done


@pytest.mark.parametrize("count", [2, 4])
def test_ranks_record_the_same_steps_or_none(bench: Bench, count: int) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={count}"]
    job = Job(bench, script=RANKS, launcher=launcher)
    wait_for(lambda: len(job.ready()) == count)
    listed = job.record("--list", "--format=json")
    assert listed.returncode == 0, listed.stderr
    (found,) = json.loads(listed.stdout)
    assert sorted(found["ranks"].values()) == [str(number) for number in range(count)]
    done = record_all_ranks(job, "--output_path=all", "--keep_export")
    assert done.returncode == 0, done.stderr
    (export,) = (job.folder / "all").glob("*.export.sqlite")
    names = (
        "SELECT globalPid, value FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = shortName"
    )
    steps: dict[int, set[str]] = {}
    for process, name in job.bench.rows(names, str(export)):
        steps.setdefault(process, set()).add(name)
    assert len(steps) == count
    assert len(set(map(frozenset, steps.values()))) == 1
    assert len(next(iter(steps.values()))) == 6 + 1
    # A rank that does not answer: nothing is recorded of the others either.
    (job.folder / "pause1").touch()
    silent = next(pid for pid, rank in found["ranks"].items() if rank == "1")
    done = job.record("--all-ranks", "--limit=1", "--output_path=none")
    assert done.returncode == 3
    assert re.search(rf"No step of process .*\b{silent}\b.* has ended for 1 s", done.stderr)
    assert not (job.folder / "none").exists()
    (job.folder / "pause1").unlink()
    done = record_all_ranks(job, "--output_path=again")
    assert done.returncode == 0, done.stderr
    code, output = job.end()
    assert code == 0, output


def test_a_rank_that_sees_a_request_late_ends_it_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = os.getpid()
    (tmp_path / f"ready.{pid}").write_text('{"rank": "1"}')
    (tmp_path / "agreed.record.one.0").symlink_to("25")  # By a rank that was first.
    monkeypatch.setenv("DLPROF_REFERENCE", str(tmp_path))
    monkeypatch.setenv("DLPROF_STANDBY", "1")
    standby = Standby()
    assert standby.prepare()
    (tmp_path / "request.json").write_text('{"id": "one", "steps": 6, "pids": null}')
    assert not standby.is_due(0, 28, [(20_000_000, 0)], 10**9, has_ranks=True)
    job = JobFolder(tmp_path, pid, ("train",), tmp_path, 0, {pid: "1"})
    with pytest.raises(CollectorError, match="saw the request after the first step"):
        standing_by._wait_for_end(job, "one", [pid], 60, NullProgress())
    assert not standby.is_due(0, 29, [(20_000_000, 0)], 2 * 10**9, has_ranks=True)


def test_a_slow_last_step_does_not_bring_the_window_nearer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLPROF_REFERENCE", str(tmp_path))
    monkeypatch.setenv("DLPROF_STANDBY", "1")
    standby = Standby()
    standby.prepare()
    (tmp_path / "request.json").write_text('{"id": "one", "steps": 6, "pids": null}')
    steps = [(20_000_000, 0)] * 5 + [(400_000_000, 0)]
    assert not standby.is_due(0, 10, steps, 10**9, has_ranks=True)
    assert standby.first == 10 + 1 + 500 // 20


def test_a_launcher_that_starts_each_process_makes_jobs_with_ranks(bench: Bench) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    # As srun sets it; the command has dlprof in it already.
    bench.environment |= {"DLPROF_STANDBY": "1", "SLURM_NTASKS": "2"}
    jobs = []
    for rank in "01":
        bench.environment["SLURM_PROCID"] = rank
        jobs.append(Job(bench))
    wait_for(lambda: len(jobs[0].ready()) == 2)
    listed = json.loads(bench.start("record", "--list", "--format=json").stdout)
    ranks = {one["pid"]: list(one["ranks"].values()) for one in listed}
    assert ranks == {job.process.pid: [rank] for job, rank in zip(jobs, "01", strict=True)}
    done = bench.start("record")
    assert (done.returncode, "Several jobs stand by" in done.stderr) == (2, True)
    done = bench.start("record", str(jobs[1].process.pid), "--steps=4", "--output_path=out")
    assert done.returncode == 0, done.stderr
    assert [job.end()[0] for job in jobs] == [0, 0]


def test_standby_takes_no_other_time_of_recording(bench: Bench) -> None:
    for options in (["--delay=1"], ["--memory=true"], ["--nsys_profile_range=true"]):
        done = bench.start("--standby", *options, "true")
        assert (done.returncode, "--standby" in done.stderr) == (2, True), options
    done = bench.start("--every=1h", "true")
    assert (done.returncode, "need --standby" in done.stderr) == (2, True)
    for option in ("--every=5", "--every=1s", "--when=step>0.9x", "--when=loss>2x"):
        assert bench.start("--standby", option, "true").returncode == 2, option


@pytest.fixture
def bench(tmp_path: Path, cache: Path, forks: Forks) -> Iterator[Bench]:  # noqa: F811 - the fixture
    """A folder; a job in it that a failed test has left ends."""
    yield Bench(tmp_path, cache, forks)
    (tmp_path / "stop").touch()
    for path in tmp_path.glob("pause*"):
        path.unlink()


def _minutes(*medians_ms: float, loop: str = "SGD") -> list[dict[str, object]]:
    return [
        {"utc_s": 60 * number, "loop": loop, "steps": 100, "median_ns": round(ms * 1e6)}
        for number, ms in enumerate(medians_ms, start=1)
    ]


def test_steps_have_slowed_after_two_slow_minutes() -> None:
    def is_slower(lines: list[dict[str, object]], since_utc_s: float = 0.0) -> bool:
        return has_slowed(step_medians(lines, since_utc_s), 1.1)

    assert not is_slower(_minutes(10, 10, 10, 10, 12))
    assert is_slower(_minutes(10, 10, 10, 12, 12))
    assert not is_slower(_minutes(10, 10, 10, 12, 10.5))
    # No request may have come for some minutes.
    assert is_slower(_minutes(10, 10, 10, *[12] * 9))
    # Minutes before the last window do not count.
    assert not is_slower(_minutes(10, 10, 10, 12, 12), 120)
    assert not is_slower([])
    other = _minutes(30, 30, loop="evaluation")
    assert not is_slower([*_minutes(10, 10, 10, 10, 10), *other])


SLOWING = """
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
fake.fake_init()

class Samples(torch.utils.data.IterableDataset):
    def __iter__(self):
        while True:
            time.sleep(0.15 if os.path.exists("slow-loader") else 0.01)
            yield torch.zeros(2, 4)

for batch in torch.utils.data.DataLoader(Samples(), batch_size=None):
    time.sleep(0.15 if os.path.exists("slow-sleep") else 0.02)
    model(batch).sum().backward()
    fake.fake_launch(b"kernel", 0)
    fake.fake_launch(b"second", 0)
    optimizer.step()
    with open("steps", "a") as file:
        file.write(".")
    if os.path.exists("stop"):
        break
"""


def test_slower_steps_are_noticed_and_two_windows_name_the_cause(bench: Bench) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    # Sleeps are most of a step: other programs on the machine make no step much longer.
    bench.environment["DLPROF_STANDBY_LINE_S"] = "0.5"
    looking = f"from profiler_cli.standby import job; job._LOOK_S = 0.1; {MAIN}"
    options = ("--when=step>2.5x", "--profile_steps=16", "--output_path=out")
    job = Job(bench, *options, script=SLOWING, main=looking)

    def windows() -> list[Path]:
        """Return the databases; beside the newest lies its export while it is imported."""
        found = (job.folder / "out").glob("window-*.sqlite")
        return sorted(path for path in found if ".export" not in path.name)

    wait_for(windows)
    (job.folder / "slow-sleep").touch()
    wait_for(lambda: len(windows()) == 2)
    (job.folder / "slow-loader").touch()
    (job.folder / "slow-sleep").unlink()
    job.wait_for_steps(6)
    done = job.record("--steps=16", "--output_path=loader")
    assert done.returncode == 0, done.stderr
    code, output = job.end()
    assert code == 0, output
    assert "to compare with" in output
    assert "more than 2.5 times as long" in output
    first, second = windows()
    (third,) = (job.folder / "loader").iterdir()
    for window, cause in ((second, "Python between ops"), (third, "data loader")):
        compared = bench.start("compare", str(first), str(window)).stdout
        verdict = compared.splitlines()[0]
        assert "slower" in verdict
        # The first one that is named has changed most.
        assert f"changes: {cause} +" in verdict or f"changed: {cause} +" in verdict
        # Windows that a job asked for have the same set-up.
        assert ("What else differs" in compared) == (window == third), compared
