"""Run commands, measure them, and show the figures as Markdown tables."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path


@dataclass(frozen=True)
class Measured:
    """One run."""

    seconds: float  # Wall-clock time. Unit: s.
    cpu_s: float  # Time of all threads on a CPU. Unit: s.
    peak_mib: float  # Largest resident size. Unit: MiB.


#: Measurements by what was run.
Runs = dict[str, list[Measured]]
REPOSITORY = Path(__file__).resolve().parents[1]
KIB = 1024


def run_command(command: Sequence[str]) -> Measured:
    """Run a command with all its children; its output is discarded.

    Raises:
        SystemExit: The command failed.
    """
    started = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=REPOSITORY
    )
    assert process.stderr is not None
    messages = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: {messages.decode(errors='replace')}")
    return Measured(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / KIB)


def standard_error(values: Sequence[float]) -> float:
    """Standard error of the median; a few values that are far from the others do not change it."""
    if len(values) < 2:
        return float("nan")
    if len(values) < _FEW:
        deviation = statistics.stdev(values)
    else:
        low, _, high = statistics.quantiles(values, n=4)
        deviation = (high - low) / 1.349  # The quartiles of a normal distribution.
    return 1.2533 * deviation / len(values) ** 0.5


_FEW = 6


def with_error(more_pct: Sequence[float]) -> str:
    """The median of percentages and its standard error, in words; empty: there are none."""
    if not more_pct:
        return ""
    return f"{statistics.median(more_pct):+.1f} ± {standard_error(more_pct):.1f} %"


def growth(single: Runs, measured: Runs, times: int) -> dict[str, float]:
    """Return the time of ``times`` copies divided by ``times`` the time of one, in the same round.

    Returns:
        The median over the rounds, for everything that ran on both.
    """
    return {
        name: statistics.median(
            many.seconds / times / own.seconds for many, own in zip(runs, single[name], strict=True)
        )
        for name, runs in measured.items()
        if name in single
    }


def table(title: str, sizes: tuple[int, int], measured: Runs, linear: dict[str, float]) -> str:
    """Return the medians as a Markdown table.

    Args:
        title: Heading.
        sizes: Of the export and of the database. Unit: bytes.
        measured: All runs.
        linear: Growth of each; empty: the column is left out.
    """
    medians = {name: _medians(runs) for name, runs in measured.items()}
    floor = medians["floor"]
    export_bytes, database_bytes = sizes
    more = (" x linear |", "---:|") if linear else ("", "")
    lines = [
        f"## {title}",
        "",
        (
            f"Export {export_bytes / 1e6:.0f} MB, database {database_bytes / 1e6:.0f} MB"
            f" ({database_bytes / export_bytes:.2f} of the export)."
        ),
        "",
        f"| what | median s | x floor | CPU s | x floor's CPU | peak MiB |{more[0]}",
        f"|---|---:|---:|---:|---:|---:|{more[1]}",
    ]
    for name, run in medians.items():
        cells = [
            f"{run.seconds:.2f}",
            f"{run.seconds / floor.seconds:.2f}",
            f"{run.cpu_s:.2f}",
            f"{run.cpu_s / floor.cpu_s:.2f}",
            f"{run.peak_mib:.0f}",
        ]
        if linear:
            cells.append(f"{linear[name]:.2f}" if name in linear else "")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    if "nsys stats" in medians:
        ratio = medians["nsys stats"].seconds / medians["dlprof"].seconds
        lines += ["", f"nsys stats takes {ratio:.1f} times as long as the whole dlprof command."]
    return "\n".join(lines)


def _medians(runs: Sequence[Measured]) -> Measured:
    return Measured(
        statistics.median(run.seconds for run in runs),
        statistics.median(run.cpu_s for run in runs),
        max(run.peak_mib for run in runs),
    )


def machine(runs: int) -> str:
    """Return the machine, versions and load of a measurement, as a Markdown list."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "pyarrow"))
    load = os.getloadavg()[0]
    system = f"{platform.system()} {platform.release().split('-')[0]}"
    return (
        f"* Measured {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, medians of {runs}; load average at the"
        f" end {load:.1f} (if it is above 1, compare CPU times)\n"
        f"* {_cpu_model()}, {os.cpu_count()} cores, {_memory_gib():.0f} GiB, {system}\n"
        f"* Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {packages}"
    )


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def write_section(path: Path, title: str, runs: int, lines: Iterable[str]) -> None:
    """Write figures under their heading in a file; figures already there are replaced."""
    heading = f"## {title}\n"
    section = "\n".join((heading, machine(runs), "", *lines, ""))
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    before, found, after = old.partition(heading)
    if not found:
        before = f"{old.rstrip()}\n\n" if old.strip() else ""
    rest = after[after.index("\n## ") :] if "\n## " in after else ""
    path.write_text(f"{before}{section}{rest}", encoding="utf-8")
