"""``python -m benchmarks.call_prices``: what CUPTI takes for each kind of record.

Each process of a program of ``overhead_programs.py`` runs some steps without CUPTI, then asks one
thing more of it every few steps, as dlprof's own collector does at once. A stage is compared with
the steps before the first one of the same process, some seconds earlier: runs differ by more than
what is measured. Processes follow each other until the time is over; the table has medians of the
processes, with standard errors. ``control`` asks nothing: how much the program changes by itself.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from aggregator.sources.collector.records import API, KERNEL, NOTE, read_records
from benchmarks.measured import REPOSITORY, standard_error, with_error
from profiler_cli.capture.native import find_compiler, find_cupti

WORK = ("kernels", "copies and sets", "synchronization, events, overhead")
END = ("nothing again", "detached")
SEQUENCES: dict[str, tuple[str, ...]] = {
    "collector": ("subscribed", "graph nodes watched", "prepared", *WORK, "calls", *END),
    "without a subscriber": ("prepared", *WORK, "calls", *END),
    "driver": ("subscribed", "prepared", *WORK[:2], "driver calls", WORK[2], "nothing again"),
    "calls first": ("prepared", "calls", "nothing again", "kernels", "detached"),
    "CUPTI's clock": ("prepared, CUPTI's clock", *WORK, "calls", *END),
    "control": ("unchanged", "unchanged too", "unchanged at last"),
}
STEPS = {"generate": 64, "gpt_eager": 30, "moe": 15, "resnet50_amp": 20}
"""Steps of a stage by program."""
WARM_UP, SKIPPED = 12, 4
CLOCKS = ("wall", "main thread", "all threads")
LIMIT_S = 60
Stages = dict[str, list[float]]
"""Median step of each stage by each clock. Unit: ms."""


class Ticks:
    """Ends steps of a program: asks for the next stage and keeps the times."""

    def __init__(self, library: Any, stages: tuple[str, ...], steps: int) -> None:
        self._library, self._left, self._steps = library, list(stages), steps
        self._stage = BEFORE
        self._times: list[tuple[float, ...]] = []
        self._count = 0
        self._last: tuple[float, ...] = ()
        self.found: Stages = {}

    def tick(self, *_: object) -> None:
        """End a step."""
        import torch

        torch.cuda.synchronize()
        now = (time.perf_counter(), time.thread_time(), time.process_time())
        self._count += 1
        is_first = self._stage == BEFORE
        if self._count > (WARM_UP if is_first else SKIPPED):
            self._times.append(tuple(1e3 * (b - a) for a, b in zip(self._last, now, strict=True)))
        if len(self._times) >= (2 if is_first else 1) * self._steps:
            self._next()
        self._last = (time.perf_counter(), time.thread_time(), time.process_time())

    def _next(self) -> None:
        columns = zip(*self._times, strict=True)
        self.found[self._stage] = [statistics.median(column) for column in columns]
        if not self._left:
            raise KeyboardInterrupt
        self._stage = self._left.pop(0)
        self._times, self._count = [], 0
        self._library.call_prices_stage(self._stage.encode())


BEFORE = "before"


def build(folder: Path) -> Path:
    """Return the compile the collector with the stages in it."""
    source = REPOSITORY / "dlprof_nvtx" / "native"
    files = [path for path in source.glob("*.c") if path.name != "cupti.c"]
    target = folder / "call_prices.so"
    words = [find_compiler() or "cc", "-std=gnu11", "-O2", "-fPIC", "-shared", "-pthread"]
    words += ["-fvisibility=hidden", f"-I{source}", str(REPOSITORY / "benchmarks/call_prices.c")]
    subprocess.run([*words, *map(str, files), "-o", str(target), "-ldl"], check=True)
    return target


def run_program(program: str, sequence: str, library: Path, result: Path) -> None:
    """Run a program through the stages of a sequence, in this process; writes the times."""
    signal.alarm(LIMIT_S)
    loaded = ctypes.CDLL(str(library))
    import torch

    from benchmarks import overhead_programs as programs

    ticks = Ticks(loaded, SEQUENCES[sequence], STEPS.get(program, 20))
    programs.Clock.tick = ticks.tick  # type: ignore[assignment, method-assign]
    torch.manual_seed(1)
    if sequence != "control":
        loaded.call_prices_begin()
    with suppress(KeyboardInterrupt):
        programs.PROGRAMS[program](1_000_000)
    result.write_text(json.dumps(ticks.found))
    if "detached" not in ticks.found and sequence != "control":
        loaded.call_prices_stage(b"written")


def load_libraries() -> None:
    """Import what the programs need, but do not use CUDA: each process is a fork of this one."""
    import torch
    from transformers import LlamaForCausalLM

    assert LlamaForCausalLM is not None
    assert not torch.cuda.is_initialized()


class Prices:
    """Runs processes in random order and keeps what they print."""

    def __init__(self, folder: Path, programs: list[str], end_s: float) -> None:
        self.folder, self.programs, self.end_s = folder, programs, end_s
        self.found: dict[str, dict[str, list[Stages]]] = {}
        self.notes: dict[str, int] = {}
        self.library = build(folder)

    def run(self) -> None:
        """Run all sequences in turns until the time is over."""
        longest_s = 20.0
        while True:
            for program in self.programs:
                for sequence in random.sample(list(SEQUENCES), len(SEQUENCES)):
                    started = time.monotonic()
                    if self.end_s - started < longest_s:
                        return
                    self._one(program, sequence)
                    longest_s = max(longest_s, time.monotonic() - started + 3)

    def _one(self, program: str, sequence: str) -> None:
        with tempfile.TemporaryDirectory() as name:
            result = Path(name) / "times.json"
            child = os.fork()
            if child == 0:
                self._be_child(program, sequence, Path(name), result)
            os.waitpid(child, 0)
            recorded, notes = _read(Path(name))
            if not result.is_file():
                print(f"{program}, {sequence}: failed {notes}", flush=True)
                return
            stages = json.loads(result.read_text())
        print(f"{program}, {sequence}: {stages} {recorded} {notes}", flush=True)
        self.found.setdefault(program, {}).setdefault(sequence, []).append(stages)
        (self.folder / "prices.json").write_text(json.dumps(self.found))
        (self.folder / "prices.md").write_text("\n".join(tables(self.found)) + "\n")

    def _be_child(self, program: str, sequence: str, records: Path, result: Path) -> NoReturn:
        """Run a program in a new process; it ends at once: CUPTI's end is not what is measured."""
        try:
            cupti = find_cupti(sys.executable)
            os.environ["DLPROF_COLLECT"] = str(records)
            os.environ["CUDA_INJECTION64_PATH"] = str(self.library)
            os.environ["DLPROF_COLLECT_CUPTI"] = str(cupti or "")
            run_program(program, sequence, self.library, result)
        except BaseException:  # noqa: BLE001 - the process must not go on as its parent
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(0)


