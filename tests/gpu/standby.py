"""Try ``dlprof --standby`` on a GPU: ``python3 -m tests.gpu.standby PART --folder=/tmp/standby``.

``hooks``: what standing by costs in each step, by the program's own clock: blocks of steps with and
without its hooks in turn. ``cost``: the same between processes with and without it. ``windows``: as
many windows of a job as fit in the time. ``when``: jobs that become slower, which ``--when`` has to
notice, and what ``dlprof compare`` says about their windows.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aggregator.sources.collector.standing_by import find_job, request_window
from tests.gpu.exam.__main__ import DLPROF, READY_S, RUN_S, WARM_UP, Run, _wait, program
from tests.gpu.exam.base import BLOCK, SWITCH
from tests.process_figures import figures_of

PROGRAMS = {"atoms": 30, "detector": 20, "convnet": 30, "small": 30, "words": 12, "adapters": 8}
"""Programs, and the steps that each process runs in its turn: about half a second."""
AT_ONCE = 2
"""Programs whose processes are started together; their steps still run in turn."""
WAYS = ("bare", "standby")
LEAST_ROUNDS = 3
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36}
"""Quantile of the t distribution for 95 %, by the number of pairs."""
LINE_S = 5
"""A line of the notes, in ``when``: a minute is too long for a GPU that is paid by the minute."""
SLOWING = str(Path(__file__).parent / "programs" / "slowing.py")


def time_in_turns(folder: Path, pairs: int, seconds: float, more: Sequence[str]) -> dict[str, Any]:
    """Time each program with and without standby; returns the cost and its spread, in percent."""
    begin_s, result = time.monotonic(), {}
    all_names = list(PROGRAMS)
    waves = [all_names[at : at + AT_ONCE] for at in range(0, len(all_names), AT_ONCE)]
    for at, names in enumerate(waves, start=1):
        runs: dict[tuple[str, int, str], Run] = {}
        for name, number, way in itertools.product(names, range(pairs), WAYS):
            words = ["env", f"{BLOCK}={PROGRAMS[name]}"]
            words += [*DLPROF, "--standby"] if way == "standby" else []
            words += program(name, "", ["--steps=1000000", *more])
            runs[name, number, way] = Run(folder / "runs", f"{name}{number}{way}", words, WARM_UP)
        for run in runs.values():
            run.wait_ready()
        print(f"{names} ready after {time.monotonic() - begin_s:.0f} s", flush=True)
        _run_in_turns(runs, begin_s + seconds * at / len(waves))
        for name in names:
            result[name] = _cost(name, pairs, runs)
    return result


def time_hooks(folder: Path, seconds: float, more: Sequence[str]) -> dict[str, Any]:
    """Time each program that stands by with and without its hooks, in blocks of steps in turn.

    Processes of one program differ by some percent for as long as they run; blocks of one do not.
    """
    runs = {}
    for name, size in PROGRAMS.items():
        limits = ["--steps=1", f"--seconds={seconds / len(PROGRAMS)}"]
        words = [*DLPROF, "--standby", *program(name, "", [*limits, *more])]
        runs[name] = Run(folder / "hooks", name, ["env", f"{SWITCH}={size}", *words], WARM_UP)
    for run in runs.values():
        run.wait_ready()
    result = {}
    for name, run in runs.items():
        times = run.let_go().get("times_ms")
        if not times:
            print(name, run.log.read_text(errors="replace")[-400:], flush=True)
            continue
        size = PROGRAMS[name]
        # The GPU may be some steps behind; the first block settles.
        blocks = [times[at + size // 4 : at + size] for at in range(2 * size, len(times), size)]
        medians = [statistics.median(block) for block in blocks if len(block) == size - size // 4]
        pairs = [
            100 * math.log(on / ((before + after) / 2))
            for before, on, after in zip(medians[1::2], medians[2::2], medians[3::2], strict=False)
        ]
        if len(pairs) < LEAST_ROUNDS:
            print(name, f"only {len(medians)} blocks", flush=True)
            continue
        cost, half = statistics.mean(pairs), 2.0 * statistics.stdev(pairs) / math.sqrt(len(pairs))
        result[name] = {"step_ms": statistics.median(medians), "cost_pct": pairs}
        step = f"{result[name]['step_ms']:.2f} ms"
        print(f"| {name} | {step} | {cost:+.2f} ± {half:.2f} % | {len(pairs)} |", flush=True)
    return result


def _run_in_turns(runs: dict[tuple[str, int, str], Run], end_s: float) -> None:
    """Let the processes run a block of steps each, again and again, until the time is over."""
    shuffler = random.Random(7)
    for turn in itertools.count():
        order = list(runs.values())
        shuffler.shuffle(order)
        for run in order:
            run.gate.with_suffix(f".go{turn or ''}").touch()
            _wait_for_turn(run, turn + 1)
        if turn + 1 >= LEAST_ROUNDS and time.monotonic() > end_s:
            break
    for run in runs.values():
        run.gate.with_suffix(".stop").touch()
    for run in runs.values():
        run.process.wait(RUN_S)


def _wait_for_turn(run: Run, turn: int) -> None:
    ready = run.gate.with_suffix(f".ready{turn}")
    _wait(RUN_S, lambda: run.has_ended or ready.exists())


def _cost(name: str, pairs: int, runs: dict[tuple[str, int, str], Run]) -> dict[str, Any]:
    medians: dict[str, list[float]] = {way: [] for way in WAYS}
    rounds = 0
    for number, way in itertools.product(range(pairs), WAYS):
        run = runs[name, number, way]
        try:
            times = json.loads(run.report.read_text())["times_ms"]
        except (OSError, ValueError):
            print(name, number, way, run.log.read_text(errors="replace")[-400:], flush=True)
            continue
        size = PROGRAMS[name]
        blocks = [times[at : at + size] for at in range(0, len(times) - size + 1, size)]
        # The first steps of a block wait for the turn, or find batches that waited ready.
        settled = [statistics.median(block[max(2, size // 6) :]) for block in blocks]
        rounds = len(settled)
        medians[way].append(statistics.median(settled))
    shown: dict[str, Any] = {"rounds": rounds, **medians}
    if len(medians["bare"]) == len(medians["standby"]) == pairs and pairs in STUDENT:
        both = zip(medians["bare"], medians["standby"], strict=True)
        ratios = [100 * math.log(standby / bare) for bare, standby in both]
        half = STUDENT[pairs] * statistics.stdev(ratios) / math.sqrt(pairs)
        bare = medians["bare"]
        spread = 100 * statistics.stdev(bare) / statistics.mean(bare)
        shown |= {"cost_pct": statistics.mean(ratios), "plus_minus_pct": half, "spread_pct": spread}
        print(
            f"| {name} | {statistics.median(bare):.2f} ms | {shown['cost_pct']:+.2f} ± {half:.2f} %"
            f" | {spread:.2f} % | {pairs} pairs, {rounds} rounds |",
            flush=True,
        )
    return shown


def record_windows(folder: Path, seconds: float, more: Sequence[str]) -> dict[str, Any]:
    """Record windows of a job that runs on; returns its steps before and after them."""
    words = program("atoms", "", ["--steps=200", f"--seconds={seconds + 25}", *more])
    run = Run(folder / "long", "long", [*DLPROF, "--standby", *words], WARM_UP)
    run.wait_ready()
    run.gate.with_suffix(".go").touch()
    time.sleep(5)
    end_s = time.monotonic() + seconds
    figures, failed = [], 0
    while time.monotonic() < end_s and not run.has_ended:
        job, _ = find_job(str(run.process.pid))
        target = Path(tempfile.mkdtemp(dir=folder))
        try:
            request_window(job, target, steps=3)
        except Exception as error:  # noqa: BLE001 - counted and shown
            failed += 1
            print("a window failed:", error, flush=True)
        shutil.rmtree(target)
        figures.append(figures_of(next(iter(job.ranks))))
    count = len(figures)
    shown = {at: figures[at] for at in sorted({0, 1, count // 4, count // 2, count - 1}) if figures}
    print(f"{count} windows of 3 steps in {seconds:.0f} s, {failed} failed; after each:", shown)
    _wait(seconds + RUN_S, lambda: run.has_ended)
    times = json.loads(run.report.read_text())["times_ms"]
    ends = {"first": statistics.median(times[:100]), "last": statistics.median(times[-200:])}
    print("steps before the first window and after the last one:", ends, flush=True)
    return {"windows": count, "failed": failed, **ends, "figures": figures}


def notice_slower_steps(folder: Path, more: Sequence[str]) -> dict[str, Any]:
    """Run jobs whose steps become slower; returns when that was noticed, and its cause."""
    jobs = {}
    for how in ("sleep", "loader"):
        output = folder / f"when-{how}"
        shutil.rmtree(output, ignore_errors=True)
        words = [*DLPROF, "--standby", "--when=step>1.3x", f"--output_path={output}"]
        words += [sys.executable, SLOWING, how, "--seconds=75", *more]
        jobs[how] = Run(output, "job", ["env", f"DLPROF_STANDBY_LINE_S={LINE_S}", *words], 0)
    result = {}
    for how, run in jobs.items():
        run.process.wait(READY_S)
        said = run.log.read_text(errors="replace")
        windows = sorted(map(str, run.log.parent.glob("window-*.sqlite")))
        print(how, said[-1500:], windows, flush=True)
        if len(windows) >= 2:
            asked = [*DLPROF, "compare", windows[0], windows[1]]
            done = subprocess.run(asked, capture_output=True, text=True, check=False)
            print(done.stdout[:4000], done.stderr[-500:], flush=True)
            result[how] = {"said": said, "compared": done.stdout}
    return result


def main() -> None:
    """Run the parts, and write what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="+", choices=("hooks", "cost", "windows", "when"))
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--more", default="", help="options of all programs")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {}
    more = options.more.split()
    options.folder.mkdir(parents=True, exist_ok=True)
    if "when" in options.parts:
        found["when"] = notice_slower_steps(options.folder, more)
    if "windows" in options.parts:
        found["windows"] = record_windows(options.folder, options.seconds or 60, more)
    if "hooks" in options.parts:
        found["hooks"] = time_hooks(options.folder, options.seconds or 120, more)
    if "cost" in options.parts:
        found["cost"] = time_in_turns(options.folder, options.pairs, options.seconds or 240, more)
    if options.json:
        options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
