"""Where the time of an import or of a re-aggregation goes: phases, rows per second, memory.

python -m benchmarks.phases PROFILE            the import of an export
python -m benchmarks.phases --again DATABASE   one more aggregation of a database of ours
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from aggregator.progress import NullProgress
from benchmarks.work import work_of

KIB = 1024


@dataclass
class Phase:
    """What one phase took.

    Attributes:
        name: Its name.
        rows: Rows that it told of.
        seconds: Wall-clock time. Unit: s.
        cpu_s: CPU time of all threads. Unit: s.
        peak_mib: Largest resident size until its end. Unit: MiB.
    """

    name: str
    rows: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    peak_mib: float = 0.0


class Stopwatch(NullProgress):
    """Listens to the engine and measures its phases."""

    def __init__(self) -> None:
        self.phases: list[Phase] = []
        self._lock = threading.Lock()
        self._begin("start")

    def phase(self, name: str, total_rows: int | None = None) -> None:
        """End the phase before and begin another."""
        del total_rows
        self.end()
        self._begin(name)

    def advance(self, rows: int) -> None:
        """Count rows; several threads tell them."""
        with self._lock:
            self.phases[-1].rows += rows

    def _begin(self, name: str) -> None:
        self.phases.append(Phase(name))
        self._started = (time.perf_counter(), time.process_time())

    def end(self) -> None:
        """The last phase is over."""
        phase = self.phases[-1]
        phase.seconds = time.perf_counter() - self._started[0]
        phase.cpu_s = time.process_time() - self._started[1]
        phase.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB


def table(phases: list[Phase]) -> str:
    """The phases as text."""
    lines = [f"{'phase':<12}{'s':>8}{'CPU s':>8}{'rows':>12}{'rows/s':>12}{'peak MiB':>10}"]
    for phase in [*phases, _total(phases)]:
        # Phases of a few steps tell steps, not rows.
        rows = phase.rows if phase.rows >= MIN_ROWS else 0
        per_second = f"{rows / phase.seconds:,.0f}" if rows and phase.seconds else "-"
        lines.append(
            f"{phase.name:<12}{phase.seconds:>8.2f}{phase.cpu_s:>8.2f}"
            f"{rows or '-':>12}{per_second:>12}{phase.peak_mib:>10.0f}"
        )
    return "\n".join(lines)


MIN_ROWS = 100


def _total(phases: list[Phase]) -> Phase:
    return Phase(
        "all",
        0,
        sum(phase.seconds for phase in phases),
        sum(phase.cpu_s for phase in phases),
        max(phase.peak_mib for phase in phases),
    )


def main() -> int:
    """Measure one run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.phases", description=__doc__)
    parser.add_argument("file", type=Path, help="Nsight Systems SQLite export, or a database")
    parser.add_argument("--again", action="store_true", help="aggregate a copy of the database")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "dlprof_dldb.sqlite"
        if options.again:
            shutil.copyfile(options.file, database)
        name = "range" if options.again else "import"
        stopwatch = Stopwatch()
        work_of(name, options.file, database, stopwatch)()
        stopwatch.end()
    print(table(stopwatch.phases))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
