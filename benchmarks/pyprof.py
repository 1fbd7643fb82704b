"""``python -m benchmarks.pyprof EXPORT``: PyProf's two steps on a profile of 60,000 kernels.

Tiles an Nsight Systems export until it holds so many, runs ``dlprof pyprof parse`` and
``dlprof pyprof prof --csv -c all`` on it, and prints the CPU time and peak memory of each, the
interpreter's start included. The goal is 2 s each.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.measured import Measured, machine
from benchmarks.tile import tile

GOAL_S = 2.0


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table; 1: the goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pyprof", description=__doc__)
    parser.add_argument("export", type=Path)
    parser.add_argument("--kernels", type=int, default=60_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="pyprof-") as name:
        tiled, records, rows = (Path(name) / part for part in ("net.sqlite", "net.dict", "net.csv"))
        copies = -(-options.kernels // _kernels(options.export))
        tile(options.export, copies, tiled)
        dlprof = str(Path(sys.executable).with_name("dlprof"))
        parse = [dlprof, "pyprof", "parse", str(tiled)]
        prof = [dlprof, "pyprof", "prof", "--csv", "-c", "all", str(records)]
        print(machine(options.runs))
        print(f"\n{options.export.name} x{copies}: {_kernels(tiled):,} kernels\n")
        print("| step | CPU s | wall s | peak MiB | written MB |\n|---|---:|---:|---:|---:|")
        is_met = True
        for step, command, target in (("parse", parse, records), ("prof", prof, rows)):
            runs = [_measured(command, target) for _ in range(options.runs)]
            best = min(runs, key=lambda run: run.cpu_s)
            is_met &= best.cpu_s <= GOAL_S
            print(
                f"| {step} | {best.cpu_s:.2f} | {best.seconds:.2f} | {best.peak_mib:.0f}"
                f" | {target.stat().st_size / 1e6:.0f} |",
                flush=True,
            )
    return 0 if is_met else 1


def _kernels(export: Path) -> int:
    with closing(sqlite3.connect(export)) as connection:
        query = "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL"
        return int(connection.execute(query).fetchone()[0])


def _measured(command: list[str], target: Path) -> Measured:
    start = time.perf_counter()
    with target.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if status:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Measured(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


if __name__ == "__main__":
    sys.exit(main())
