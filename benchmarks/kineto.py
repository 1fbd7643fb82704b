"""``python -m benchmarks.kineto TRACE``: traces of torch.profiler from file to finished database.

Runs the whole ``dlprof`` command on a trace, on itself once more gzipped, and on ``--tiles`` copies
of it one after another, and prints CPU time and peak memory of each. ``--hta PYTHON`` runs Holistic
Trace Analysis (in the environment of that interpreter) beside it: it only loads the trace there.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measured import Measured, machine

_HTA = (
    "import sys; from hta.trace_analysis import TraceAnalysis as T; T(trace_files={0: sys.argv[1]})"
)
_COUNTERS = {"correlation": 1_000_000, "Sequence number": 1_000_000, "External id": 10_000_000}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kineto", description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--tiles", type=int, default=28, help="copies in the large trace")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--hta", default="", help="interpreter that has HolisticTraceAnalysis")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="kineto-") as name:
        folder = Path(name)
        packed = folder / "packed.json.gz"
        with options.trace.open("rb") as source, gzip.open(packed, "wb", compresslevel=6) as target:
            shutil.copyfileobj(source, target)
        tiled = folder / "tiled.json"
        tile(options.trace, options.tiles, tiled)
        print(machine(options.runs))
        print("\n| trace | what | MB | CPU s | wall s | peak MiB |\n|---|---|---:|---:|---:|---:|")
        traces = {"plain": options.trace, "gzip": packed, f"{options.tiles} tiles": tiled}
        for title, trace in traces.items():
            for what, command in _commands(trace, folder / "out", options.hta).items():
                runs = [_measured(command) for _ in range(options.runs)]
                best = min(runs, key=lambda run: run.cpu_s)
                print(
                    f"| {title} | {what} | {trace.stat().st_size / 1e6:.0f} | {best.cpu_s:.2f}"
                    f" | {best.seconds:.2f} | {best.peak_mib:.0f} |",
                    flush=True,
                )
    return 0


def _commands(trace: Path, output: Path, hta: str) -> dict[str, list[str]]:
    dlprof = str(Path(sys.executable).with_name("dlprof"))
    ours = [dlprof, f"--database={trace}", f"--output_path={output}", "--force=true"]
    commands = {"dlprof": ours}
    if hta:
        commands["HTA, loading only"] = [hta, "-c", _HTA, str(trace)]
    return commands


def _measured(command: list[str]) -> Measured:
    """Time and memory of a command and all that it starts."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = process.stderr.read() if process.stderr else b""
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        raise subprocess.CalledProcessError(status, command, stderr=errors)
    return Measured(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def tile(source: Path, copies: int, target: Path) -> None:
    """A trace several times over, one copy after another on the time line.

    Args:
        source: A trace.
        copies: How many.
        target: The trace to write.
    """
    trace: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
    events = trace.pop("traceEvents")
    times = [event["ts"] for event in events if "ts" in event]
    ends = [event["ts"] + event.get("dur", 0) for event in events if "ts" in event]
    span_us = round(max(ends) - min(times)) + 1000
    with target.open("w", encoding="utf-8") as file:
        file.write(json.dumps({"schemaVersion": 1} | trace)[:-1] + ', "traceEvents": [\n')
        for copy in range(copies):
            if copy:
                file.write(",\n")
            moved = (_moved(event, copy, span_us) for event in events)
            file.write(",\n".join(map(json.dumps, moved)))
        file.write("\n]}\n")


def _moved(event: dict[str, Any], copy: int, span_us: int) -> dict[str, Any]:
    """An event later, with counters that go on."""
    result = dict(event)
    if "ts" in result:
        result["ts"] = round(result["ts"] + copy * span_us, 3)
    arguments = dict(result.get("args") or {})
    for name, step in _COUNTERS.items():
        if isinstance(arguments.get(name), int):
            arguments[name] += copy * step
    if arguments:
        result["args"] = arguments
    return result


if __name__ == "__main__":
    sys.exit(main())
