"""What runs took, and how it is shown."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path


@dataclass(frozen=True)
class Measured:
    """One run.

    Attributes:
        seconds: Wall-clock time. Unit: s.
        cpu_s: Time of all threads on a CPU. Unit: s.
        peak_mib: Largest resident size. Unit: MiB.
    """

    seconds: float
    cpu_s: float
    peak_mib: float


#: What was run, and each time it was.
Runs = dict[str, list[Measured]]


def growth(single: Runs, measured: Runs, times: int) -> dict[str, float]:
    """How the time of ``times`` copies compares with ``times`` that of one, in the same round.

    Returns:
        The median over the rounds, for what was run on both.
    """
    return {
        name: statistics.median(
            many.seconds / times / one.seconds for many, one in zip(runs, single[name], strict=True)
        )
        for name, runs in measured.items()
        if name in single
    }


def table(title: str, sizes: tuple[int, int], measured: Runs, linear: dict[str, float]) -> str:
    """Medians as a Markdown table.

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
    """What the numbers were measured on, and with."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "pyarrow"))
    load = os.getloadavg()[0]
    return "\n".join(
        (
            (
                f"* Measured {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, medians of {runs}; load"
                f" average at the end {load:.1f} (other programs at work: compare CPU times)"
            ),
            (
                f"* {_cpu_model()}, {os.cpu_count()} cores, {_memory_gib():.0f} GiB,"
                f" {platform.system()} {platform.release().split('-')[0]}"
            ),
            f"* Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {packages}",
        )
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
    """Put figures under their heading in a file, in place of those that stand there."""
    heading = f"## {title}\n"
    section = "\n".join((heading, machine(runs), "", *lines, ""))
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    before, found, after = old.partition(heading)
    if not found:
        before = f"{old.rstrip()}\n\n" if old.strip() else ""
    rest = after[after.index("\n## ") :] if "\n## " in after else ""
    path.write_text(f"{before}{section}{rest}", encoding="utf-8")
