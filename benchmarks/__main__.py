"""``python -m benchmarks [PROFILE ...]``: time and memory of the engine, relative to a floor.

Runs in turn, several times, each in its own process: the floor (one ADBC connection reads the
columns that the engine needs, once), an import to a finished database, re-aggregations of that
database, the whole ``dlprof`` command, and ``nsys stats -r nvtx_kern_sum`` if Nsight Systems is
installed. ``--tiles 1,3,10`` repeats this with longer profiles. Prints medians, ratios and peak
memory; ``--results FILE`` writes the tables with a description of the machine.
"""

from __future__ import annotations

import argparse
import compileall
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measured import KIB, REPOSITORY, Measured, Runs, growth, machine, run_command, table
from benchmarks.tile import tile

OURS = ("floor", "import", "range", "key node")


@dataclass(frozen=True)
class Plan:
    """What to run, and how often."""

    runs: int  # Runs of each, in turn.
    nsys: str | None  # The ``nsys`` program; None: left out.
    folder: Path  # Where databases and tiled profiles are kept while it runs.


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark and print its tables."""
    options = _options(argv)
    if options.child:
        return _child(options.child, options.profiles)
    for package in ("aggregator", "profiler_cli"):  # as in an installed package
        compileall.compile_dir(REPOSITORY / package, quiet=1)
    reports = []
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="dlprof-benchmark-") as folder:
        nsys = None if options.no_nsys else options.nsys or shutil.which("nsys")
        plan = Plan(options.runs, nsys, Path(folder))
        for profile in options.profiles:
            tables = _compare(plan, profile, options.tiles)
            print("\n\n".join(tables), flush=True)
            reports += tables
    if options.results:
        body = "\n\n".join([_HEAD, machine(options.runs), *reports])
        options.results.write_text(f"{body}\n", encoding="utf-8")
    return 0


_HEAD = """# How fast the engine is

Written by `python -m benchmarks PROFILE --tiles 1,3,10 --results benchmarks/RESULTS.md`: medians of
runs in turn on one machine. *floor*: one ADBC connection reads the columns listed in
`benchmarks/work.py`, once. *import*: from the export to a finished database. *range*, *key node*:
another aggregation of that database. *dlprof*: the whole command with `--database`, including the
start of the interpreter; *nsys stats* includes the start of nsys. Peak memory is the largest
resident set size of the process. xN: the capture repeated N times (`benchmarks/tile.py`).
*x linear*: time divided by N times that of the single capture in the same round; median of the
rounds."""


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("profiles", nargs="+", type=Path, help="Nsight Systems SQLite exports")
    parser.add_argument("--runs", type=int, default=5, help="runs of each, in turn (default 5)")
    parser.add_argument(
        "--tiles", type=_numbers, default=(1,), help="copies of the profile, 1,3,10 (default 1)"
    )
    parser.add_argument("--nsys", help="the nsys program (default: the one on PATH)")
    parser.add_argument("--no-nsys", action="store_true", help="leave nsys stats out")
    parser.add_argument("--folder", type=Path, help="for temporary files (default: the system's)")
    parser.add_argument("--results", type=Path, help="Markdown file to write the tables to")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _compare(plan: Plan, profile: Path, tiles: Sequence[int]) -> list[str]:
    """Run everything on every number of copies in turn; returns a table for each.

    The speed of a machine varies from minute to minute, so only runs of the same round are
    compared.
    """
    sources = {times: _tiled(plan, profile, times) for times in tiles}
    databases = {times: plan.folder / f"x{times}" / "dlprof_dldb.sqlite" for times in tiles}
    measured: dict[int, Runs] = {times: {} for times in tiles}
    for database in databases.values():
        database.parent.mkdir()
    for _ in range(plan.runs):
        for times in tiles:
            for name, run in _round(plan, sources[times], databases[times], times):
                measured[times].setdefault(name, []).append(run)
    tables = []
    for times in tiles:
        sizes = (sources[times].stat().st_size, databases[times].stat().st_size)
        title = profile.stem if times == 1 else f"{profile.stem} x{times}"
        single = measured.get(1, {}) if times > 1 else {}
        tables.append(table(title, sizes, measured[times], growth(single, measured[times], times)))
        shutil.rmtree(databases[times].parent)
        if times > 1:
            sources[times].unlink()
    return tables


def _tiled(plan: Plan, profile: Path, times: int) -> Path:
    if times == 1:
        return profile
    big = plan.folder / f"x{times}.sqlite"
    tile(profile, times, big)
    return big


def _round(plan: Plan, profile: Path, database: Path, times: int) -> Iterator[tuple[str, Measured]]:
    """Run everything once."""
    for name in OURS:
        yield name, _run_child(name, profile, database)
    command = [sys.executable, "-m", "profiler_cli.dlprof", f"--database={profile}"]
    yield "dlprof", run_command([*command, f"--output_path={database.parent}", "--force=true"])
    if plan.nsys and times == 1:
        yield "nsys stats", _run_nsys(plan, profile)


def _run_nsys(plan: Plan, profile: Path) -> Measured:
    """Run ``nsys stats`` into an empty folder: it reuses a report that exists."""
    assert plan.nsys is not None
    with tempfile.TemporaryDirectory(dir=plan.folder) as folder:
        command = [plan.nsys, "stats", "--force-overwrite=true", "-r", "nvtx_kern_sum"]
        command += ["-f", "csv", "-o", f"{folder}/report", str(profile)]
        done = run_command(command)
        reports = [path.read_bytes() for path in Path(folder).glob("*.csv")]
    if all(report.count(b"\n") <= 1 for report in reports):
        raise SystemExit(f"{' '.join(command)}: it wrote no rows")
    return done


def _run_child(name: str, profile: Path, database: Path) -> Measured:
    command = [sys.executable, "-m", "benchmarks", "--child", name, str(profile), str(database)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=REPOSITORY)
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def _child(name: str, paths: list[Path]) -> int:
    """Return one measured run; prints its result as JSON."""
    from benchmarks.work import work_of

    profile, database = paths
    work = work_of(name, profile, database)
    started, cpu = time.perf_counter(), time.process_time()
    work()
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB
    print(json.dumps({"seconds": seconds, "cpu_s": cpu, "peak_mib": peak_mib}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
