"""``python -m benchmarks.overhead``: what ``dlprof`` costs, measured on this machine's GPUs.

Each program of ``overhead_programs.py`` runs in turns without dlprof and under ``dlprof`` with its
default detail, three times, and then once with ``--detail=high``: each capture stands between two
runs without dlprof, because the speed of a machine changes. Medians of the captures are compared
with that of the program's own clock in these runs, and names of kernels with those of ``high``. A
second table has the cost of a launch by what Nsight Systems records. Every result is written to the
folder as soon as it is known (``NAME.json``, ``costs.json``, ``overhead.md``). GPUs work side by
side, each on a program of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from aggregator.sources.nsys.reference import BARE
from benchmarks.gpu_clocks import ClockLog, same_steps
from benchmarks.measured import REPOSITORY
from benchmarks.overhead_tables import costs_table, workload_tables
from benchmarks.recorded_names import compare_names, read_steps

PROGRAMS = REPOSITORY / "benchmarks" / "overhead_programs.py"
COSTS = REPOSITORY / "benchmarks" / "launch_costs.py"


@dataclass(frozen=True)
class Workload:
    """A program, and what its time depends on."""

    name: str
    limit: str  # ``CPU`` or ``GPU``: what a step without profiling waits for.
    steps: int
    gpus: int = 1


WORKLOADS = (
    Workload("resnet50_amp", "CPU", 100),
    Workload("generate", "CPU", 192),
    Workload("gpt_eager", "CPU", 80),
    Workload("resnet50_fp32", "GPU", 80),
    Workload("bert", "GPU", 50),
    Workload("trainer", "CPU", 50),
    Workload("gpt_compiled", "GPU", 60),
    Workload("moe", "CPU", 60),
    Workload("ddp", "CPU", 60, gpus=2),
    # Loops whose first steps cannot be timed, or not as many.
    Workload("sanity_check", "CPU", 300),
    Workload("short_epochs", "CPU", 300),
    Workload("uneven_loaders", "CPU", 300),
    Workload("reduce_overhead", "GPU", 300),
    Workload("lightning", "CPU", 300),
)
MARKED = "high"
"""Detail of the capture that has all names."""
DETAILS: tuple[str, ...] = ("normal", MARKED)
DATABASE = "dlprof_dldb.sqlite"
LEAST = 3
"""Fewer steps have no median."""
LIMIT_S = 80
"""A program that takes longer is ended."""
NSYS: dict[str, list[str]] = {
    "nothing (no nsys)": [],
    "`-t nvtx`": ["-t", "nvtx", "-s", "none", "--cpuctxsw=none"],
    "`-t cuda`": ["-t", "cuda", "-s", "none", "--cpuctxsw=none"],
    "`-t cuda,nvtx`": ["-t", "cuda,nvtx", "-s", "none", "--cpuctxsw=none"],
    "the same, flush every second (`--detail=normal`)": [
        *("-t", "cuda,nvtx", "-s", "none", "--cpuctxsw=none", "--cuda-flush-interval=1000")
    ],
    "the same without CUDA events (`--detail=low`)": [
        *("-t", "cuda,nvtx", "-s", "none", "--cpuctxsw=none", "--cuda-flush-interval=1000"),
        "--cuda-event-trace=false",
    ],
    "with context switches (`--detail=high`)": [
        *("-t", "cuda,nvtx", "-s", "none", "--cuda-flush-interval=1000")
    ],
}


class Bench:
    """Runs programs and keeps their results in a folder."""

    def __init__(self, folder: Path, dlprof: str, runs: int, deadline_s: float) -> None:
        self.folder, self.dlprof, self.runs = folder, shlex.split(dlprof), runs
        self.deadline_s, self.details = deadline_s, DETAILS
        self.results: dict[str, dict[str, Any]] = {}
        self.clocks = ClockLog()
        self._lock = threading.Lock()

    def measure(self, workload: Workload, gpus: str) -> None:
        """Run a program in all ways; what fails is noted and the rest goes on."""
        result: dict[str, Any] = {"limit": workload.limit, "own_ms": [], "errors": []}
        for number, detail in enumerate(self._turns()):
            self._own(workload, gpus, f"own{number}", result)
            if detail:
                self._captured(workload, gpus, detail, number, result)
            self._keep(workload.name, result)
        self._compare_names(workload, result)
        self._keep(workload.name, result)
        shutil.rmtree(self.folder / "captures" / workload.name, ignore_errors=True)

    def _turns(self) -> list[str]:
        """Details of the captures between the runs without dlprof; empty: no capture follows."""
        first, *others = self.details
        return [*[first] * self.runs, *others, ""]

    def _compare_names(self, workload: Workload, result: dict[str, Any]) -> None:
        """Compare the names of each light capture with those of the fully marked one."""
        marked = self._place(workload, MARKED, len(self._turns()) - 2) / DATABASE
        if not marked.is_file():
            return
        counts: dict[str, int] = {}
        for number in range(self.runs):
            light = self._place(workload, self.details[0], number) / DATABASE
            if light.is_file() and light != marked:
                for name, count in compare_names(light, marked).items():
                    counts[name] = counts.get(name, 0) + count
        result["names"] = counts

    def _place(self, workload: Workload, detail: str, number: int) -> Path:
        return self.folder / "captures" / workload.name / f"{detail}{number}"

    def _program(self, workload: Workload) -> list[str]:
        words = [str(PROGRAMS), workload.name, f"--steps={workload.steps}"]
        if workload.gpus == 1:
            return [sys.executable, *words]
        launcher = ["-m", "torch.distributed.run", "--standalone"]
        return [sys.executable, *launcher, f"--nproc_per_node={workload.gpus}", *words]

    def _own(self, workload: Workload, gpus: str, name: str, result: dict[str, Any]) -> None:
        times = self.folder / f"{workload.name}_{name}.times"
        self._run(self._program(workload), gpus, result, times)
        found = _read_json(times)
        first = found.get("warm_up", 0)
        steps_ms = found.get("times_ms", [])[first:]
        slowed = self._slowed(gpus, found)[first:]
        counted = [step for step, is_slow in zip(steps_ms, slowed, strict=True) if not is_slow]
        result["own_ms"].append(statistics.median(counted) if len(counted) >= LEAST else None)
        result.setdefault("slowed_pct", []).append(_pct(slowed))

    def _slowed(self, gpus: str, found: dict[str, Any]) -> list[bool]:
        return self.clocks.slowed(gpus, found.get("times_ms", []), found.get("end_s", 0.0))

    def _captured(
        self, workload: Workload, gpus: str, detail: str, number: int, result: dict[str, Any]
    ) -> None:
        place = self._place(workload, detail, number)
        place.mkdir(parents=True, exist_ok=True)
        times = self.folder / f"{workload.name}_{detail}{number}.times"
        options = [f"--detail={detail}", f"--output_path={place}", "--force=true"]
        started = time.monotonic()
        self._run([*self.dlprof, *options, *self._program(workload)], gpus, result, times)
        found: dict[str, Any] = {"turn": number, "seconds": time.monotonic() - started}
        export, database = place / "nsys_profile.sqlite", place / DATABASE
        if export.is_file():
            found["export_bytes"] = export.stat().st_size
        if database.is_file():
            found |= read_steps(export, database)
        own = _read_json(times)
        found["times_ms"], slowed = own.get("times_ms", []), self._slowed(gpus, own)
        bare = [row for row in found.get("step_times", ()) if row[0] == BARE and row[3]]
        bare_ms = [(host_ns if gpu_ns is None else gpu_ns) / 1e6 for _, host_ns, gpu_ns, _ in bare]
        same = same_steps(own.get("ends_ns", ()), [row[3] for row in bare])
        if len(same) > LEAST:
            own_ms = statistics.median(found["times_ms"][at] for at in same)
            found["clock_error_pct"] = 100.0 * abs(statistics.median(bare_ms) / own_ms - 1.0)
            found["slowed_bare_pct"] = _pct([slowed[at] for at in same])
            others = set(range(len(slowed))).difference(same)
            found["slowed_pct"] = _pct([slowed[at] for at in others])
        result.setdefault(detail, []).append(found)

    def _run(self, command: Sequence[str], gpus: str, result: dict[str, Any], times: Path) -> None:
        left_s = self.deadline_s - time.monotonic()
        if left_s < 10:
            result["errors"].append("no time left")
            return
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": gpus, "STEP_TIMES": str(times)}
        try:
            done = subprocess.run(
                command,
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=min(LIMIT_S, left_s),
                check=False,
            )
        except subprocess.TimeoutExpired:
            result["errors"].append(f"{shlex.join(command)}: not ended in time")
            return
        text = (done.stdout + done.stderr).strip()
        (times.with_suffix(".log")).write_text(text[-20_000:])
        if done.returncode:
            result["errors"].append(f"exit code {done.returncode}: {text[-600:]}")

    def _keep(self, name: str, result: dict[str, Any]) -> None:
        with self._lock:
            self.results[name] = result
            (self.folder / f"{name}.json").write_text(json.dumps(result, indent=1))
            self.write_tables()

    def write_tables(self) -> None:
        """Write all tables from what is known by now."""
        costs = _read_json(self.folder / "costs.json")
        text = "\n".join([*workload_tables(self.results), *costs_table(costs)])
        (self.folder / "overhead.md").write_text(text)

    def measure_costs(self, nsys: str, gpu: str, rounds: int) -> None:
        """Time launches by what Nsight Systems records; the rows take turns, the fastest counts."""
        found: dict[str, dict[str, float]] = {}
        for _ in range(rounds):
            for name, switches in NSYS.items():
                report = ["-o", str(self.folder / "costs"), "--force-overwrite=true"]
                before = [nsys, "profile", *switches, *report] if switches else []
                result: dict[str, Any] = {"errors": []}
                log = self.folder / "costs.times"
                self._run([*before, sys.executable, str(COSTS)], gpu, result, log)
                times = _last_json(log.with_suffix(".log"))
                best = found.setdefault(name, {})
                for kind, time_us in times.items():
                    best[kind] = min(time_us, best.get(kind, time_us))
                print(name, times or result["errors"], flush=True)
                (self.folder / "costs.json").write_text(json.dumps(found, indent=1))
        with self._lock:
            self.write_tables()


def _pct(flags: Sequence[bool]) -> float:
    return 100.0 * sum(flags) / max(len(flags), 1)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _last_json(path: Path) -> dict[str, float]:
    """The last line of a log that holds a JSON object."""
    lines = path.read_text().splitlines() if path.is_file() else []
    for line in reversed(lines):
        if line.startswith("{"):
            found: dict[str, float] = json.loads(line)
            return found
    return {}


def run_all(bench: Bench, workloads: Sequence[Workload], gpus: Sequence[str]) -> None:
    """Measure programs of one GPU side by side, then those of several."""
    waiting: SimpleQueue[Workload] = SimpleQueue()
    for workload in workloads:
        if workload.gpus == 1:
            waiting.put(workload)

    def work(gpu: str) -> None:
        while True:
            try:
                workload = waiting.get_nowait()
            except Empty:
                return
            started = time.monotonic()
            bench.measure(workload, gpu)
            result = bench.results[workload.name]
            print(f"{workload.name}: {time.monotonic() - started:.0f} s", flush=True)
            for error in result["errors"]:
                print(f"  {error}", flush=True)

    with ThreadPoolExecutor(len(gpus)) as pool:
        list(pool.map(work, gpus))
    for workload in workloads:
        if 1 < workload.gpus <= len(gpus):
            bench.measure(workload, ",".join(gpus[: workload.gpus]))


def main() -> int:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [workload.name for workload in WORKLOADS]
    parser.add_argument("--workloads", default=",".join(names), help="comma list, or none")
    parser.add_argument("--runs", type=int, default=3, help="captures of the first detail")
    parser.add_argument("--details", default=",".join(DETAILS), help="captures to take")
    parser.add_argument("--gpus", default="0", help="comma list of GPUs that work side by side")
    parser.add_argument("--costs", type=int, default=0, metavar="N", help="rounds of launch costs")
    parser.add_argument("--nsys", default="nsys")
    parser.add_argument("--dlprof", default="dlprof", help="command, in quotes")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for everything")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "build" / "overhead")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = options.folder.resolve()
    bench = Bench(folder, options.dlprof, options.runs, time.monotonic() + options.limit)
    bench.details = tuple(options.details.split(","))
    gpus = options.gpus.split(",")
    wanted = options.workloads.split(",")
    by_name = {workload.name: workload for workload in WORKLOADS}
    with bench.clocks:
        run_all(bench, [by_name[name] for name in wanted if name in by_name], gpus)
    if options.costs:
        bench.measure_costs(options.nsys, gpus[0], options.costs)
    print((folder / "overhead.md").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
