"""Try ``dlprof trial`` on a GPU: run as ``python3 -m tests.gpu.trial --json=$OUT/trial.json``.

A program against itself, one with 5 % more work, one that fails, and one under torchrun. Trials of
the program against itself are drawn from one sequence of its runs: each window of them, with the
sides assigned at random, is a trial. Windows overlap, as each run takes seconds.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from aggregator.compare.result import Verdict
from aggregator.compare.trial_report import sentence
from aggregator.compare.trials import TrialRun, judge_variant
from profiler_cli.trial.runs import Trial, TrialPlan, run_trial

PROGRAM: Final = """
import os, sys, torch
options = dict(word.split("=") for word in sys.argv[1:])
if "fail" in options:
    sys.exit("it fails: " + options["fail"])
rank = int(os.environ.get("LOCAL_RANK", 0))
if "RANK" in os.environ:
    torch.distributed.init_process_group("gloo")
torch.cuda.set_device(rank % torch.cuda.device_count())
torch.manual_seed(0)
# Gloo reduces through the host.
width, dtype = (512, torch.float32) if "RANK" in os.environ else (4096, torch.bfloat16)
extra = int(options.get("extra", 0))
layers = [torch.nn.Linear(width, width, bias=False) for _ in range(20)]
model = torch.nn.Sequential(*layers).to("cuda", dtype)
if "RANK" in os.environ:
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
data = torch.randn(int(options.get("batch", 4096)), width, device="cuda", dtype=dtype)
a = torch.randn(width, width, device="cuda", dtype=dtype)
for step in range(int(options.get("steps", 100_000))):
    optimizer.zero_grad()
    model(data).float().pow(2).mean().backward()
    for _ in range(extra):
        a @ a
    optimizer.step()
torch.cuda.synchronize()
"""
EXTRA: Final = 3
"""Further products beside the sixty of a step: 5 %, but for the optimizer's share."""
WINDOW: Final = 6
"""Runs of a trial that is drawn: three a side, the fewest that are judged."""
TRIALS: Final = 20


class Bench:
    """The program, and what was found."""

    def __init__(self, folder: Path, python: str, steps: int) -> None:
        self.path, self.python, self.steps = folder / "train.py", python, steps
        self.path.write_text(PROGRAM)
        self.found: dict[str, Any] = {}
        self.wrong: list[str] = []

    def command(self, *words: str) -> str:
        return shlex.join([self.python, str(self.path), *words])

    def torchrun(self, processes: int) -> str:
        words = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
        return shlex.join([self.python, *words, str(self.path), "batch=512"])

    def run(self, *commands: str, repeats: int, may_stop_early: bool = False) -> Trial:
        plan = TrialPlan(
            commands, repeats, self.steps, limit_s=90, may_stop_early=may_stop_early, seed=1
        )
        return run_trial(plan, _show)

    def expect(self, name: str, *, is_true: bool) -> None:
        print(f"{'ok   ' if is_true else 'WRONG'} {name}", flush=True)
        if not is_true:
            self.wrong.append(name)


def _show(run: TrialRun) -> None:
    step = run.failure or f"{(run.step_ns or 0) / 1e6:.4f} ms by the {run.clock}, {run.steps} steps"
    clock = f"{run.sm_clock_mhz} MHz" if run.sm_clock_mhz else "clock unknown"
    print(f"  run {run.number}, variant {run.variant}: {step}, {clock}, {run.seconds:.1f} s")
    for line in run.last_lines:
        print(f"    {line}")
    sys.stdout.flush()


def try_changes(bench: Bench) -> None:
    """Run the base, itself, a planted change and a failure."""
    commands = bench.command(), bench.command("name=same"), bench.command(f"extra={EXTRA}")
    trial = bench.run(*commands, bench.command("fail=here"), repeats=5)
    same, slower, failed = trial.estimates()
    bench.found["changes"] = [asdict(found) for found in (same, slower, failed)]
    for name, found in (("same", same), ("planted", slower), ("failing", failed)):
        print(f"{name}: {sentence(found)}; losses {found.losses} ({found.losses_note})")
        print(f"  {found.notes}, noise {found.noise_pct} %")
    bench.expect("a planted 5 % is found", is_true=slower.verdict is Verdict.SLOWER)
    bench.expect("losses of the same program agree", is_true=same.losses == "agree")
    bench.expect("a failing variant is said", is_true="exit code 1" in failed.reason)
    bench.expect("the others are measured", is_true=min(map(trial.measured, range(3))) == 5)
    bench.expect("steps are timed by the GPU", is_true={r.clock for r in trial.runs} <= {"gpu", ""})
    bench.expect("the clock is known", is_true=all(r.sm_clock_mhz for r in trial.runs if r.step_ns))


