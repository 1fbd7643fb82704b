"""``python -m benchmarks.command -- COMMAND ...``: CPU time, wall time, memory of a command.

Runs it several times with all its children and prints the medians; with ``--limit-cpu-s`` the exit
status is 1 if the median CPU time is above the limit. Used for traces, rank files and PyProf's
steps, where nothing runs beside the command.
"""

from __future__ import annotations

import argparse
import statistics
import sys

from benchmarks.measured import machine, run_command


def main() -> int:
    """Measure one command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.command", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--limit-cpu-s", type=float, default=float("inf"))
    parser.add_argument("command", nargs="+", help="the command, after --")
    options = parser.parse_args()
    runs = [run_command(options.command) for _ in range(options.runs)]
    cpu_s = statistics.median(run.cpu_s for run in runs)
    print(machine(options.runs))
    print(
        f"* CPU {cpu_s:.2f} s, wall {statistics.median(run.seconds for run in runs):.2f} s,"
        f" peak {max(run.peak_mib for run in runs):.0f} MiB: {' '.join(options.command)}"
    )
    return 0 if cpu_s <= options.limit_cpu_s else 1


if __name__ == "__main__":
    sys.exit(main())
