"""``dlprof <application>`` with a stand-in for nsys: command lines, endings, signals, leftovers."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.builders import Trace
from tests.cli.forking import LIMIT_S, Forks

REPOSITORY = Path(__file__).resolve().parents[2]
FAKE = Path(__file__).with_name("fake_nsys.py")
PROGRAM = [
    sys.executable,
    "-c",
    "import sys; from profiler_cli.dlprof import main; sys.exit(main())",
]
PYTHON = sys.executable
# Tests run in several processes at a time: each looks for its own leftovers.
MARK = f"dlprof-test-sleep-{os.getpid()}"
#: What sleeps has not ended by itself when a test looks for what is left.
SLEEP_S, LEFT_LIMIT_S = 600, 60


@dataclass
class Bench:
    """A folder with a fake nsys on PATH."""

    folder: Path
    environment: dict[str, str]
    forks: Forks

    def start(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*PROGRAM, "--collector=nsys", *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )

    def run(self, *words: str, setting: str = "") -> subprocess.CompletedProcess[str]:
        """Run dlprof to its end; ``setting`` is a statement about the module ``capture``."""
        name = "LD_LIBRARY_PATH"  # read when a process starts
        if self.environment.get(name) != os.environ.get(name):
            process = self.start(*words)
            out, err = process.communicate(timeout=LIMIT_S)
            return subprocess.CompletedProcess(list(words), process.returncode, out, err)
        words = ("--collector=nsys", *words)
        return self.forks.run(list(words), self.folder, self.environment, setting)

    def script(self, text: str) -> list[str]:
        """Words that run a script, whose text is not echoed."""
        (self.folder / "train.py").write_text(text)
        return [PYTHON, "train.py"]

    def command(self) -> list[str]:
        """Words of the last ``nsys profile``."""
        runs = (self.folder / "nsys.log").read_text().split("---\n")
        return [run.splitlines() for run in runs if run.startswith("profile")][-1]

    def names(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()} - {"bin", "nsys.log", "train.py"}


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What nsys recorded: three steps of a kernel each."""
    trace = Trace()
    trace.gpu()
    main = trace.thread()
    for step in range(3):
        main.range(f"iteration {step}", 1_000 * step, 1_000 * step + 900)
        main.launch("volta_sgemm", 1_000 * step + 110)
    return trace.write(tmp_path_factory.mktemp("export") / "export.sqlite")


@pytest.fixture
def bench(tmp_path: Path, export: Path, forks: Forks) -> Bench:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "nsys"
    program.write_text(f'#!/bin/sh\nexec {PYTHON} -S {FAKE} "$@"\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "FAKE_LOG": str(tmp_path / "nsys.log"),
        "FAKE_EXPORT": str(export),
    }
    return Bench(tmp_path, environment, forks)


@pytest.fixture
def no_leftovers() -> Iterator[None]:
    """No process that a test started outlives it."""
    before = {process.pid for process in psutil.process_iter()}
    yield
    # Processes that were asked to end need a moment for it.
    psutil.wait_procs(_marked(before), timeout=LEFT_LIMIT_S)
    assert _marked(before) == []


