"""Run programs in processes of their own, each with a PyTorch that was imported once.

``python server.py`` reads a request a line, forks, and writes what the program did.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import shutil
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]

PHASES = ("high", "normal", "held", "full", "windows")
PATHS = (REPOSITORY / "dlprof_nvtx" / "inject", HERE / "stand_in")


class Ranges:
    """Where ranges go: their number, and whether each is closed."""

    def __init__(self) -> None:
        self.opened = self.open = self.started = 0
        self._lock = threading.Lock()

    def push(self, text: str) -> None:
        text.encode()  # As NVTX does.
        with self._lock:
            self.opened += 1
            self.open += 1

    def pop(self) -> None:
        with self._lock:
            self.open -= 1

    def start(self, text: str) -> int:
        self.started += 1
        return self.started

    def end(self, handle: int) -> None:
        self.started -= 1

    def enable_ops(self, *, shapes: bool) -> bool:
        return os.environ.get("DLPROF_NVTX_OPS") != "0"

    def disable_ops(self) -> None:
        pass


def answer(folder: Path) -> None:
    """Answer the request for the collection, as dlprof does."""

    def wait() -> None:
        while not any(folder.glob("start.*")):
            time.sleep(0.001)
        (folder / "started").touch()

    threading.Thread(target=wait, daemon=True).start()


def begin(phase: str, folder: Path) -> Ranges:
    """Enable the markers as ``dlprof`` does for a phase of the capture."""
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, PATHS))
    os.environ["DLPROF_NVTX"] = "1"
    os.environ["DLPROF_NVTX_DETAIL"] = "high" if phase == "high" else "normal"
    from dlprof_nvtx import baseline_timing, collector, control, guard, windows

    if phase == "windows":
        for name in ("begin", "detach", "is_loaded"):
            setattr(collector, name, lambda: True)
        os.environ["DLPROF_PROFILE_STEPS"] = "3"
        windows.UNPROFILED_STEPS, windows.UNPROFILED_NS = 2, 0
    if phase in {"held", "full", "windows"}:
        os.environ["DLPROF_REFERENCE"] = baseline_timing.REFERENCE.folder = str(folder)
        os.environ["DLPROF_BARE_STEPS"] = "100000" if phase == "held" else "3"
        baseline_timing.LEAST_NS = baseline_timing.FOUND_TOLERANCE = (
            0  # Steps need not be even here.
        )
        baseline_timing.MOST_SEARCHED = 1
        answer(folder)
    ranges = Ranges()
    assert control.init(backend=ranges)
    # Real ranges are written by C functions, which TorchDynamo does not see.
    skip: Any = guard._find_skip()
    for method in (Ranges.push, Ranges.pop):
        skip(method.__code__)
    return ranges


class Fault(Exception):
    """What a function of the package raises in the tests."""


def fail_in(name: str) -> None:
    """Let a function of the package raise an error when it is called by another one of it."""
    package = str(REPOSITORY / "dlprof_nvtx")

    def trace(frame: Any, event: str, _: object) -> None:
        code, back = frame.f_code, frame.f_back
        if (
            event == "call"
            and f"{Path(code.co_filename).stem}.{code.co_name}" == name
            and code.co_filename.startswith(package)
            and back is not None
            and back.f_code.co_filename.startswith(package)
        ):
            sys.settrace(None)
            Path(os.environ["HARM_FAULT"]).touch()
            raise Fault(name)

    sys.settrace(trace)
    threading.settrace(trace)


def list_calls(found: set[str]) -> None:
    """Collect the functions of the package that others of it call."""
    package = str(REPOSITORY / "dlprof_nvtx")

    def trace(frame: Any, event: str, _: object) -> None:
        code, back = frame.f_code, frame.f_back
        if event == "call" and code.co_filename.startswith(package) and back is not None:
            place = "inner" if back.f_code.co_filename.startswith(package) else "outer"
            found.add(f"{place} {Path(code.co_filename).stem}.{code.co_name}")

    sys.setprofile(trace)
    threading.setprofile(trace)


def run(request: dict[str, Any], folder: Path) -> int:
    """Run a program in this process; returns its exit code."""
    import programs
    import torch

    torch.manual_seed(0)
    code, ranges = 0, None
    found: set[str] = set()
    try:
        if request["phase"] != "bare":
            ranges = begin(request["phase"], folder)
        if request.get("fault"):
            os.environ["HARM_FAULT"] = str(folder / "fault")
            fail_in(request["fault"])
        if request.get("lists"):
            list_calls(found)
        found_programs = {**programs.PROGRAMS, **programs.COMPILED, **programs.OTHERS}
        found_programs[request["program"]]()
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        atexit._run_exitfuncs()
        sys.settrace(None)
        sys.setprofile(None)
    gc.collect()
    done = {"opened": ranges.opened, "open": ranges.open} if ranges else {}
    (folder / "ranges.json").write_text(json.dumps({**done, "calls": sorted(found)}))
    return code


def run_in_child(request: dict[str, Any], folder: Path) -> int:
    """Run a program in a forked process; returns its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 99
    try:
        for number, file in ((1, "out"), (2, "err")):
            os.dup2(os.open(folder / file, os.O_WRONLY | os.O_CREAT), number)
        os.close(0)
        os.chdir(folder)
        os.environ.update(request.get("environment", {}))
        code = run(request, folder)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def serve(request: dict[str, Any]) -> dict[str, Any]:
    """Run a program; returns what it did."""
    # The child runs exit handlers, which would remove a TemporaryDirectory.
    folder = Path(tempfile.mkdtemp(prefix="harm-"))
    try:
        code = run_in_child(request, folder)
        ranges = folder / "ranges.json"
        return {
            "code": code,
            "out": (folder / "out").read_text(errors="replace"),
            "err": (folder / "err").read_text(errors="replace"),
            "faulted": (folder / "fault").exists(),
            **(json.loads(ranges.read_text()) if ranges.exists() else {}),
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Serve requests until the input ends."""
    # Not where tests import this module: they would find the stand-in where nvtx is missing.
    sys.path[:0] = [str(REPOSITORY), str(HERE), str(HERE / "stand_in")]
    import programs
    import torch

    # A training loads it anyway, where it clears gradients: a second that each child would take.
    import torch._dynamo
    import torch._dynamo.utils

    torch.set_num_threads(1)
    names = [list(found) for found in (programs.PROGRAMS, programs.COMPILED)]
    print(json.dumps([torch.__version__, *names]), flush=True)
    for line in sys.stdin:
        print(json.dumps(serve(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
