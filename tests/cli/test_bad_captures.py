"""Captures that cannot work as meant: output and exit code stay, and one sentence says why."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from aggregator.sources.collector.folder import files_of
from profiler_cli.capture import recorder
from profiler_cli.capture.nsight import Nsys, importer_problem
from profiler_cli.dlprof import main
from tests.cli.forking import LIMIT_S
from tests.cli.test_own_collector import CUDA, LOOP, REPOSITORY, Bench, bench, cache  # noqa: F401

PROGRAM = [sys.executable, "-m", "profiler_cli.dlprof"]
NO_CUDA = "and no process of it was seen to use CUDA."


@pytest.mark.parametrize(
    ("options", "script", "code", "said"),
    [
        ((), "pass", 3, f"the application ended {NO_CUDA}"),
        (("--bare_steps=0",), "pass", 3, f"the application ended {NO_CUDA}"),
        (("--memory=true",), "pass", 3, f"the application ended {NO_CUDA}"),
        ((), "sys.exit(5)", 5, f"the application failed with exit code 5 {NO_CUDA}"),
        ((), "os.abort()", 134, f"the application was ended by SIGABRT {NO_CUDA}"),
        (("--delay=9", "--duration=1"), "pass", 3, "before --delay=9 had passed."),
        (("--delay=9",), "sys.exit(5)", 5, "failed with exit code 5 after"),
        (("--nsys_profile_range=true",), "pass", 3, "ended without starting the profiled range."),
        (("--nsys_profile_range=true",), "sys.exit(5)", 5, f"failed with exit code 5 {NO_CUDA}"),
        (
            ("--delay=0.1", "--duration=0.3"),
            "time.sleep(60)",
            3,
            f"the application was ended after --duration {NO_CUDA}",
        ),
    ],
)
def test_the_reason_why_nothing_was_recorded_is_the_true_one(
    bench: Bench,  # noqa: F811
    options: tuple[str, ...],
    script: str,
    code: int,
    said: str,
) -> None:
    (bench.folder / "train.py").write_text(f"import os, sys, time\n{script}\n")
    done = bench.start("--collector=cupti", *options, sys.executable, "train.py")
    assert done.returncode == code, done.stderr
    assert done.stderr.count("dlprof: error: Nothing was profiled: the application ") == 1
    assert said in done.stderr
    assert bench.left() == []


def test_a_script_that_is_not_there_is_the_reason(bench: Bench) -> None:  # noqa: F811
    done = bench.start("--collector=cupti", sys.executable, "missing.py")
    assert done.returncode == 2
    assert "can't open file" in done.stderr
    assert f"failed with exit code 2 {NO_CUDA}" in done.stderr


def test_ranges_without_work_of_the_gpu_are_no_success(bench: Bench) -> None:  # noqa: F811
    done = bench.run("fake.nvtx_push(b'x')\nfake.nvtx_pop()\n", "--collector=cupti")
    assert done.returncode in {3, 4}
    assert "no GPU work" in done.stderr or NO_CUDA in done.stderr


#: Without ranges: without dlprof the stand-in has no NVTX to write them to.
LAUNCHES = """
fake.fake_init()
for _ in range(5):
    fake.fake_launch(b"kernel", 0)
    fake.cuptiActivityFlushAll(0)
"""
ENDINGS = {
    "quick": LAUNCHES,
    "os._exit": LAUNCHES + "\nos._exit(7)\n",
    "signal": LAUNCHES + "\nos.kill(os.getpid(), 11)\n",
    "children": LAUNCHES
    + """
children = []
for _ in range(200):
    child = os.fork()
    if not child:
        os._exit(3)
    children.append(child)
