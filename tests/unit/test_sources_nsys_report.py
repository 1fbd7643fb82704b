"""Reports of Nsight Systems as input, with a fake nsys that copies an export."""

from __future__ import annotations

import signal
import stat
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from aggregator.errors import (
    AggregationCancelledError,
    NoGpuActivityError,
    NsysFailedError,
    NsysNotFoundError,
    ProfileNotFoundError,
    UnsupportedProfileError,
)
from aggregator.options import ImportOptions
from aggregator.pipeline import import_profile
from aggregator.sources import open_profile
from aggregator.sources.nsys.report import NSYS_VARIABLE, find_nsys
from aggregator.system.progress import NullProgress
from tests.builders import Trace, one_gpu

COPY = """for word; do case "$word" in --output=*) out="${word#--output=}";; esac; done
cp "%s" "$out"
"""


@pytest.fixture(autouse=True)
def quiet_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No nsys installed on the machine, and a temporary folder that can be inspected."""
    monkeypatch.delenv(NSYS_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))


@pytest.fixture
def export(tmp_path: Path) -> Path:
    trace, thread = one_gpu()
    thread.op("conv2d", 0, 100, seq=1)
    thread.launch("conv", 10)
    return trace.write(tmp_path / "export.sqlite")


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "my run.nsys-rep"
    path.write_bytes(b"NSYS report of a private format")
    return path


def fake(folder: Path, script: str) -> Path:
    """A program ``nsys`` that writes its words to ``words`` beside it first."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "nsys"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{folder}/words"\n{script}')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def left_behind(tmp_path: Path) -> list[str]:
    return [path.name for path in (tmp_path / "scratch").iterdir()]


# --- the export -----------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".nsys-rep", ".qdrep", ".QDREP"])
def test_a_report_is_exported_and_read(
    tmp_path: Path, export: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    report = tmp_path / f"run{suffix}"
    report.write_bytes(b"private")
    fake(tmp_path / "bin", COPY % export)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    profile = open_profile(report, NullProgress())
    assert profile.source_name == report.name
    assert len(profile.kernels) == 1
    words = (tmp_path / "bin" / "words").read_text().splitlines()
    assert words[:3] == ["export", "--type=sqlite", "--force-overwrite=true"]
    assert words[-1] == str(report)
    assert left_behind(tmp_path) == []


def test_the_program_may_be_named_for_an_import(tmp_path: Path, export: Path, report: Path) -> None:
    program = fake(tmp_path / "elsewhere", COPY % export)
    options = ImportOptions(report, tmp_path / "out.sqlite", nsys_path=str(program))
    assert import_profile(options, NullProgress()).counts["kernels"] == 1


def test_an_export_that_is_called_a_report_needs_no_nsys(tmp_path: Path, export: Path) -> None:
    renamed = export.rename(tmp_path / "renamed.nsys-rep")
    assert len(open_profile(renamed, NullProgress()).kernels) == 1


def test_errors_of_the_export_name_the_report(tmp_path: Path, report: Path) -> None:
    empty = Trace().write(tmp_path / "empty.sqlite")
    program = fake(tmp_path / "bin", COPY % empty)
    with pytest.raises(NoGpuActivityError) as error:
        open_profile(report, NullProgress(), str(program))
    assert str(error.value) == error.value.message
    assert str(report) in error.value.message
    assert "dlprof-nsys-" not in error.value.message


@pytest.mark.parametrize("suffix", [".txt", ".qdstrm", ""])
def test_a_file_of_another_kind_is_no_sqlite_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"file{suffix}"
    path.write_bytes(b"something else")
    with pytest.raises(UnsupportedProfileError, match="is not an SQLite file") as error:
        open_profile(path, NullProgress())
    assert "nsys export" in error.value.hint


def test_a_report_that_is_not_there_is_not_exported(tmp_path: Path) -> None:
    with pytest.raises(ProfileNotFoundError):
        open_profile(tmp_path / "none.nsys-rep", NullProgress())


# --- failures -------------------------------------------------------------------------------------


def test_a_failure_shows_the_last_lines(tmp_path: Path, report: Path) -> None:
    script = 'for n in 1 2 3 4 5 6 7; do echo "line $n" >&2; echo; done\nexit 9\n'
    program = fake(tmp_path / "bin", script)
    with pytest.raises(NsysFailedError, match=r"exit status 9") as error:
        open_profile(report, NullProgress(), str(program))
    assert error.value.hint == "line 3\nline 4\nline 5\nline 6\nline 7"
    assert error.value.details["return_code"] == 9
    assert error.value.exit_code == 3
    assert left_behind(tmp_path) == []


def test_success_without_a_file_is_a_failure(tmp_path: Path, report: Path) -> None:
    program = fake(tmp_path / "bin", "exit 0\n")
    with pytest.raises(NsysFailedError, match="could not export"):
        open_profile(report, NullProgress(), str(program))


def test_a_crash_names_its_signal(tmp_path: Path, report: Path) -> None:
    program = fake(tmp_path / "bin", "kill -SEGV $$\n")
    with pytest.raises(NsysFailedError, match=f"signal {int(signal.SIGSEGV)}"):
        open_profile(report, NullProgress(), str(program))


def test_a_program_that_cannot_run_is_named(tmp_path: Path, report: Path) -> None:
    program = fake(tmp_path / "bin", "")
    program.write_bytes(b"\x7fELF no program")
    with pytest.raises(NsysFailedError, match="cannot be run"):
        open_profile(report, NullProgress(), str(program))


def test_cancelling_ends_the_program_and_its_children(tmp_path: Path, report: Path) -> None:
    pid_file, ended = tmp_path / "child", tmp_path / "ended"
    # The name appears with the content.
    write_pid = f'echo $! > "{pid_file}.part"\nmv "{pid_file}.part" "{pid_file}"'
    script = f'sleep 600 &\n{write_pid}\nwait\ntouch "{ended}"\n'
    program = fake(tmp_path / "bin", script)

    class Impatient(NullProgress):
        def advance(self, rows: int) -> None:
            if pid_file.exists():
                raise AggregationCancelledError("The aggregation was cancelled.")

    with pytest.raises(AggregationCancelledError):
        open_profile(report, Impatient(), str(program))
    assert not is_running(int(pid_file.read_text()))
    assert not ended.exists()
    assert left_behind(tmp_path) == []


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return False
        if state == "Z":
            return False
        time.sleep(0.05)
    return True


# --- finding nsys ---------------------------------------------------------------------------------


def test_without_nsys_the_hint_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NsysNotFoundError, match="not found") as error:
        find_nsys(root=tmp_path)
    assert "nsys export -t sqlite" in error.value.hint
    assert error.value.exit_code == 3


