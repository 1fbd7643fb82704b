"""``python -m benchmarks.overhead_turns``: many short runs of a program, without and with dlprof.

The speed of a machine's CPU changes from second to second, so that a few long runs cannot show a
difference of some percent. Here each program is started again and again in all ways, in random
order within a turn. A turn gives one ratio of each way to the run without dlprof; the table has the
median of the ratios and its standard error, for the time of a step and for the CPU time that the
main thread and all threads took for it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measured import REPOSITORY, standard_error, with_error
from benchmarks.overhead import DATABASE, PROGRAMS, WORKLOADS
from benchmarks.recorded_names import read_steps

ALONE = "without dlprof"
WAYS: dict[str, list[str]] = {
    ALONE: [],
    "nsys, not begun": ["--collector=nsys", "--bare_steps=1000000"],
    "own, not begun": ["--collector=cupti", "--bare_steps=1000000"],
    "nsys": ["--collector=nsys", "--detail=normal"],
    "own": ["--collector=cupti", "--detail=normal"],
    "nsys, low": ["--collector=nsys", "--detail=low"],
    "own, low": ["--collector=cupti", "--detail=low"],
}
CLOCKS = {"times_ms": "step", "thread_ms": "CPU, main thread", "process_ms": "CPU, all threads"}
REPORTED = {"bare_step": "reported bare step", "corrected_step": "corrected step"}
STEPS = {"generate": 256, "gpt_eager": 120, "moe": 60, "resnet50_amp": 100, "trainer": 40}
EARLY, LATE = 0.45, 0.67
"""Steps before the first share are compared where nothing is recorded: of a data loader with a
known length, half of the batches are recorded at least. After the second one they are recorded and
have no markers. Both are compared with the same steps of the run without dlprof."""
LIMIT_S = 90.0
Run = dict[str, Any]
Turn = dict[str, Run]


class Turns:
    """Runs programs in turns until the time is over."""

    def __init__(self, folder: Path, ways: Sequence[str], dlprof: str, end_s: float) -> None:
        self.folder, self.ways, self.end_s = folder, list(ways), end_s
        self.dlprof = shlex.split(dlprof)
        self.found: dict[str, list[Turn]] = {}

    def turn(self, program: str, longest_s: float) -> float:
        """Run a program once in each way; returns how long that took, 0 if no time is left."""
        if self.end_s - time.monotonic() < longest_s:
            return 0.0
        started = time.monotonic()
        turn: Turn = {}
        for way in random.sample(self.ways, len(self.ways)):
            turn[way] = self._run(program, way)
        self.found.setdefault(program, []).append(turn)
        (self.folder / "turns.json").write_text(json.dumps(self.found))
        text = "\n".join(tables(self.found))
        (self.folder / "turns.md").write_text(f"{text}\n")
        return time.monotonic() - started

    def _run(self, program: str, way: str) -> Run:
        """Return the times of the steps of a run, and what dlprof reports; empty if it failed."""
        times = self.folder / "run.times"
        times.unlink(missing_ok=True)
        steps = f"--steps={STEPS.get(program, _steps(program))}"
        words = [sys.executable, str(PROGRAMS), program, steps]
        capture = self.folder / "capture"
        shutil.rmtree(capture, ignore_errors=True)
        if WAYS[way]:
            place = [f"--output_path={capture}", "--force=true"]
            words = [*self.dlprof, *WAYS[way], *place, *words]
        log = self.folder / f"{program}_{way.replace(', ', '_').replace(' ', '_')}.log"
        try:
            with log.open("w") as output:
                subprocess.run(
                    words,
                    env={**os.environ, "STEP_TIMES": str(times)},
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=min(LIMIT_S, max(self.end_s - time.monotonic(), 1.0)),
                    check=False,
                )
            content = json.loads(times.read_text())
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            print(f"{program}, {way}: {str(error)[-200:]}", flush=True)
            return {}
        found = {name: [round(value, 4) for value in content[name]] for name in CLOCKS}
        found["warm_up"] = content["warm_up"]
        export, database = (capture / name for name in ("nsys_profile.sqlite", DATABASE))
        if export.is_file() and database.is_file():
            reported = read_steps(export, database)
            found |= {name: reported[name] / 1e6 for name in REPORTED if reported.get(name)}
        medians = [round(_median(found, name, way), 2) for name in CLOCKS]
        print(f"{program}, {way}: {medians} {[found.get(name) for name in REPORTED]}", flush=True)
        return found


def _median(run: Run, name: str, way: str) -> float:
    """Return the median of the steps that are compared in a way."""
    values = run[name]
    if "not begun" in way:
        return statistics.median(values[run["warm_up"] : int(EARLY * len(values))])
    return statistics.median(values[int(LATE * len(values)) :])


def _steps(program: str) -> int:
    return next(workload.steps for workload in WORKLOADS if workload.name == program)


def tables(found: dict[str, list[Turn]]) -> Iterator[str]:
    """Yield the ratios to the runs without dlprof, in percent, with their standard errors."""
    columns = {**CLOCKS, **REPORTED}
    yield f"| program | with | turns | step alone, ms | {' | '.join(columns.values())} |"
    yield f"|{'---|' * (4 + len(columns))}"
    for program, turns in found.items():
        for way in dict.fromkeys(name for turn in turns for name in turn if name != ALONE):
            both = [turn for turn in turns if turn.get(way) and turn.get(ALONE)]
            if not both:
                continue
            alone = [_median(turn[ALONE], "times_ms", way) for turn in both]
            cells = [f"{statistics.median(alone):.2f} ± {standard_error(alone):.2f}"]
            cells += [with_error(list(_more_pct(both, way, name))) for name in columns]
            yield f"| `{program}` | {way} | {len(both)} | {' | '.join(cells)} |"


def _more_pct(turns: list[Turn], way: str, name: str) -> Iterator[float]:
    """Yield how much more than without dlprof a step takes, of each turn. Unit: percent."""
    for turn in turns:
        if name in CLOCKS:
            own = _median(turn[ALONE], name, way)
            yield 100 * (_median(turn[way], name, way) / own - 1)
        elif name in turn[way]:  # What dlprof reports of the first steps, or scales to them.
            own = _median(turn[ALONE], "times_ms", "not begun")
            yield 100 * (turn[way][name] / own - 1)


def main() -> int:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", default="generate,gpt_eager", help="comma list, in turns")
    parser.add_argument("--ways", default=";".join(list(WAYS)[:3]), help="list, with semicolons")
    parser.add_argument("--dlprof", default="dlprof", help="command, in quotes")
    parser.add_argument("--limit", type=float, default=500.0, help="seconds for everything")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "build" / "turns")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    end_s = time.monotonic() + options.limit
    turns = Turns(options.folder.resolve(), options.ways.split(";"), options.dlprof, end_s)
    programs = dict.fromkeys(options.programs.split(","), 30.0)
    while any(programs.values()):
        for program, longest_s in programs.items():
            programs[program] = longest_s and turns.turn(program, longest_s)
    print("\n".join(tables(turns.found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