def _marked(before: set[int]) -> list[psutil.Process]:
    """Processes of this file's tests that were not there before."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if process.pid not in before and MARK in " ".join(process.info["cmdline"] or [])
    ]


SLEEP = f"import time; print('ready', flush=True); time.sleep({SLEEP_S})  # {MARK}"


# --- what is run -----------------------------------------------------------------------------


def test_a_run_leaves_profile_database_and_the_applications_output(bench: Bench) -> None:
    done = bench.run("--reports=summary", PYTHON, "-c", "print('hello')")
    assert done.returncode == 0, done.stderr
    assert "hello" in done.stdout
    assert bench.names() == {
        "nsys_profile.nsys-rep",
        "nsys_profile.sqlite",
        "dlprof_dldb.sqlite",
        "dlprof_summary.csv",
    }
    assert bench.command()[:11] == [
        *("profile", "-t", "cuda,nvtx", "-s", "none", "--cuda-flush-interval=1000"),
        *("--show-output=true", "--export=sqlite", "-o", "nsys_profile", PYTHON),
    ]


@pytest.mark.parametrize("keeps", [False, True])
def test_no_value_of_the_environment_is_left_in_what_is_shared(
    bench: Bench, tmp_path: Path, keeps: bool
) -> None:
    variables = dict(bench.environment, API_KEY="hunter2-correct-horse", NOTE="two\nlines; X=3")
    trace = Trace()
    trace.gpu()
    trace.thread().launch("volta_sgemm", 110)
    trace.string("\0".join(f"{name}={value}" for name, value in variables.items()))
    settings = ";".join(f"{name}={value}" for name, value in variables.items())
    trace.add("TARGET_INFO_SYSTEM_ENV", name="DeviceEnvironment", value=settings)
    bench.environment["FAKE_EXPORT"] = str(trace.write(tmp_path / "bin" / "export.sqlite"))
    ran = bench.run(f"--keep_environment={str(keeps).lower()}", PYTHON, "-c", "pass")
    assert ran.returncode == 0, ran.stderr
    written = {
        name: (tmp_path / name).read_bytes()
        for name in ("nsys_profile.sqlite", "dlprof_dldb.sqlite")
    }
    # Shorter values, such as 1 or C.UTF-8, are parts of other texts as well.
    secrets = [value for value in variables.values() if len(value) > 7]
    found = {
        name: [value for value in secrets if value.encode() in content]
        for name, content in written.items()
    }
    assert len(secrets) > 2
    # The database has the command line of dlprof, which begins with the path of Python.
    assert [value for value in found["dlprof_dldb.sqlite"] if value not in PYTHON] == []
    assert len(found["nsys_profile.sqlite"]) == (len(secrets) if keeps else 0)
    assert ("Environment variables and command lines" in ran.stdout) is not keeps
    assert {name for name in bench.names() if name.startswith(".")} == set()


def test_an_export_that_cannot_be_scrubbed_is_kept_and_named(bench: Bench) -> None:
    setting = "import profiler_cli.capture.nsight as n; n.scrub = lambda *a, **k: open('/no/file')"
    ran = bench.run(PYTHON, "-c", "pass", setting=setting)
    assert ran.returncode == 0, ran.stderr
    assert "contains the environment variables" in ran.stdout
    assert {"nsys_profile.sqlite", "dlprof_dldb.sqlite"} <= bench.names()


def test_every_switch_reaches_nsys(bench: Bench) -> None:
    done = bench.run(
        *("--nsys_opts=-t cuda,nvtx,osrt -s cpu", "--nsys_base_name=mine", "-y", "2", "-d=60"),
        *("--nsys_profile_range=true", "-f", "true", "-v", "minimal", "--output_path=out"),
        *(PYTHON, "-c", "print('hidden')"),
    )
    assert done.returncode == 0, done.stderr
    words = bench.command()
    assert words[: words.index(PYTHON)] == [
        *("profile", "-t", "cuda,nvtx,osrt", "-s", "cpu", "--cuda-flush-interval=1000"),
        "--show-output=false",
        *("--export=sqlite", "--delay=2", "--duration=60", "--capture-range=cudaProfilerApi"),
        *("--capture-range-end=stop", "--kill=none", "--force-overwrite=true", "-o", "out/mine"),
    ]
    assert "hidden" not in done.stdout + done.stderr
    assert (bench.folder / "out" / "dlprof_dldb.sqlite").is_file()


def test_kernels_of_graphs_are_recorded_if_asked(bench: Bench) -> None:
    bench.run("--graph_nodes=true", PYTHON, "-c", "pass")
    assert bench.command().count("--cuda-graph-trace=node") == 1
    bench.run(
        "--graph_nodes=true",
        "--force=true",
        "--nsys_opts=-t cuda --cuda-graph-trace=graph",
        *(PYTHON, "-c", "pass"),
    )
    assert "--cuda-graph-trace=node" not in bench.command()
    bench.run("--force=true", PYTHON, "-c", "pass")
    assert "--cuda-graph-trace=node" not in bench.command()


def test_memory_is_recorded_by_nsys_and_by_the_application(bench: Bench) -> None:
    code = "import os; open(os.environ['DLPROF_MEMORY'] + '_7.pickle', 'w').close()"
    done = bench.run("--memory=true", PYTHON, "-c", code)
    assert done.returncode == 0, done.stderr
    assert "--cuda-memory-usage=true" in bench.command()
    assert "nsys_profile_memory_7.pickle" in bench.names()
    assert "dlprof memory ./nsys_profile_memory_7.pickle" in done.stdout


@pytest.mark.parametrize(
    ("version", "expected", "range_end"),
    [
        ("2020.1.1", "--export-sqlite", "--stop-on-range-end=true"),
        ("2021.2.1", "--export=sqlite", "--stop-on-range-end=true"),
        ("2022.1.3", "--export=sqlite", "--capture-range-end=stop"),
        ("2026.1.1", "--export=sqlite", "--capture-range-end=stop"),
    ],
)
def test_the_command_fits_the_version(
    bench: Bench, version: str, expected: str, range_end: str
) -> None:
    bench.environment["FAKE_VERSION"] = version
    bench.environment["FAKE_WRITES"] = (
        ".qdrep,.sqlite" if version < "2021.4" else ".nsys-rep,.sqlite"
    )
    done = bench.run("--nsys_profile_range=true", "true")
    assert done.returncode == 0, done.stderr
    assert {expected, range_end} <= set(bench.command())


@pytest.mark.parametrize(
    ("version", "options", "expected"),
    [
        ("2020.1.1", "-t cuda,nvtx", []),
        ("2025.3.2", "-t cuda --cuda-flush-interval=50", ["--cuda-flush-interval=50"]),
        ("2025.3.2", "-t cuda,nvtx", ["--cuda-flush-interval=1000"]),
    ],
)
def test_what_the_gpu_did_is_saved_every_second_where_nsys_can(
    bench: Bench, version: str, options: str, expected: list[str]
) -> None:
    bench.environment["FAKE_VERSION"] = version
    bench.run(f"--nsys_opts={options}", "true")
    assert [word for word in bench.command() if "flush" in word] == expected


def test_a_report_without_export_is_exported(bench: Bench) -> None:
    bench.environment["FAKE_WRITES"] = ".qdrep"
    done = bench.run("true")
    assert done.returncode == 0, done.stderr
    assert {"nsys_profile.qdrep", "nsys_profile.sqlite", "dlprof_dldb.sqlite"} <= bench.names()


def test_nothing_is_overwritten_without_force(bench: Bench) -> None:
    assert bench.run("true").returncode == 0
    assert bench.run("true").returncode == 0
    assert {"nsys_profile_1.sqlite", "dlprof_dldb_1.sqlite"} <= bench.names()
    assert bench.run("--force=true", "true").returncode == 0
    assert not any(name.endswith("_2.sqlite") for name in bench.names())


def test_the_markers_are_injected_into_the_application_alone(bench: Bench) -> None:
    script = "import os; print('path', os.environ['PYTHONPATH'], os.environ.get('DLPROF_NVTX'))"
    done = bench.run(PYTHON, "-c", script)
    line = next(line for line in done.stdout.splitlines() if line.startswith("path"))
    assert line == f"path {REPOSITORY / 'dlprof_nvtx' / 'inject'}:{REPOSITORY} 1"
    # Without PyTorch's markers only the import path of nvtx-plugins is there; 0 leaves out both.
    inject = REPOSITORY / "dlprof_nvtx" / "inject"
    plain = bench.run("--mode=simple", PYTHON, "-c", script)
    assert f"path {inject}:{REPOSITORY} plugins" in plain.stdout
    bench.environment["DLPROF_NVTX"] = "0"
    assert f"path {REPOSITORY} 0" in bench.run(PYTHON, "-c", script).stdout


IS_TERMINAL = "import sys; print('tty', sys.stdout.isatty())"


def test_the_application_keeps_a_terminal(bench: Bench) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, "--collector=nsys", PYTHON, "-c", IS_TERMINAL],
        cwd=bench.folder,
        env=bench.environment,
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    text = b""
    while True:
        try:
            text += os.read(master, 4096)
        except OSError:
            break
    assert process.wait(60) == 0, text
    assert b"tty True\r\n" in text


# --- what cannot work ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--nsys_opts=-t orst,cuda", "true"], 2, "Did you mean osrt?"),
        (["--nsys_opts=-o x", "true"], 2, "--nsys_base_name"),
        (["--nsys_opts='", "true"], 2, "quotation mark"),
        (["no-such-program-here"], 2, "Program 'no-such-program-here' was not found"),
        (["--nsys_path=/no/such/nsys", "true"], 3, "There is no program '/no/such/nsys'"),
    ],
)
def test_mistakes_are_reported_before_anything_runs(
    bench: Bench, words: list[str], code: int, said: str
) -> None:
    done = bench.run(*words)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (bench.folder / "nsys.log").exists()
    assert bench.names() == set()


def test_a_script_without_python_in_front_is_reported(bench: Bench) -> None:
    (bench.folder / "train.py").write_text("print(1)")
    done = bench.run("./train.py", "--lr", "1")
    assert done.returncode == 2
    assert "dlprof ... python ./train.py --lr 1" in done.stderr


def test_without_nsys_the_error_says_what_to_do(bench: Bench) -> None:
    bench.environment["PATH"] = "/usr/bin:/bin"
    done = bench.run("--collector=nsys", "true")
    if done.returncode == 0:
        pytest.skip("this machine has an nsys of its own")
    assert done.returncode == 3
    assert "developer.nvidia.com/nsight-systems" in done.stderr
    assert "--database" in done.stderr


def test_missing_data_is_reported(bench: Bench) -> None:
    done = bench.run("--nsys_opts=-t osrt", "true")
    assert done.returncode == 0
    assert "does not trace cuda: kernels, copies" in done.stdout
    assert "does not trace nvtx: ops, iterations" in done.stdout


def test_a_capture_without_result_says_nsys_last_lines(bench: Bench) -> None:
    del bench.environment["FAKE_EXPORT"]
    done = bench.run("true")
    assert done.returncode == 3
    assert "Nsight Systems wrote no profile" in done.stderr
    assert "Importer error status: An unknown error occurred." in done.stderr


def test_a_stream_without_report_names_the_missing_libraries(bench: Bench) -> None:
    del bench.environment["FAKE_EXPORT"]
    bench.environment["FAKE_WRITES"] = ".qdstrm"
    done = bench.run("true")
    assert done.returncode == 3
    assert "libdw1" in done.stderr
    assert "nsys_profile.qdstrm, which was kept" in done.stderr
    assert "QdstrmImporter --input-file ./nsys_profile.qdstrm" in done.stderr
    assert "dlprof --database=nsys_profile.nsys-rep" in done.stderr
    assert "nsys_profile.qdstrm" in bench.names()


def test_a_range_that_never_started_is_reported(bench: Bench) -> None:
    del bench.environment["FAKE_EXPORT"]
    done = bench.run("--nsys_profile_range=true", "true")
    assert done.returncode == 3
    assert "never started the profiled range" in done.stderr


WARNED = """
from profiler_cli.capture import running
from profiler_cli.console import Console
assert running.LONG_RUN_S == 300
running.LONG_RUN_S = 0.2
original = Console.message
def message(self, text, *more):
    original(self, text, *more)
    if "5 minutes" in text:
        open("warned", "w").close()