print({os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children})
""",
}


@pytest.mark.parametrize("name", ENDINGS)
def test_output_and_exit_code_are_those_without_dlprof(
    bench: Bench,  # noqa: F811
    name: str,
) -> None:
    script = f"{CUDA}print('begin', flush=True)\n{ENDINGS[name]}\nprint('end')\n"
    (bench.folder / "train.py").write_text(script)
    plain = subprocess.run(
        [sys.executable, "train.py"],
        cwd=bench.folder,
        env=bench.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    done = bench.start("--collector=cupti", sys.executable, "train.py")
    code = plain.returncode
    assert done.returncode == (128 - code if code < 0 else code), done.stderr
    own = [line for line in done.stdout.splitlines() if line in plain.stdout.splitlines()]
    assert own == plain.stdout.splitlines()
    assert plain.stderr == ""
    assert (bench.folder / "dlprof_dldb.sqlite").exists()


def test_output_of_any_size_is_passed_on(bench: Bench) -> None:  # noqa: F811
    (bench.folder / "train.py").write_text(
        "import sys\nfor _ in range(200): sys.stdout.write(('x' * 999_999) + '\\n')\n"
    )
    words = [*PROGRAM, "--collector=cupti", sys.executable, "train.py"]
    with subprocess.Popen(
        words,
        cwd=bench.folder,
        env=bench.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        letters = 0
        while block := process.stdout.read(1 << 20):
            letters += block.count(b"x" * 1000)
    assert letters == 200 * 999
    assert process.returncode == 3


def in_namespace(command: str, *words: str) -> list[str]:
    """Words that run others after a command, which mounts something for them alone."""
    probe = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"]
    if (
        shutil.which("unshare") is None
        or subprocess.run(probe, capture_output=True, check=False).returncode
    ):
        pytest.skip("this user cannot mount anything")
    return ["unshare", "-m", "sh", "-c", f'{command} && exec "$@"', "sh", *words]


def run(bench: Bench, words: list[str], **more: str) -> subprocess.CompletedProcess[str]:  # noqa: F811
    return subprocess.run(
        words,
        cwd=bench.folder,
        env={**bench.environment, **more},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_a_home_that_cannot_be_written_is_recorded(bench: Bench) -> None:  # noqa: F811
    (bench.folder / "train.py").write_text(CUDA + LOOP.format(steps=5, seconds=0))
    del bench.environment["DLPROF_CACHE_DIR"]
    home = {"HOME": "/dev/null/home", "XDG_CACHE_HOME": ""}
    done = run(bench, [*PROGRAM, "--collector=cupti", sys.executable, "train.py"], **home)
    assert done.returncode == 0, done.stderr
    assert bench.rows("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL") == [(5,)]


@pytest.mark.parametrize("code", [0, 5])
def test_a_program_without_cupti_runs_and_its_lack_is_said(
    bench: Bench,  # noqa: F811
    code: int,
) -> None:
    """The stand-in for CUDA under a name that is not CUPTI's."""
    cuda = bench.folder / "libfake_cuda.so"
    shutil.copy(bench.environment["FAKE_CUDA"], cuda)
    script = f"{LAUNCHES}\nprint('trained')\nsys.exit({code})\n"
    none = "from profiler_cli.capture import recorder\nrecorder.find_cupti = lambda program: None"
    done = bench.run(script, "--collector=cupti", setting=none, FAKE_CUDA=str(cuda))
    assert done.returncode == (code or 3)
    assert "trained" in done.stdout
    assert "CUPTI was not found in the environment of the application." in done.stderr


def test_a_machine_without_proc_is_recorded(bench: Bench) -> None:  # noqa: F811
    (bench.folder / "train.py").write_text(CUDA + LOOP.format(steps=5, seconds=0))
    words = [*PROGRAM, "--collector=cupti", sys.executable, "train.py"]
    done = run(bench, in_namespace("mount -t tmpfs none /proc", *words))
    assert done.returncode == 0, done.stderr
    assert bench.rows("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL") == [(5,)]