def tables(found: dict[str, dict[str, list[Stages]]]) -> Iterator[str]:
    """How much longer the steps of a stage are than those before the first one, in percent."""
    yield f"| program | sequence | then | processes | {' | '.join(CLOCKS)} |"
    yield f"|{'---|' * (4 + len(CLOCKS))}"
    for program, sequences in found.items():
        for sequence, stages in SEQUENCES.items():
            runs = sequences.get(sequence, [])
            own = [run[BEFORE][0] for run in runs]
            if own:
                step = f"{statistics.median(own):.2f} ± {standard_error(own):.2f} ms"
                yield f"| `{program}` | {sequence} | {BEFORE} | {len(own)} | {step} | | |"
            for stage in stages:
                both = [(run[stage], run[BEFORE]) for run in runs if stage in run]
                if both:
                    cells = [
                        with_error([100 * (run[at] / before[at] - 1) for run, before in both])
                        for at in range(len(CLOCKS))
                    ]
                    cells = [f"`{program}`", sequence, stage, str(len(both)), *cells]
                    yield f"| {' | '.join(cells)} |"


def _read(folder: Path) -> tuple[str, list[str]]:
    """Return what was recorded, in words, and what the collector noted."""
    said, notes = "nothing", []
    for path in folder.glob("*.records"):
        found = read_records(path)
        notes += found.texts.get(NOTE, [])
        kernels, calls = found.columns[KERNEL]["correlation"], found.columns[API]["correlation"]
        called = int(np.isin(kernels, calls).sum())
        said = f"{len(kernels)} kernels, {len(calls)} calls, {called} kernels with a call"
    return said, [note for note in notes if not note.startswith(("cupti\t", "cupti_version"))]


def main() -> int:
    """Measure, or run one process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", default="gpt_eager,generate", help="comma list")
    parser.add_argument("--limit", type=float, default=500.0, help="seconds for everything")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "build" / "prices")
    options = parser.parse_args()
    end_s = time.monotonic() + options.limit
    options.folder.mkdir(parents=True, exist_ok=True)
    load_libraries()
    prices = Prices(options.folder.resolve(), options.programs.split(","), end_s)
    prices.run()
    print("\n".join(tables(prices.found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
