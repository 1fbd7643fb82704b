"""``python -m benchmarks.call_prices PROGRAM``: what CUPTI takes for each kind of record.

dlprof's own collector records different kinds in turns of a few steps, within one run of a program
of ``overhead_programs.py`` and in random order: differences of one process are not those between
runs, which are larger than what is measured. Prints and writes the time of a step by mode.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from aggregator.sources.collector.records import KERNEL, NOTE, read_records
from benchmarks.measured import REPOSITORY, standard_error
from profiler_cli.capture.native import find_compiler, find_cupti

MODES = {
    "nothing": 0,
    "kernels": 1,
    "kernels, copies, sets": 2,
    "also synchronization, events, overhead": 3,
    "all, as `--collector=cupti`": 4,
    "calls only": 5,
    "all, each recorded call switched on": 6,
    "all, calls of the driver only": 7,
    "kernels, copies, sets, calls": 8,
}
BLOCK, SKIPPED = 7, 2
"""Steps of a turn, and the first of them, which do not count."""
BEFORE = 40
"""Steps before the first record."""
WITHOUT_KERNELS = ("nothing", "calls only")
KINDS = ("wall", "thread", "process")


class Turns:
    """Ticks of a program: switches the mode and keeps the times of steps."""

    def __init__(self, library: Any, seconds: float, warm_up: int) -> None:
        self._library, self._warm_up = library, warm_up
        self._end_s = time.monotonic() + seconds
        self.rounds: list[dict[str, list[tuple[float, ...]]]] = []
        self.before: list[tuple[float, ...]] = []  # Steps before the first record.
        self.with_kernels = 0  # Steps whose kernels were recorded.
        self._mode = ""
        self._order: list[str] = []
        self._count = 0
        self._last: tuple[float, ...] = ()

    def tick(self, *_: object) -> None:
        """End a step."""
        import torch

        torch.cuda.synchronize()
        now = (time.perf_counter(), time.thread_time(), time.process_time())
        self._count += 1
        self.with_kernels += bool(self._mode) and self._mode not in WITHOUT_KERNELS
        times = tuple(1e3 * (b - a) for a, b in zip(self._last, now))  # noqa: B905 - none at first
        if self._count > (SKIPPED if self._mode else self._warm_up):
            (self.rounds[-1][self._mode] if self._mode else self.before).append(times)
        if self._count >= (BLOCK if self._mode else self._warm_up + BEFORE):
            self._next()
        self._last = (time.perf_counter(), time.thread_time(), time.process_time())

    def _next(self) -> None:
        if not self._mode:
            self._library.dlprof_collector_begin()
        if not self._order:
            if time.monotonic() > self._end_s:
                raise KeyboardInterrupt
            self._order = random.sample(list(MODES), len(MODES))
            self.rounds.append({mode: [] for mode in MODES})
        self._mode, self._count = self._order.pop(), 0
        self._library.call_prices_mode(MODES[self._mode])

    def table(self, kernels: float) -> Iterator[str]:
        """Median step by mode, and what it takes more than nothing in the same round."""
        head = ["recorded", "step, ms", *(f"more {kind}, ms" for kind in KINDS), "us a kernel"]
        yield f"| {' | '.join(head)} |"
        yield f"|{'---|' * len(head)}"
        yield f"| nothing, before the first record | {_median(self.before, 0):.3f} | | | | |"
        complete = [one for one in self.rounds if all(one.values())]
        for mode in MODES if complete else ():
            cells = [f"{statistics.median(_median(one[mode], 0) for one in complete):.3f}"]
            per_kernel = []
            for at in range(len(KINDS)):
                more = [_median(one[mode], at) - _median(one["nothing"], at) for one in complete]
                middle, error = statistics.median(more), standard_error(more)
                cells.append(f"{middle:+.3f} ({error:.3f})")
                per_kernel.append(f"{1e3 * middle / max(kernels, 1):.2f}")
            yield f"| {mode} | {' | '.join(cells)} | {', '.join(per_kernel)} |"


def _median(steps: list[tuple[float, ...]], at: int) -> float:
    return statistics.median(times[at] for times in steps)


def build(folder: Path) -> Path:
    """Compile the collector with the switch in it."""
    source = REPOSITORY / "dlprof_nvtx" / "native"
    files = [path for path in source.glob("*.c") if path.name != "cupti.c"]
    target = folder / "call_prices.so"
    words = [find_compiler() or "cc", "-std=gnu11", "-O2", "-fPIC", "-shared", "-pthread"]
    words += ["-fvisibility=hidden", f"-I{source}", str(REPOSITORY / "benchmarks/call_prices.c")]
    subprocess.run([*words, *map(str, files), "-o", str(target), "-ldl"], check=True)
    return target


def _read(folder: Path) -> tuple[int, list[str]]:
    """Number of kernels that were recorded, and what the collector noted."""
    kernels, notes = 0, []
    for path in folder.glob("*.records"):
        found = read_records(path)
        kernels += len(found.columns[KERNEL])
        notes += found.texts.get(NOTE, [])
    return kernels, notes


def main() -> int:
    """Measure a program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "build" / "overhead")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = build(folder)
        records = folder / "records"
        records.mkdir()
        cupti = find_cupti(sys.executable)
        environment = {"DLPROF_COLLECT": str(records), "CUDA_INJECTION64_PATH": str(library)}
        os.environ.update(environment | ({"DLPROF_COLLECT_CUPTI": str(cupti)} if cupti else {}))
        loaded = ctypes.CDLL(str(library))
        import torch

        from benchmarks import overhead_programs as programs

        turns = Turns(loaded, options.seconds, warm_up=12)
        programs.Clock.tick = turns.tick  # type: ignore[assignment, method-assign]
        torch.manual_seed(1)
        with suppress(KeyboardInterrupt):
            programs.PROGRAMS[options.program](1_000_000)
        loaded.call_prices_mode(0)
        torch.cuda.synchronize()
        time.sleep(1.5)
        kernels, notes = _read(records)
        per_step = kernels / max(turns.with_kernels, 1)
        text = "\n".join(turns.table(per_step))
        print(f"{options.program}: {per_step:.0f} kernels a step\n{text}\n{notes}", flush=True)
        found = {
            "rounds": turns.rounds,
            "before": turns.before,
            "kernels": per_step,
            "notes": notes,
        }
        (options.folder / f"prices_{options.program}.json").write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