def try_itself(bench: Bench, pairs: int) -> None:
    """Draw trials of the program against itself from its runs."""
    trial = bench.run(bench.command(), bench.command("name=same"), repeats=pairs)
    runs = [run for run in trial.runs if run.step_ns]
    bench.found["runs"] = [asdict(run) for run in runs]
    order, verdicts = random.Random(2), []
    starts = range(len(runs) - WINDOW + 1)
    for number in range(TRIALS):
        window = runs[starts[number % len(starts)] :][:WINDOW]
        sides = [side for _ in range(WINDOW // 2) for side in order.sample((0, 1), 2)]
        drawn = [replace(run, variant=side) for run, side in zip(window, sides, strict=True)]
        found = judge_variant(drawn, 1)
        verdicts.append(str(found.verdict))
        print(f"itself {number}: {sentence(found)}")
    called = sum(verdict in ("faster", "slower") for verdict in verdicts)
    bench.found["against_itself"] = {"runs": len(runs), "verdicts": verdicts, "called": called}
    bench.expect(f"at most one of {TRIALS} trials of A and A is called", is_true=called <= 1)


def try_torchrun(bench: Bench) -> None:
    """Run one and two processes."""
    trial = bench.run(bench.torchrun(1), bench.torchrun(2), repeats=1)
    (found,) = trial.estimates()
    ranks = {run.variant: run.ranks for run in trial.runs if run.step_ns}
    print(f"torchrun: {sentence(found)}; ranks {ranks}, {found.notes}")
    bench.found["torchrun"] = {"runs": [asdict(run) for run in trial.runs]}
    bench.expect("torchrun with 1 and 2 processes is timed", is_true=ranks == {0: 1, 1: 2})


def try_command(bench: Bench, limit_s: float) -> None:
    """Run the command with captures."""
    words = ["trial", "--base", bench.command("steps=400"), "--repeats=1", f"--steps={bench.steps}"]
    words += ["--try", bench.command("steps=400", f"extra={EXTRA}"), "--profile", "--json"]
    with tempfile.TemporaryDirectory() as name:
        words.append(f"--output_path={name}")
        try:
            done = subprocess.run(
                [sys.executable, "-m", "profiler_cli.dlprof", *words],
                capture_output=True,
                text=True,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            bench.expect(f"the command ends within {limit_s:.0f} s", is_true=False)
            return
    print(done.stderr[-2000:])
    document = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    comparison = document.get("comparisons", {}).get("1", "none")
    headline = comparison.get("headline") if isinstance(comparison, dict) else comparison
    print(f"--profile: {headline}")
    bench.found["profile"] = {"code": done.returncode, "headline": headline}
    bench.expect("captures are compared", is_true=isinstance(comparison, dict))


def main() -> int:
    """Run it; 1 if something is not as it must be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="of the programs")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--pairs", type=int, default=7, help="runs a side of A and A")
    parser.add_argument("--parts", default="changes,itself,torchrun,command")
    parser.add_argument("--limit", type=float, default=230, help="no part begins after so many s")
    parser.add_argument("--json", type=Path, help="file for everything that was found")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dlprof-try-") as name:
        bench = Bench(Path(name), options.python, options.steps)
        parts: dict[str, Callable[[], None]] = {
            "changes": lambda: try_changes(bench),
            "itself": lambda: try_itself(bench, options.pairs),
            "torchrun": lambda: try_torchrun(bench),
            "command": lambda: try_command(bench, options.limit),
        }
        for part in options.parts.split(","):
            if time.monotonic() - began > options.limit:
                print(f"no time is left for {part}")
                continue
            parts[part]()
            if options.json is not None:
                options.json.write_text(json.dumps(bench.found, indent=1))
        left = subprocess.run(["pgrep", "-f", name], capture_output=True, text=True, check=False)
        bench.expect("no process is left", is_true=not left.stdout.strip())
    bench.found |= {"wrong": bench.wrong, "seconds": round(time.monotonic() - began)}
    if options.json is not None:
        options.json.write_text(json.dumps(bench.found, indent=1))
    print(f"{len(bench.wrong)} wrong in {bench.found['seconds']} s: {bench.wrong}")
    return int(bool(bench.wrong))


if __name__ == "__main__":
    sys.exit(main())
