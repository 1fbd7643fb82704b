"""``dlprof attach``: let a process stand by that was started without dlprof.

Python 3.14 can run a script in another process of the same version (``sys.remote_exec``), which is
asked of the interpreter of that process. No debugger is used: it would stop the program.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from aggregator.errors import CollectorError, UsageError
from aggregator.sources.collector.standing_by import JOB, RECORDS, make_job
from aggregator.system.temporary_files import is_alive
from aggregator.system.untrusted_json import read_object
from profiler_cli.capture import processes
from profiler_cli.capture.cupti_collector import CUPTI_VARIABLE, LIBRARY_VARIABLES
from profiler_cli.capture.cupti_collector import FOLDER_VARIABLE as COLLECT_VARIABLE
from profiler_cli.capture.nsight import run_tool
from profiler_cli.capture.recorder import CUPTI, choose_recorder
from profiler_cli.console import EXIT_DONE
from profiler_cli.options.declared import Options
from profiler_cli.options.parser import SubcommandParser
from profiler_cli.options.values import whole_number
from profiler_cli.standby.job import standby_variables

if TYPE_CHECKING:
    from profiler_cli.capture.recorder import Recorder

LIMIT_S: Final = 30.0
OLDEST: Final = (3, 14)
INSTEAD: Final = "Start it with dlprof --standby: then any version of Python can be recorded."
_PTRACE: Final = Path("/proc/sys/kernel/yama/ptrace_scope")
_NAME: Final = re.compile(r"python[\d.]*$")
_ASK: Final = "import sys; print(*sys.version_info[:2])"
_RUN: Final = "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])"
_POLL_S: Final = 0.05
_SCRIPT: Final = """\
def _attach():
    import importlib.util, json, os, sys
    try:
        problem = ""
        if "torch" not in sys.modules:
            problem = "it has not imported PyTorch"
        elif "dlprof_nvtx" in sys.modules:
            problem = "dlprof is in it already"
        else:
            os.environ.update({environment!r})
            package = {package!r}
            spec = importlib.util.spec_from_file_location(
                "dlprof_nvtx", package + "/__init__.py", submodule_search_locations=[package])
            sys.modules["dlprof_nvtx"] = module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            from dlprof_nvtx.attached import stand_by
            problem = stand_by()
    except Exception as error:
        problem = type(error).__name__ + ": " + str(error)
    with open({answer!r} + ".part", "w") as file:
        json.dump({{"problem": problem}}, file)
    os.replace({answer!r} + ".part", {answer!r})
_attach()
"""
"""What runs in the process: nothing of it stays in the program's namespace but a function."""


def run_attach(words: Sequence[str]) -> int:
    """Run ``dlprof attach`` as one of ``SUBCOMMANDS``."""
    options = _parser().parse_args(list(words))
    pid: int = options.pid
    python = _Python.of(pid)
    python.check(pid)
    recorder = choose_recorder(Options(collector=CUPTI, application=(python.path,)))
    folder = make_job(python.command, None, pid)
    try:
        _attach(pid, python, folder, recorder, options.limit)
    except BaseException:
        (folder / JOB).unlink(missing_ok=True)
        raise
    print(f"Process {pid} stands by from its next step on: dlprof record {pid}")
    return EXIT_DONE