Console.message = message
"""


def test_a_run_of_more_than_five_minutes_is_pointed_to_duration(bench: Bench) -> None:
    # It ends once the warning is there, for which dlprof needs a moment.
    wait = "while not os.path.exists('warned') and time.monotonic() < end: time.sleep(0.05)"
    words = (PYTHON, "-c", f"import os, time; end = time.monotonic() + {SLEEP_S}\n{wait}")
    long = bench.run(*words, setting=WARNED)
    assert long.stdout.count("profiling for more than 5 minutes") == 1
    assert "--duration" in long.stdout
    assert "5 minutes" not in bench.run(PYTHON, "-c", "import time; time.sleep(0.5)").stdout


def test_files_of_more_than_a_gigabyte_are_pointed_to_duration(bench: Bench) -> None:
    setting = "assert capture.LARGE_FILE_BYTES == 10**9; capture.LARGE_FILE_BYTES = 10**4"
    large = bench.run("true", setting=setting)
    assert "nsys_profile.sqlite is 0.0 GB; use --duration" in large.stdout
    assert "GB" not in bench.run("true").stdout


def test_a_range_whose_stop_ends_nothing_is_profiled_with_every_version(bench: Bench) -> None:
    for version, switch in (("2020.4.1", "--stop-on-range-end=true"), ("2025.3.2", "stop")):
        bench.environment["FAKE_VERSION"] = version
        bench.run("--nsys_profile_range=true", "--force=true", "true")
        command = bench.command()
        assert "--capture-range=cudaProfilerApi" in command
        assert any(word.endswith(switch) for word in command)
        assert "--kill=none" in command


# --- how the application ends ----------------------------------------------------------------


def test_the_applications_exit_code_is_returned(bench: Bench) -> None:
    done = bench.run(PYTHON, "-c", "import sys; sys.exit(7)")
    assert done.returncode == 7
    assert "exit code 7" in done.stdout
    assert "dlprof_dldb.sqlite" in bench.names()


def test_a_crash_is_named_with_what_it_costs(bench: Bench) -> None:
    done = bench.run(PYTHON, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert done.returncode == 139
    assert "ended by a signal (SIGSEGV, exit code 139): what the GPU did last" in done.stdout
    assert "dlprof_dldb.sqlite" in bench.names()


@pytest.mark.parametrize(
    ("at", "code", "is_said"), [(2_500, 1, True), (150, 1, False), (2_500, 0, False)]
)
def test_a_run_that_memory_ended_is_pointed_to_memory(
    bench: Bench, tmp_path: Path, export: Path, at: int, code: int, is_said: bool
) -> None:
    """An allocation that failed is the reason if no kernel was launched after it."""
    full = tmp_path / "bin" / "full.sqlite"
    shutil.copy(export, full)
    with closing(sqlite3.connect(full)) as connection, connection:
        connection.execute("INSERT INTO StringIds VALUES (9999, 'cudaMalloc_v3020')")
        columns = '("start", "end", globalTid, correlationId, nameId, returnValue)'
        connection.execute(
            f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME {columns}"
            f" SELECT {at}, {at + 10}, globalTid, 9999, 9999, 2 FROM CUPTI_ACTIVITY_KIND_RUNTIME"
            " LIMIT 1"
        )
    bench.environment["FAKE_EXPORT"] = str(full)
    done = bench.run(PYTHON, "-c", f"import sys; sys.exit({code})")
    assert done.returncode == code, done.stderr
    assert ("The memory of the GPU was full when the application ended" in done.stdout) is is_said


def test_a_process_that_ran_out_of_memory_early_is_pointed_to_memory(bench: Bench) -> None:
    """Its first steps are not recorded, so it says so itself: ``baseline_timing.py``."""
    script = (
        "import json, os, sys\nfolder = os.environ['DLPROF_REFERENCE']\n"
        "open(f'{folder}/hold.{os.getpid()}', 'w').close()\n"
        "text = json.dumps({'pid': os.getpid(), 'error': 'OutOfMemoryError'})\n"
        "open(f'{folder}/steps.{os.getpid()}.json', 'w').write(text)\nsys.exit(1)\n"
    )
    bench.environment["FAKE_LATER"] = "1"
    done = bench.run(*bench.script(script))
    assert done.returncode == 1
    assert "The memory of the GPU was full when the application ended: --memory" in done.stderr


def test_an_application_that_duration_ended_is_a_success(bench: Bench) -> None:
    done = bench.run("--duration=1.5", PYTHON, "-c", SLEEP)
    assert done.returncode == 0, done.stderr
    assert "was ended after --duration=1.5 (SIGTERM, exit code 143)" in done.stdout
    # One that ends by itself meanwhile has its own code.
    assert bench.run("--duration=60", PYTHON, "-c", "import sys; sys.exit(143)").returncode == 143


def test_a_script_that_fails_at_import_is_the_news(bench: Bench, tmp_path: Path) -> None:
    empty = tmp_path / "empty.sqlite"
    make_export_without_gpu(empty)
    bench.environment["FAKE_EXPORT"] = str(empty)
    done = bench.run(PYTHON, "-c", "import no_such_module")
    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stderr
    assert "Nothing was aggregated: the application failed with exit code 1" in done.stderr


def test_a_script_without_gpu_work_is_reported(bench: Bench, tmp_path: Path) -> None:
    empty = tmp_path / "empty.sqlite"
    make_export_without_gpu(empty)
    bench.environment["FAKE_EXPORT"] = str(empty)
    done = bench.run("true")
    assert done.returncode == 4
    assert "launched no GPU work" in done.stderr


def make_export_without_gpu(path: Path) -> None:
    import sqlite3

    with sqlite3.connect(path) as connection:
        connection.executescript(
            "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
            "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);"
            "CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT);"
        )
    connection.close()


@pytest.mark.usefixtures("no_leftovers")
def test_ctrl_c_stops_the_application_and_aggregates(bench: Bench) -> None:
    process = bench.start(PYTHON, "-c", SLEEP)
    wait_for_line(process, "ready")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130, err
    assert "Interrupted: stopping the application" in out
    assert "dlprof_dldb.sqlite" in bench.names()


#: Put before what a function does: the signal, once the application is there.
AT_ONCE = """
import os, time
from profiler_cli.capture import running
original = {place}
def signaled(*given, **more):
    made = original(*given, **more)
    if not more or "process_group" in more:  # not for nsys --version
        while not os.path.exists("there"):
            time.sleep(0.01)
        os.kill(os.getpid(), {number})
    return made
{place} = signaled
"""


@pytest.mark.usefixtures("no_leftovers")
@pytest.mark.parametrize(
    ("number", "code", "place"),
    [
        (signal.SIGINT, 130, "running.subprocess.Popen"),
        (signal.SIGINT, 130, "capture.GpuMonitor.started"),
        (signal.SIGTERM, 143, "running.subprocess.Popen"),
    ],
)
def test_a_signal_right_after_the_start_is_none_that_is_lost(
    bench: Bench, number: int, code: int, place: str
) -> None:
    """The application may run before dlprof goes on, on a busy machine for long."""
    script = f"open('there', 'w').close(); {SLEEP}"
    done = bench.run(
        *(PYTHON, "-c", script), setting=AT_ONCE.format(place=place, number=int(number))
    )
    assert done.returncode == code, done.stderr
    assert "dlprof_dldb.sqlite" in bench.names()
    name = "Interrupted" if number == signal.SIGINT else "SIGTERM"
    assert f"{name}: stopping the application" in done.stdout


@pytest.mark.usefixtures("no_leftovers")
def test_a_second_ctrl_c_gives_up(bench: Bench) -> None:
    script = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); {SLEEP}"
    process = bench.start(PYTHON, "-c", script)
    wait_for_line(process, "ready")
    process.send_signal(signal.SIGINT)
    # Two that come before the first is heard of are one.
    wait_for_line(process, "Interrupted")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert "Interrupted" in err
    assert "dlprof_dldb.sqlite" not in bench.names()


@pytest.mark.usefixtures("no_leftovers")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_leaves_a_profile(bench: Bench, number: signal.Signals) -> None:
    process = bench.start(PYTHON, "-c", SLEEP)
    wait_for_line(process, "ready")
    process.send_signal(number)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 128 + number, err
    assert f"{number.name}: stopping the application" in out
    assert "dlprof_dldb.sqlite" in bench.names()


@pytest.mark.usefixtures("no_leftovers")
def test_a_request_to_end_waits_for_the_applications_own_end(bench: Bench) -> None:
    """A job that is asked to end may write a checkpoint, and its exit code asks for a requeue."""
    script = (
        "import signal, sys, time\n"
        "def save(*_):\n    open('checkpoint', 'w').close()\n    sys.exit(99)\n"
        f"signal.signal(signal.SIGTERM, save)\n{SLEEP}"
    )
    process = bench.start(*bench.script(script))
    wait_for_line(process, "ready")
    process.terminate()
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 99
    assert {"checkpoint", "dlprof_dldb.sqlite"} <= bench.names()


@pytest.mark.usefixtures("no_leftovers")
def test_a_second_request_gives_up_and_ends_the_application(bench: Bench) -> None:
    """The application ignores the first one, and is asked once more."""
    script = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); {SLEEP}"
    process = bench.start(*bench.script(script))
    wait_for_line(process, "ready")
    process.send_signal(signal.SIGHUP)
    wait_for_line(process, "SIGHUP")
    process.terminate()
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 143
    assert "dlprof_dldb.sqlite" not in bench.names()


def test_what_is_ignored_stays_ignored(bench: Bench) -> None:
    """As under ``nohup``: the end of the terminal ends neither dlprof nor the application."""
    wait = "while not os.path.exists('go'): time.sleep(0.02)"
    script = f"import os, time; print('ready', flush=True)\n{wait}"
    process = bench.start(
        *bench.script(script), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    )
    wait_for_line(process, "ready")
    process.send_signal(signal.SIGHUP)
    (bench.folder / "go").touch()
    out, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0
    assert "stopping" not in out


def end_of(pid: int) -> None:
    """Wait until a process that is not a child has ended."""
    psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=LIMIT_S)
    assert not psutil.pid_exists(pid)


@pytest.mark.usefixtures("no_leftovers")
def test_dlprof_takes_the_application_along_if_asked(bench: Bench) -> None:
    process = bench.start("--end_with_dlprof=true", PYTHON, "-c", SLEEP)
    wait_for_line(process, "ready")
    process.kill()
    process.communicate(timeout=LIMIT_S)


def test_the_application_outlives_a_kill_of_dlprof(bench: Bench) -> None:
    """It can still write to its output, which no pipe of dlprof's receives."""
    script = (
        "import os, time\nprint('ready', os.getpid(), flush=True)\n"
        "while not os.path.exists('go'): time.sleep(0.02)\n"
        "print('still here', flush=True)\nopen('done', 'w').close()"
    )
    process = bench.start(*bench.script(script))
    pid = int(wait_for_line(process, "ready").split()[1])
    process.kill()
    process.wait(LIMIT_S)
    (bench.folder / "go").touch()
    out, _ = process.communicate(timeout=LIMIT_S)
    end_of(pid)
    assert "still here" in out
    assert (bench.folder / "done").exists()