def test_a_full_disk_costs_records_and_nothing_else(bench: Bench) -> None:  # noqa: F811
    (bench.folder / "out").mkdir()
    (bench.folder / "train.py").write_text(
        f"{CUDA}{LOOP.format(steps=3000, seconds=0)}\nprint('trained')\nsys.exit(5)\n"
    )
    words = [*PROGRAM, "--collector=cupti", "--output_path=out", sys.executable, "train.py"]
    done = run(bench, in_namespace("mount -t tmpfs -o size=200k none out", *words))
    assert done.returncode == 5, done.stderr
    assert "trained" in done.stdout
    assert "Traceback" not in done.stderr
    assert "What was recorded is kept. To make a profile of it: dlprof --database=" in done.stderr


def test_records_that_a_full_disk_cut_become_a_profile_with_a_warning(
    bench: Bench,  # noqa: F811
) -> None:
    """What the library writes on a full disk, in the records of a process that went on."""
    full = "open(os.path.join(os.environ['DLPROF_COLLECT'], 'problem.77.28'), 'w').close()\n"
    empty = "open(os.path.join(os.environ['DLPROF_COLLECT'], '77-0.records'), 'w').close()\n"
    done = bench.run(LOOP.format(steps=5, seconds=0) + full + empty, "--collector=cupti")
    assert done.returncode == 0, done.stderr
    reason = "Process 77 could not write all of its records: No space left on device."
    assert f"Warning: {reason}" in done.stdout
    assert bench.rows("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL") == [(5,)]


# --- after the run ---------------------------------------------------------------------------

FAILING = (
    "from profiler_cli.capture import cupti_collector\n"
    "def fail(*_): raise ValueError('unexpected')\ncupti_collector.export_records = fail"
)


@pytest.mark.parametrize("code", [0, 5])
def test_what_fails_after_the_run_keeps_the_records_and_the_exit_code(
    bench: Bench,  # noqa: F811
    code: int,
) -> None:
    script = LOOP.format(steps=5, seconds=0) + f"\nsys.exit({code})\n"
    done = bench.run(script, "--collector=cupti", setting=FAILING)
    assert done.returncode == code or (code == 0 and done.returncode == 1)
    command = re.search(r"dlprof (--database=\S+)", done.stderr)
    assert command is not None, done.stderr
    again = bench.start(command[1])
    assert again.returncode == 0, again.stderr
    assert bench.rows("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL") == [(5,)]
    assert (bench.folder / "dlprof_dldb.sqlite").exists()


def test_a_killed_dlprof_leaves_records_that_become_a_profile(bench: Bench) -> None:  # noqa: F811
    """The program goes on; the next run says where its records are and removes none."""
    script = f"""{CUDA}{LOOP.format(steps=5, seconds=0)}
print("ready", os.getpid(), flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
{LOOP.format(steps=4, seconds=0)}
"""
    (bench.folder / "train.py").write_text(script)
    process = subprocess.Popen(
        [*PROGRAM, "--collector=cupti", "--bare_steps=0", sys.executable, "train.py"],
        cwd=bench.folder,
        env=bench.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    pid = next(int(line.split()[1]) for line in process.stdout if line.startswith("ready"))
    process.kill()
    process.wait(LIMIT_S)
    (bench.folder / "go").touch()
    process.communicate(timeout=LIMIT_S)
    psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=LIMIT_S)
    (left,) = bench.left()
    empty = bench.folder / re.sub(r"-\w+$", "-empty", left)
    empty.mkdir()

    done = bench.start("--collector=cupti", "true")

    assert f"Removed ./{empty.name}" in done.stdout
    assert f"./{left} holds the records of a capture whose dlprof was killed" in done.stdout
    assert bench.left() == [left]
    assert bench.start(f"--database={left}").returncode == 0
    assert bench.rows("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL") == [(9,)]


