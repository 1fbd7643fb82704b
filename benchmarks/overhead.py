"""``python -m benchmarks.overhead``: what ``dlprof`` costs, measured on this machine's GPUs.

Each program of ``overhead_programs.py`` runs alone and then in each way of ``WAYS``: with dlprof's
own collector, with Nsight Systems, and with markers in all steps. Runs alone stand between these,
because the speed of a machine changes. The steps of each run are compared with the same steps of
the runs alone, the reported step with the program's own clock of the steps that it is made of, and
names of kernels with those of the run with all markers. Every result is written to the folder as
soon as it is known (``NAME.json``, ``overhead.md``); a program that fails, or takes too long, does
not stop the others.
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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from aggregator.sources.nsys.reference import MARKED as MARKED_STEP
from aggregator.sources.nsys.reference import PROFILED, UNPROFILED
from benchmarks.gpu_clocks import ClockLog, same_steps
from benchmarks.measured import REPOSITORY
from benchmarks.overhead_tables import ALONE, MARKED, NSYS, OWN, workload_tables
from benchmarks.recorded_names import compare_names, read_steps

PROGRAMS = REPOSITORY / "benchmarks" / "overhead_programs.py"


@dataclass(frozen=True)
class Workload:
    """A program, and what its time depends on."""

    name: str
    limit: str  # ``CPU`` or ``GPU``: what a step without profiling waits for.
    steps: int
    gpus: int = 1


LOOPS = (
    Workload("lightning", "CPU", 520),
    Workload("short_epochs", "CPU", 516),
    Workload("reduce_overhead", "CPU", 700),
    Workload("uneven_loaders", "CPU", 500),
    Workload("generate", "CPU", 512),
    Workload("sanity_check", "CPU", 500),
    Workload("lora", "CPU", 220),
    Workload("lstm", "CPU", 500),
)
"""Loops whose first steps cannot be timed, or not as many, or whose steps differ."""
WORKLOADS = (
    *LOOPS,
    Workload("resnet50_amp", "CPU", 100),
    Workload("gpt_eager", "CPU", 80),
    Workload("resnet50_fp32", "GPU", 80),
    Workload("bert", "GPU", 50),
    Workload("trainer", "CPU", 50),
    Workload("gpt_compiled", "GPU", 60),
    Workload("moe", "CPU", 60),
    Workload("ddp", "CPU", 60, gpus=2),
)
WAYS: dict[str, list[str]] = {
    OWN: ["--collector=cupti"],
    NSYS: ["--collector=nsys"],
    MARKED: ["--collector=cupti", "--detail=high"],
}
"""Options of dlprof by the name of the way."""
DLPROF = (
    sys.executable,
    "-c",
    "import sys; from profiler_cli.dlprof import main; sys.exit(main())",
)
DATABASE = "dlprof_dldb.sqlite"
LEAST = 3
"""Fewer steps have no median."""
LIMIT_S, END_S = 90.0, 10.0
"""A program that takes longer is asked to end, and then killed."""


class Bench:
    """Runs programs and keeps their results in a folder."""

    def __init__(self, folder: Path, dlprof: Sequence[str], runs: int, deadline_s: float) -> None:
        self.folder, self.dlprof, self.runs = folder, list(dlprof), runs
        self.deadline_s, self.ways, self.keeps_captures = deadline_s, tuple(WAYS), False
        self.results: dict[str, dict[str, Any]] = {}
        self.clocks = ClockLog()
        self._lock = threading.Lock()

    def measure(self, workload: Workload, gpus: str) -> None:
        """Run a program in all ways; what fails is noted and the rest goes on."""
        result: dict[str, Any] = {"limit": workload.limit, ALONE: [], "errors": []}
        for number, way in enumerate(self._turns()):
            with self._noted(result, workload.name):
                if way == ALONE:
                    self._alone(workload, gpus, number, result)
                else:
                    self._captured(workload, gpus, way, number, result)
            self._keep(workload.name, result)
        with self._noted(result, workload.name):
            self._compare_names(workload, result)
        self._keep(workload.name, result)
        if not self.keeps_captures:
            shutil.rmtree(self.folder / "captures" / workload.name, ignore_errors=True)

    @contextmanager
    def _noted(self, result: dict[str, Any], name: str) -> Iterator[None]:
        """Note what fails: the other runs and programs are measured."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is
            result["errors"].append(f"{name}: {type(error).__name__}: {error}")

    def _turns(self) -> list[str]:
        """Return ways of the runs in their order; the run with all markers stands at the end."""
        ways = [way for way in self.ways if way != MARKED]
        marked = [MARKED] if MARKED in self.ways else []
        return [*[ALONE, *ways] * self.runs, ALONE, *marked]

    def _compare_names(self, workload: Workload, result: dict[str, Any]) -> None:
        turns = self._turns()
        marked = self._place(workload, MARKED, len(turns) - 1) / DATABASE
        if MARKED not in turns or not marked.is_file():
            return
        counts: dict[str, int] = {}
        for number, way in enumerate(turns):
            light = self._place(workload, way, number) / DATABASE
            if way == OWN and light.is_file():
                for name, count in compare_names(light, marked).items():
                    counts[name] = counts.get(name, 0) + count
        result["names"] = counts

    def _place(self, workload: Workload, way: str, number: int) -> Path:
        return self.folder / "captures" / workload.name / f"{way}{number}"

    def _program(self, workload: Workload) -> list[str]:
        words = [str(PROGRAMS), workload.name, f"--steps={workload.steps}"]
        if workload.gpus == 1:
            return [sys.executable, *words]
        launcher = ["-m", "torch.distributed.run", "--standalone"]
        return [sys.executable, *launcher, f"--nproc_per_node={workload.gpus}", *words]

    def _alone(self, workload: Workload, gpus: str, number: int, result: dict[str, Any]) -> None:
        times = self.folder / f"{workload.name}_{ALONE}{number}.times"
        end_s = self._run(self._program(workload), gpus, result, times)
        found = _read_json(times)
        if len(found.get("times_ms", ())) <= LEAST + found.get("warm_up", 0):
            return
        run = {name: found[name] for name in ("warm_up", "times_ms")}
        run |= {"slowed_pct": _pct(self._slowed(gpus, found)), "end_s": end_s - found["end_s"]}
        result[ALONE].append(run)

    def _slowed(self, gpus: str, found: dict[str, Any]) -> list[bool]:
        return self.clocks.slowed(gpus, found.get("times_ms", []), found.get("end_s", 0.0))

    def _captured(
        self, workload: Workload, gpus: str, way: str, number: int, result: dict[str, Any]
    ) -> None:
        place = self._place(workload, way, number)
        place.mkdir(parents=True, exist_ok=True)
        times = self.folder / f"{workload.name}_{way}{number}.times"
        options = [*WAYS[way], f"--output_path={place}", "--force=true", "--end_with_dlprof=true"]
        end_s = self._run([*self.dlprof, *options, *self._program(workload)], gpus, result, times)
        found: dict[str, Any] = {}
        own = _read_json(times)
        export, database = place / "nsys_profile.sqlite", place / DATABASE
        if own and database.is_file():
            found = {"end_s": end_s - own["end_s"], "export_bytes": export.stat().st_size}
            found |= read_steps(export, database)
            found["times_ms"] = own["times_ms"]
            found |= self._compared_steps(own, found.pop("step_times", ()), gpus)
        result.setdefault(way, []).append(found)

    def _compared_steps(
        self, own: dict[str, Any], rows: Sequence[Sequence[Any]], gpus: str
    ) -> dict[str, Any]:
        """Which steps of the program's clock were timed and recorded, and how the clocks differ."""
        slowed, ends_ns = self._slowed(gpus, own), own.get("ends_ns", ())
        unprofiled = [row for row in rows if row[0] == UNPROFILED and row[3]]
        same = same_steps(ends_ns, [row[3] for row in unprofiled])
        of_phase = {
            phase: same_steps(ends_ns, [row[3] for row in rows if row[0] == phase and row[3]])
            for phase in (PROFILED, MARKED_STEP)
        }
        # Nsight Systems records a loop of few batches with markers in all steps.
        recorded = of_phase[PROFILED] or of_phase[MARKED_STEP]
        found: dict[str, Any] = {"recorded": recorded, "slowed_pct": _pct(slowed)}
        if recorded:
            last = max(row[3] or 0 for row in rows if row[0] != UNPROFILED)
            found["after"] = [at for at, end_ns in enumerate(ends_ns) if end_ns > last][2:]
        if len(same) > LEAST:
            unprofiled_ms = [row[1 if row[2] is None else 2] / 1e6 for row in unprofiled]
            own_ms = statistics.median(own["times_ms"][at] for at in same)
            found["clock_error_pct"] = 100.0 * abs(statistics.median(unprofiled_ms) / own_ms - 1.0)
        return found

    def _run(self, command: Sequence[str], gpus: str, result: dict[str, Any], times: Path) -> float:
        """Run a command; returns when it ended. Unit: s since 1970."""
        left_s = self.deadline_s - time.monotonic()
        if left_s < 2 * END_S:
            result["errors"].append(f"{times.stem}: no time left")
            return 0.0
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": gpus, "STEP_TIMES": str(times)}
        times.unlink(missing_ok=True)
        log = times.with_suffix(".log")
        with log.open("w") as output:
            process = subprocess.Popen(
                command,
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
            is_late = not _ends(process, min(LIMIT_S, left_s - END_S))
            if is_late:
                process.terminate()  # dlprof passes it on.
                if not _ends(process, END_S):
                    process.kill()
            code = process.wait()
        end_s = time.time()
        if is_late:
            result["errors"].append(f"{times.stem}: not ended in time")
        elif code:
            text = log.read_text(errors="replace").strip()
            result["errors"].append(f"{times.stem}: exit code {code}: {text[-600:]}")
        return end_s

    def _keep(self, name: str, result: dict[str, Any]) -> None:
        with self._lock:
            self.results[name] = result
            (self.folder / f"{name}.json").write_text(json.dumps(result))
            self.write_tables()

    def write_tables(self) -> None:
        """Write all tables from what is known by now."""
        (self.folder / "overhead.md").write_text("\n".join(workload_tables(self.results)))


def _ends(process: subprocess.Popen[Any], seconds: float) -> bool:
    """Wait for a process; returns whether it has ended."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.returncode is not None


def _pct(flags: Sequence[bool]) -> float:
    return 100.0 * sum(flags) / max(len(flags), 1)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def run_all(
    bench: Bench, workloads: Sequence[Workload], gpus: Sequence[str], lanes: int = 1
) -> None:
    """Measure programs of one GPU side by side, then those of several.

    Args:
        bench: Runs them.
        workloads: The programs.
        gpus: The GPUs to use.
        lanes: Programs that share a GPU; each gets cores of its own.
    """
    waiting: SimpleQueue[Workload] = SimpleQueue()
    for workload in workloads:
        if workload.gpus == 1:
            waiting.put(workload)

    cores = sorted(os.sched_getaffinity(0))
    places = [(gpu, lane) for lane in range(lanes) for gpu in gpus]
    share = max(len(cores) // len(places), 1)

    def work(number: int) -> None:
        gpu = places[number][0]
        if lanes > 1:  # Of this thread, and of the programs that it starts.
            os.sched_setaffinity(0, cores[number * share :][:share])
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

    with ThreadPoolExecutor(len(places)) as pool:
        list(pool.map(work, range(len(places))))
    for workload in workloads:
        if 1 < workload.gpus <= len(gpus):
            bench.measure(workload, ",".join(gpus[: workload.gpus]))


def main() -> int:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = ",".join(workload.name for workload in LOOPS)
    every = ", ".join(workload.name for workload in WORKLOADS)
    parser.add_argument("--workloads", default=names, help=f"comma list of {every}; or none")
    parser.add_argument("--runs", type=int, default=1, help="runs of each way but the last")
    parser.add_argument("--ways", default=",".join(WAYS), help="comma list")
    parser.add_argument("--gpus", default="0", help="comma list of GPUs that work side by side")
    parser.add_argument("--lanes", type=int, default=1, help="programs that share a GPU")
    parser.add_argument("--dlprof", default=shlex.join(DLPROF), help="command, in quotes")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for everything")
    parser.add_argument("--keep", action="store_true", help="keep the captures")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "build" / "overhead")
    options = parser.parse_args()
    by_name = {workload.name: workload for workload in WORKLOADS} | {"none": None}
    wanted, ways = options.workloads.split(","), options.ways.split(",")
    if unknown := {*wanted, *ways} - {*by_name, *WAYS}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = options.folder.resolve()
    deadline_s = time.monotonic() + options.limit
    bench = Bench(folder, shlex.split(options.dlprof), options.runs, deadline_s)
    bench.keeps_captures = options.keep
    bench.ways, gpus = tuple(ways), options.gpus.split(",")
    with bench.clocks:
        chosen = [workload for name in wanted if (workload := by_name[name])]
        run_all(bench, chosen, gpus, options.lanes)
    print((folder / "overhead.md").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
