"""``python -m benchmarks.ranks CAPTURE``: how the time of joining grows with ranks and workers.

The capture (of one or more ranks) is split by process and tiled to 1, 2, 4 ... 64 rank files on
machines of eight GPUs with clocks of their own. Each number of files is joined with 1 and with 2
workers, in processes of their own. CPU time tells more than wall time where others use the machine.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.rank_files import make_ranks, split

MIB = 1024.0


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ranks", description=__doc__)
    parser.add_argument("capture", type=Path, nargs="?", help="Nsight Systems SQLite export")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child:
        return _child(*options.child)
    with tempfile.TemporaryDirectory() as folder:
        _compare(options.capture, Path(folder), options.ranks, options.workers)
    return 0


def _compare(capture: Path, folder: Path, counts: list[int], workers: list[int]) -> None:
    sources = split(capture, folder)
    head = ("ranks", "workers", "wall s", "CPU s", "CPU s/rank", "peak MiB", "worker MiB", "MB")
    print("".join(f"{name:>12}" for name in head))
    for count in counts:
        here = folder / f"job{count}"
        here.mkdir()
        files = make_ranks(sources, count, here)
        for number in workers if count > 1 else [1]:
            print("".join(f"{value:>12}" for value in _measure(files, here, number)), flush=True)
        for path in files:
            path.unlink()


def _measure(files: list[Path], folder: Path, workers: int) -> tuple[object, ...]:
    database = folder / "joined.sqlite"
    command = [sys.executable, "-m", "benchmarks.ranks", "--child"]
    words = [str(folder), str(database), str(workers)]
    done = subprocess.run([*command, *words], check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    size = database.stat().st_size / 1e6
    database.unlink()
    return (
        len(files),
        workers,
        f"{found['wall']:.1f}",
        f"{found['cpu']:.1f}",
        f"{found['cpu'] / len(files):.2f}",
        f"{found['peak']:.0f}",
        f"{found['worker_peak']:.0f}",
        f"{size:.0f}",
    )


def _child(folder: str, database: str, workers: str) -> int:
    """One measured run; prints its result as JSON."""
    from aggregator.options import ImportOptions
    from aggregator.pipeline import import_profile
    from aggregator.progress import NullProgress
    from aggregator.rank_import import import_ranks

    files = sorted(Path(folder).glob("rank*.sqlite"))
    options = ImportOptions(files[0], Path(database))
    started = time.perf_counter()
    if len(files) == 1:
        import_profile(options, NullProgress())
    else:
        import_ranks(options, files, NullProgress(), int(workers))
    wall = time.perf_counter() - started
    own = resource.getrusage(resource.RUSAGE_SELF)
    below = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = {
        "wall": wall,
        "cpu": own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime,
        "peak": own.ru_maxrss / MIB,
        "worker_peak": below.ru_maxrss / MIB,
    }
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