@pytest.mark.usefixtures("no_leftovers")
def test_a_kill_of_the_application_still_aggregates(bench: Bench) -> None:
    done = bench.run(PYTHON, "-c", "import os; os.kill(os.getpid(), 9)")
    assert done.returncode == 137
    assert "dlprof_dldb.sqlite" in bench.names()


def test_work_that_outlives_the_application_is_left_alone(bench: Bench) -> None:
    """An upload in a session of its own writes to dlprof's output, and ends by itself."""
    upload = (
        "import os, time\nopen('uploading', 'w').write(str(os.getpid()))\n"
        "while not os.path.exists('go'): time.sleep(0.02)\n"
        "print('uploaded', flush=True)\nopen('uploaded', 'w').close()"
    )
    script = (
        "import os, subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {upload!r}], start_new_session=True)\n"
        "while not os.path.exists('uploading'): time.sleep(0.02)"
    )
    done = bench.run(*bench.script(script))
    assert done.returncode == 0, done.stderr
    pid = int((bench.folder / "uploading").read_text())
    assert f"Processes that the application started go on, unrecorded: python ({pid})" in re.sub(
        r"python[\d.]+", "python", done.stdout
    )
    assert psutil.pid_exists(pid)
    (bench.folder / "go").touch()
    end_of(pid)
    assert (bench.folder / "uploaded").exists()


def test_what_nsight_systems_leaves_running_is_ended(bench: Bench, tmp_path: Path) -> None:
    """Its agents are dlprof's: it started them."""
    agent = tmp_path / "bin" / "nsys-agent"
    shutil.copy(shutil.which("sleep") or "", agent)
    bench.environment["FAKE_AGENT"] = str(agent)
    done = bench.run("true")
    assert done.returncode == 0, done.stderr
    end_of(int((tmp_path / "agent").read_text()))
    assert "go on, unrecorded" not in done.stdout


def wait_for_line(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line and "Profiling" not in line:
            return line
    pytest.fail(f"no line {text!r}")
