"""``python -m benchmarks [PROFILE ...]``: import and re-aggregation beside the floor and nsys.

Runs in turn, several times, in processes of their own: the floor (one ADBC connection that reads
the columns the engine needs, once), our import to a finished database, our re-aggregation from the
database, and ``nsys stats -r nvtx_kern_sum`` where Nsight Systems is installed. Prints medians,
ratios and peak memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

MIB = 1024.0


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("profiles", nargs="+", type=Path, help="Nsight Systems SQLite exports")
    parser.add_argument("--runs", type=int, default=5, help="runs of each, in turn (default 5)")
    parser.add_argument("--no-nsys", action="store_true", help="leave nsys stats out")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child:
        return _child(options.child, options.profiles)
    for profile in options.profiles:
        _compare(profile, options.runs, with_nsys=not options.no_nsys)
    return 0


def _compare(profile: Path, runs: int, *, with_nsys: bool) -> None:
    nsys = shutil.which("nsys") if with_nsys else None
    times: dict[str, list[float]] = {}
    memory: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "dlprof_dldb.sqlite"
        for _ in range(runs):
            for name in ("floor", "import", "reaggregate"):
                seconds, mib = _run_child(name, profile, database)
                times.setdefault(name, []).append(seconds)
                memory[name] = max(memory.get(name, 0.0), mib)
            if nsys:
                times.setdefault("nsys stats", []).append(_run_nsys(nsys, profile, folder))
        size = database.stat().st_size
    _print(profile, times, memory, size)


def _run_child(name: str, profile: Path, database: Path) -> tuple[float, float]:
    command = [sys.executable, "-m", "benchmarks", "--child", name, str(profile), str(database)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result = json.loads(done.stdout.splitlines()[-1])
    return float(result["seconds"]), float(result["mib"])


def _run_nsys(nsys: str, profile: Path, folder: str) -> float:
    output = Path(folder) / "nsys"
    command = [nsys, "stats", "-r", "nvtx_kern_sum", "-f", "csv", "-o", str(output), str(profile)]
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def _print(
    profile: Path, times: dict[str, list[float]], memory: dict[str, float], database_bytes: int
) -> None:
    floor = statistics.median(times["floor"])
    export_mb = profile.stat().st_size / 1e6
    print(f"{profile.name}: {export_mb:.0f} MB, database {database_bytes / 1e6:.0f} MB")
    print(f"  {'what':<12} {'median s':>9} {'x floor':>8} {'peak MiB':>9}")
    for name, seconds in times.items():
        median = statistics.median(seconds)
        peak = f"{memory[name]:.0f}" if name in memory else "-"
        print(f"  {name:<12} {median:>9.2f} {median / floor:>8.2f} {peak:>9}")


def _child(name: str, paths: list[Path]) -> int:
    """One measured run; prints its result as JSON."""
    work = _work(name, *paths)
    started = time.perf_counter()
    work()
    seconds = time.perf_counter() - started
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": seconds, "mib": peak_kib / MIB}))
    return 0


def _work(name: str, profile: Path, database: Path) -> Callable[[], None]:
    """The work of a run, with everything imported that it needs."""
    # Imported here so that each child loads only what it measures.
    from aggregator import pipeline  # noqa: PLC0415
    from aggregator.options import AggregationRequest, ImportOptions  # noqa: PLC0415
    from aggregator.progress import NullProgress  # noqa: PLC0415
    from benchmarks.floor import read_once  # noqa: PLC0415

    if name == "floor":
        return lambda: _ignore(read_once(profile))
    if name == "import":
        options = ImportOptions(profile, database, overwrite=True)
        return lambda: _ignore(pipeline.import_profile(options, NullProgress()))
    request = AggregationRequest(iter_start=_first_new_iteration(database))
    return lambda: _ignore(pipeline.aggregate(database, request, NullProgress()))


def _first_new_iteration(database: Path) -> int:
    """A range that was not aggregated before, so that the work is really done."""
    import sqlite3  # noqa: PLC0415
    from contextlib import closing  # noqa: PLC0415

    with closing(sqlite3.connect(database)) as connection:
        return int(connection.execute("SELECT count(*) FROM aggregations").fetchone()[0])


def _ignore(_: object) -> None:
    return None


if __name__ == "__main__":
    raise SystemExit(main())