def test_the_newest_installation_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    fake(tmp_path / "opt/nvidia/nsight-systems/2023.4.4/bin", "")
    fake(tmp_path / "opt/nvidia/nsight-systems-cli/2024.10.1/target-linux-x64", "")
    fake(tmp_path / "usr/local/cuda-12.4/bin", "")
    newest = fake(tmp_path / "opt/nvidia/nsight-systems/2025.3.1/bin", "")
    assert find_nsys(root=tmp_path) == newest
    newest.chmod(0o644)
    (newest.parent / "nsys").unlink()
    assert find_nsys(root=tmp_path).parent.name == "target-linux-x64"


def test_what_the_user_names_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = fake(tmp_path / "path", "")
    from_environment = fake(tmp_path / "environment", "")
    given = fake(tmp_path / "given", "")
    monkeypatch.setenv("PATH", f"{on_path.parent}:/usr/bin:/bin")
    assert find_nsys() == on_path
    monkeypatch.setenv(NSYS_VARIABLE, str(from_environment.parent))
    assert find_nsys() == from_environment
    assert find_nsys(str(given)) == given


@pytest.mark.parametrize("value", ["{folder}/none", "{folder}", "{folder}/plain"])
def test_a_named_program_that_does_not_exist_is_an_error(tmp_path: Path, value: str) -> None:
    (tmp_path / "plain").write_text("no program")
    with pytest.raises(NsysNotFoundError, match="There is no program"):
        find_nsys(value.format(folder=tmp_path))


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NSYS_VARIABLE, "/nowhere/nsys")
    with pytest.raises(NsysNotFoundError, match=NSYS_VARIABLE):
        find_nsys()


def test_no_program_is_left_running(tmp_path: Path, export: Path, report: Path) -> None:
    program = fake(tmp_path / "bin", COPY % export)
    # Other tests of this worker may have children of their own.
    before = set(psutil.Process().children(recursive=True))
    open_profile(report, NullProgress(), str(program))
    assert set(psutil.Process().children(recursive=True)) <= before