@dataclass(frozen=True)
class _Python:
    """The interpreter of a process."""

    path: str
    command: tuple[str, ...]
    environment: Mapping[str, str]

    @classmethod
    def of(cls, pid: int) -> Self:
        """Return that of a process of this user.

        Raises:
            UsageError: There is no such process, or it is another user's.
        """
        place = Path(f"/proc/{pid}")
        try:
            if place.stat().st_uid != os.geteuid():
                raise UsageError(
                    f"Process {pid} is another user's.", hint="Attach to it as its user."
                )
            path = str((place / "exe").readlink())
            words = (place / "cmdline").read_text(errors="replace").rstrip("\0").split("\0")
            entries = (place / "environ").read_text(errors="replace").split("\0")
        except OSError as error:
            raise UsageError(
                f"Process {pid} cannot be looked at: {error.strerror}.",
                hint="Give the number of a running process of your own.",
            ) from error
        environment = dict(entry.split("=", 1) for entry in entries if "=" in entry)
        return cls(path, tuple(words), environment)

    def check(self, pid: int) -> None:
        """Check that the process can run a script.

        Raises:
            UsageError: It is no Python, or an older one.
        """
        if not _NAME.search(self.path):
            raise UsageError(f"Process {pid} is no Python program ({self.path}).", hint=INSTEAD)
        found = self.run("-c", _ASK).stdout.split()
        version = tuple(int(part) for part in found if part.isdecimal())
        if len(version) != len(OLDEST) or version < OLDEST:
            shown = ".".join(map(str, version)) or "an unknown version"
            raise UsageError(
                f"Process {pid} runs Python {shown}, and only 3.14 or newer can be attached to.",
                hint=INSTEAD,
            )

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the interpreter, with the libraries that the process found."""
        try:
            words = (self.path, "-I", *words)
            return run_tool(*words, limit_s=LIMIT_S, environment=self.environment)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UsageError(f"{self.path} cannot be run: {error}.", hint=INSTEAD) from error


def _attach(pid: int, python: _Python, folder: Path, recorder: Recorder, limit_s: float) -> None:
    records = folder / RECORDS
    records.mkdir(mode=0o700)
    environment = {
        **dict.fromkeys(LIBRARY_VARIABLES, str(recorder.library)),
        COLLECT_VARIABLE: str(records),
        **standby_variables(folder),
        processes.DETAIL_VARIABLE: Options().detail,
        **({CUPTI_VARIABLE: str(recorder.cupti)} if recorder.cupti is not None else {}),
    }
    answer, script = folder / "attached.json", folder / "attach.py"
    package = str(processes.markers_package())
    text = _SCRIPT.format(package=package, environment=environment, answer=str(answer))
    script.write_text(text, encoding="utf-8")
    done = python.run("-c", _RUN, str(pid), str(script))
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["unknown error"])[-1]
        raise UsageError(f"Process {pid} cannot be attached to: {reason}.", hint=_hint(reason))
    deadline_s = time.monotonic() + limit_s
    while not answer.exists():
        if not is_alive(pid) or time.monotonic() > deadline_s:
            # It may still be run, which must do nothing then.
            script.write_text("", encoding="utf-8")
            raise CollectorError(
                f"Process {pid} has not answered within {limit_s:g} s.",
                hint="Its main thread may wait in a library, as in a join: try again later.",
            )
        time.sleep(_POLL_S)
    if problem := str(read_object(answer.read_text(encoding="utf-8"))["problem"]):
        raise CollectorError(f"Process {pid} cannot stand by: {problem}.", hint=INSTEAD)


def _hint(reason: str) -> str:
    """Return what to do about a reason of Python's."""
    if "disabled" in reason or "not enabled" in reason:
        return (
            "It was started with -X disable-remote-debug or PYTHON_DISABLE_REMOTE_DEBUG, or built "
            f"without. {INSTEAD}"
        )
    scope = ""
    with suppress(OSError):
        scope = _PTRACE.read_text().strip()
    if "Permission" in reason or "not permitted" in reason:
        return (
            f"The system lets no process look into another one (kernel.yama.ptrace_scope is "
            f"{scope or 'unknown'}): as root, sysctl kernel.yama.ptrace_scope=0; in a container, "
            f"the capability SYS_PTRACE. {INSTEAD}"
        )
    return INSTEAD


def _parser() -> SubcommandParser:
    parser = SubcommandParser(
        prog="dlprof attach",
        description=(
            "Let a running PyTorch program stand by that was not started with dlprof, so that "
            "dlprof record can look into it. It needs Python 3.14, and a system that allows it."
        ),
        epilog="Exit codes: 0 done; 2 the process cannot be attached to; 3 it cannot stand by.",
    )
    parser.add("pid PID", "number of the process", type=whole_number(at_least=1).parse)
    parser.add(
        "--limit SECONDS",
        f"how long to wait for its main thread (default: {LIMIT_S:.0f})",
        type=float,
        default=LIMIT_S,
    )
    return parser
