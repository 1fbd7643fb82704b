"""``python -m benchmarks [PROFILE ...]``: the engine beside the floor and beside nsys.

Runs in turn, several times, each in a process of its own: the floor (one ADBC connection that
reads the columns the engine needs, once), our import to a finished database, our re-aggregations
from it, the whole ``dlprof`` command, and ``nsys stats -r nvtx_kern_sum`` where Nsight Systems is
installed. With ``--tiles 1,3,10`` the same for the profile several times over. Prints medians,
ratios and peak memory; ``--results FILE`` keeps the tables with the machine's description.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measured import Measured, Runs, growth, machine, table
from benchmarks.tile import tile

OURS = ("floor", "import", "range", "key node")
KIB = 1024


@dataclass(frozen=True)
class Plan:
    """What is run how often.

    Attributes:
        runs: Runs of each, in turn.
        nsys: The ``nsys`` program; None: left out.
        nsys_tiles: Profiles of up to so many copies are given to nsys as well.
        folder: Where databases and tiled profiles are kept while it runs.
    """

    runs: int
    nsys: str | None
    nsys_tiles: int
    folder: Path


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark and print its tables."""
    options = _options(argv)
    if options.child:
        return _child(options.child, options.profiles)
    reports = []
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="dlprof-benchmark-") as folder:
        nsys = None if options.no_nsys else options.nsys or shutil.which("nsys")
        plan = Plan(options.runs, nsys, options.nsys_tiles, Path(folder))
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
runs in turn on one machine. *floor*: one ADBC connection reads the columns that
`benchmarks/floor.py` lists, once. *import*: from the export to a finished database. *range*, *key
node*: one more aggregation of that database, to be read from the database alone. *dlprof*: the
whole command with `--database`, the interpreter's start included; so is nsys's own start in
*nsys stats*. Peak memory is the largest resident size of the process. xN: the capture N times, one
after the other (`benchmarks/tile.py`). *x linear*: beside N times what the capture itself took in
the same round; the median of the rounds."""


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("profiles", nargs="+", type=Path, help="Nsight Systems SQLite exports")
    parser.add_argument("--runs", type=int, default=5, help="runs of each, in turn (default 5)")
    parser.add_argument(
        "--tiles", type=_numbers, default=(1,), help="copies of the profile, 1,3,10 (default 1)"
    )
    parser.add_argument("--nsys", help="the nsys program (default: the one on PATH)")
    parser.add_argument("--no-nsys", action="store_true", help="leave nsys stats out")
    parser.add_argument(
        "--nsys-tiles", type=int, default=1, help="most copies that nsys is given (default 1)"
    )
    parser.add_argument("--folder", type=Path, help="for temporary files (default: the system's)")
    parser.add_argument("--results", type=Path, help="Markdown file to write the tables to")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _compare(plan: Plan, profile: Path, tiles: Sequence[int]) -> list[str]:
    """Run everything on every number of copies in turn; returns a table for each.

    A machine that others use, or that grows warm, is slower from one minute to the next: only what
    ran in the same round is compared.
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
    """Everything once."""
    for name in OURS:
        yield name, _run_child(name, profile, database)
    command = [sys.executable, "-m", "profiler_cli.dlprof", f"--database={profile}"]
    yield "dlprof", _run([*command, f"--output_path={database.parent}", "--force=true"])
    if plan.nsys and times <= plan.nsys_tiles:
        yield "nsys stats", _run_nsys(plan, profile)


def _run_nsys(plan: Plan, profile: Path) -> Measured:
    """Run ``nsys stats`` from the beginning: it keeps a report that is there already."""
    assert plan.nsys is not None
    with tempfile.TemporaryDirectory(dir=plan.folder) as folder:
        command = [plan.nsys, "stats", "--force-overwrite=true", "-r", "nvtx_kern_sum"]
        command += ["-f", "csv", "-o", f"{folder}/report", str(profile)]
        done = _run(command)
        reports = [path for path in Path(folder).glob("*.csv") if _num_lines(path) > 1]
    if not reports:
        raise SystemExit(f"{' '.join(command)}: it wrote no rows")
    return done


def _num_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


def _run(command: list[str]) -> Measured:
    """Run a command with all its children."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=_ROOT
    )
    assert process.stderr is not None
    told = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: {told.decode(errors='replace')}")
    return Measured(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / KIB)


_ROOT = Path(__file__).resolve().parents[1]


def _run_child(name: str, profile: Path, database: Path) -> Measured:
    command = [sys.executable, "-m", "benchmarks", "--child", name, str(profile), str(database)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=_ROOT)
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def _child(name: str, paths: list[Path]) -> int:
    """One measured run; prints its result as JSON."""
    from benchmarks.work import work_of

    profile, database = paths
    work = work_of(name, profile, database)
    started, cpu = time.perf_counter(), time.process_time()
    work()
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    print(json.dumps({"seconds": seconds, "cpu_s": cpu, "peak_mib": _peak_mib()}))
    return 0


def _peak_mib() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB


if __name__ == "__main__":
    raise SystemExit(main())