def test_a_second_signal_keeps_the_records(bench: Bench) -> None:  # noqa: F811
    script = f"""{CUDA}import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
{LOOP.format(steps=5, seconds=0)}
print("ready", flush=True)
time.sleep(600)
"""
    (bench.folder / "train.py").write_text(script)
    process = subprocess.Popen(
        [*PROGRAM, "--collector=cupti", "--bare_steps=0", sys.executable, "train.py"],
        cwd=bench.folder,
        env=bench.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for word in ("ready", "Interrupted"):
        next(line for line in process.stdout if word in line)
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    command = re.search(r"dlprof (--database=\S+)", err)
    assert command is not None, err
    assert bench.start(command[1]).returncode == 0


# --- what records ----------------------------------------------------------------------------


@pytest.fixture
def nsys(tmp_path: Path) -> Path:
    """An installation whose importer lacks a library."""
    folder = tmp_path / "nsight-systems"
    for name, text in {
        "target-linux-x64/nsys": 'echo "NVIDIA Nsight Systems version 2025.3.2.474"',
        "host-linux-x64/QdstrmImporter": 'echo "QdstrmImporter: error while loading shared '
        'libraries: libdw.so.1: cannot open shared object file" >&2; exit 127',
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    return folder / "target-linux-x64" / "nsys"


def test_an_importer_that_lacks_a_library_is_known_before_the_run(
    bench: Bench,  # noqa: F811
    nsys: Path,
) -> None:
    assert "libdw.so.1" in importer_problem(Nsys(nsys, (2025, 3)))
    done = bench.start(f"--nsys_path={nsys}", "touch", "ran")
    assert done.returncode == 3
    assert "Nsight Systems cannot convert what it records" in done.stderr
    assert "apt-get install libdw1 libelf1" in done.stderr
    assert not (bench.folder / "ran").exists()
    # What is found by itself is not insisted on.
    done = bench.start("true", PATH=f"{nsys.parent}:{bench.environment['PATH']}")
    assert "Profiling with dlprof's own collector" in done.stdout


def test_nothing_that_can_record_is_an_error_before_the_run(
    bench: Bench,  # noqa: F811
    tmp_path: Path,
) -> None:
    done = bench.start(
        "touch", "ran", PATH="/usr/bin:/bin", CC="", DLPROF_CACHE_DIR=str(tmp_path / "none"),
        setting="from profiler_cli.capture import recorder\n"
        "from aggregator.errors import CollectorError\n"
        "def fail(): raise CollectorError('There is no compiler.', hint='Install gcc.')\n"
        "recorder.build_library = fail",
    )  # fmt: skip
    if "Nsight Systems 20" in done.stdout:
        pytest.skip("this machine has an nsys of its own")
    assert done.returncode == 3
    assert "Nothing can record the application: There is no compiler." in done.stderr
    assert "Install gcc." in done.stderr
    assert not (bench.folder / "ran").exists()


def test_auto_takes_the_own_collector_where_cupti_is_found(
    monkeypatch: pytest.MonkeyPatch,
    cache: Path,  # noqa: F811
) -> None:
    from profiler_cli.options.parser import parse_options

    monkeypatch.setenv("DLPROF_CACHE_DIR", str(cache))
    monkeypatch.setattr(recorder, "find_installed", lambda _: Nsys(Path("/no/bin/nsys"), (2025,)))
    monkeypatch.setattr(recorder, "find_cupti", lambda _: Path("/x/libcupti.so.12"))
    options = parse_options(["true"])
    assert recorder.choose_recorder(options).nsys is None
    opts = parse_options(["--nsys_opts=-t osrt,cuda", "true"])
    assert recorder.choose_recorder(opts).why == "--nsys_opts is set"
    monkeypatch.setattr(recorder, "find_cupti", lambda _: None)
    chosen = recorder.choose_recorder(options)
    assert (chosen.nsys is None, chosen.why) == (False, "no CUPTI was found")


def test_a_folder_without_records_is_no_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert files_of(tmp_path) == []
    assert main([f"--database={tmp_path}"]) == 4
    assert "is a folder, not a file" in capsys.readouterr().err


def test_standard_input_is_the_applications(bench: Bench) -> None:  # noqa: F811
    (bench.folder / "train.py").write_text("import sys\nprint('read', sys.stdin.read())\n")
    words = [*PROGRAM, "--collector=cupti", sys.executable, "train.py"]
    done = subprocess.run(
        words, cwd=bench.folder, env={**os.environ, **bench.environment}, input="typed",
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "read typed" in done.stdout
