"""``python -m tests.gpu.harmless``: does any program end otherwise with the collector in it?

On a machine with a GPU, without network. Each program runs some times without dlprof's own
collector, then with it: recorded from the start, or from some moment on, as the number of the run
is even or odd. Exit codes and what is printed have to be the same. Then three programs attach
and detach it, and time their steps.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aggregator.sources.collector import records as kinds
from profiler_cli.capture.native import build_library, find_cupti
from tests.gpu.harmless_programs import CUDA, PYTHON, WINDOWS

MOST_S: Final = 60
MOST_WINDOWS_S: Final = 40
MOST_STACKS_S: Final = 20
HANGS: Final = 1000
"""In place of the exit code of a program that had to be killed."""
LATE_S: Final = (0.2, 4.0)
WINDOW_KINDS: Final = ("plain", "graph", "profiler")
BARE, COLLECTED = "bare", "collected"
UNWANTED: Final = ("INTERNAL ASSERT", "Segmentation fault", "terminate called")


@dataclass
class Run:
    """How one run of a program ended."""

    code: int
    output: str
    errors: str
    seconds: float
    kernels: int = 0
    windows: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class Bench:
    """The folder of the programs, and what loads the collector into them."""

    folder: Path
    python: str
    library: Path
    cupti: Path | None

    def environment(self, records: Path | None) -> dict[str, str]:
        """Return the environment of a program; the collector is in it if there is a folder."""
        result = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor")}
        result["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        if records is None:
            return result
        result |= dict.fromkeys(
            ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"), str(self.library)
        )
        result["DLPROF_COLLECT"] = str(records)
        if self.cupti is not None:
            result["DLPROF_COLLECT_CUPTI"] = str(self.cupti)
        return result

    def run(self, command: list[str], *, begin_s: float | None, most_s: float = MOST_S) -> Run:
        """Run a program; with the collector if it says when to begin."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            records = None if begin_s is None else Path(name)
            if records is not None and not begin_s:
                (records / "started").touch()
            began = time.monotonic()
            with (
                tempfile.TemporaryFile(mode="w+") as output,
                tempfile.TemporaryFile(mode="w+") as errors,
                subprocess.Popen(
                    command, env=self.environment(records), stdout=output, stderr=errors
                ) as process,
            ):
                try:
                    if records is not None and begin_s and not _ends(process, begin_s):
                        (records / "started").touch()
                    code = process.wait(max(0.1, most_s - (time.monotonic() - began)))
                    stacks = ""
                except subprocess.TimeoutExpired:
                    stacks = _stacks(process.pid)
                    process.kill()
                    code = HANGS
                output.seek(0)
                errors.seek(0)
                text = errors.read() + stacks
                run = Run(code, output.read(), text, time.monotonic() - began)
            if records is not None:
                _read(records, run)
            return run


def _ends(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _stacks(pid: int) -> str:
    """Where the threads of a process that hangs are, as far as this machine says."""
    found = [f"\nIt hangs: process {pid}"]
    for task in sorted(Path(f"/proc/{pid}/task").iterdir()):
        texts = []
        for name in ("comm", "wchan", "syscall"):
            try:
                texts.append((task / name).read_text().strip())
            except OSError:
                texts.append("?")
        found.append(f"{task.name} {' '.join(texts)}")
    debugger = shutil.which("gdb") or shutil.which("cuda-gdb")
    if debugger:
        words = [debugger, "-p", str(pid), "-batch", "-ex", "thread apply all bt 25"]
        try:
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=MOST_STACKS_S,
                check=False,
            )
            found.append(done.stdout[-12_000:])
        except subprocess.TimeoutExpired:
            found.append(f"{debugger} hangs as well")
    return "\n".join(found)


def _read(folder: Path, run: Run) -> None:
    """Add what was recorded."""
    for path in folder.glob("*.records"):
        try:
            found = kinds.read_records(path)
        except Exception as error:  # noqa: BLE001 - a finding as well
            run.notes.append(f"{path.name}: {error}")
            continue
        run.kernels += len(found.columns[kinds.KERNEL])
        run.windows += [window.ended_by for window in found.windows]
        named = ("other_subscriber", "no_cupti", "missing_function", "cupti_error", "not_finalized")
        run.notes += [f"{name} {text}" for name in named for text in found.notes(name)]
    run.notes += [path.name for path in folder.glob("problem.*")]


def make_programs(bench: Bench) -> dict[str, list[str]]:
    """Write and compile the programs; returns their commands."""
    found: dict[str, list[str]] = {}
    source = bench.folder / "plain.cu"
    source.write_text(CUDA)
    compiler = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if compiler is None:
        print("nvcc was not found: no program in CUDA C++", file=sys.stderr)
    for runtime in ("shared", "static") if compiler else ():
        target = bench.folder / f"plain_{runtime}"
        words = [str(compiler), "-O1", f"-cudart={runtime}", "-o", str(target), str(source)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"nvcc, {runtime} runtime: {done.stderr.strip()}", file=sys.stderr)
            continue
        found[f"plain CUDA, {runtime} runtime"] = [str(target)]
        found[f"plain CUDA, {runtime}, 4 threads, exit 3"] = [str(target), "4", "3"]
    for name, text in PYTHON.items():
        # No name of a module that the program imports.
        path = bench.folder / f"program_{re.sub(r'[^a-z]+', '_', name.lower())}.py"
        path.write_text(text)
        found[name] = [bench.python, str(path)]
    (bench.folder / "program_windows.py").write_text(WINDOWS)
    return found


def _jobs(
    names: list[str], runs: int, bare: int, seed: int
) -> Iterator[tuple[str, str, float | None]]:
    """Program, kind and begin of each run: first those without the collector."""
    chance = random.Random(seed)
    for _ in range(bare):
        yield from ((name, BARE, None) for name in names)
    for number in range(runs):
        name = names[number % len(names)]
        is_late = (number // len(names)) % 2
        yield name, COLLECTED, chance.uniform(*LATE_S) if is_late else 0.0


def _lacks(run: Run) -> bool:
    """Whether this machine has not what a program needs: then it says nothing."""
    return any(
        text in run.errors for text in ("no provider for CUDA", "ImportError", "ModuleNotFound")
    )


def run_all(
    bench: Bench, programs: Mapping[str, list[str]], options: argparse.Namespace, limit: float
) -> dict[str, dict[str, list[Run]]]:
    """Run everything, several at once, until it is done or the time is over."""
    found: dict[str, dict[str, list[Run]]] = {name: {BARE: [], COLLECTED: []} for name in programs}

    def one(job: tuple[str, str, float | None]) -> None:
        name, kind, begin_s = job
        left_s = limit - time.monotonic()
        if left_s > 0:
            run = bench.run(programs[name], begin_s=begin_s, most_s=min(MOST_S, left_s + 10))
            if run.code == HANGS and run.seconds < MOST_S:
                print(f"{name}: cut by --limit, which says nothing", flush=True)
                return
            found[name][kind].append(run)
            how = "bare" if begin_s is None else f"begin {begin_s:.1f} s"
            note = f" {run.notes}" if run.notes else ""
            what = f"code {run.code}, {run.kernels} kernels, {run.seconds:.1f} s"
            print(f"{name}, {how}: {what}{note}", flush=True)
            if run.code == HANGS or (begin_s is None and _lacks(run)):
                print(run.errors[-14_000:], flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        jobs = _jobs(list(programs), options.runs, options.bare, options.seed)
        list(pool.map(one, jobs))
    return found


def judge(name: str, runs: Mapping[str, list[Run]]) -> dict[str, Any]:
    """Compare the runs of one program."""
    bare, collected = runs[BARE], runs[COLLECTED]
    codes, outputs = {run.code for run in bare}, {run.output for run in bare}
    skipped = any(map(_lacks, bare))
    other = [run for run in collected if run.code not in codes or run.output not in outputs]
    unwanted = [
        run
        for run in collected
        if any(text in run.errors and all(text not in b.errors for b in bare) for text in UNWANTED)
    ]
    kernels = [run.kernels for run in collected]
    return {
        "program": name,
        "skipped": skipped,
        "bare": len(bare),
        "collected": len(collected),
        "codes": sorted(codes),
        "other_codes": sorted({run.code for run in other}),
        "other": len(other),
        "unwanted_messages": len(unwanted),
        "kernels": [min(kernels, default=0), max(kernels, default=0)],
        "windows": sorted({end for run in collected for end in run.windows}),
        "notes": sorted({note for run in collected for note in run.notes}),
        "bare_s": _median(bare),
        "collected_s": _median(collected),
        "examples": [
            {"code": run.code, "output": run.output[-500:], "errors": run.errors[-2000:]}
            for run in [*other, *unwanted][:3]
        ],
    }


def _median(runs: list[Run]) -> float | None:
    return round(statistics.median(run.seconds for run in runs), 2) if runs else None


def check_windows(bench: Bench, limit: float) -> list[dict[str, Any]]:
    """Let three programs attach and detach the collector."""
    found = []
    for kind in WINDOW_KINDS:
        left_s = limit - time.monotonic()
        if left_s <= 0:
            print(f"windows, {kind}: no time is left", flush=True)
            continue
        command = [
            bench.python,
            "-X",
            "faulthandler",
            str(bench.folder / "program_windows.py"),
            kind,
        ]
        # Without `started` the program alone decides.
        most_s = min(MOST_WINDOWS_S, left_s)
        run = bench.run(command, begin_s=2 * MOST_WINDOWS_S, most_s=most_s)
        if run.code == HANGS and run.seconds < MOST_WINDOWS_S:
            print(f"windows, {kind}: cut by --limit, which says nothing", flush=True)
            continue
        times: dict[str, Any] = {}
        for line in run.output.splitlines():
            with suppress(ValueError):
                times |= json.loads(line)
        if run.code:
            times["errors"] = run.errors[-14_000:]
        one = {"kind": kind, "code": run.code, "kernels": run.kernels, "windows": run.windows}
        found.append({**one, "notes": run.notes, **times})
        print(f"\nwindows, {kind}:", flush=True)
        for name, value in found[-1].items():
            print(f"  {name}: {value}", flush=True)
    return found


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print what was found as text."""
    columns = ("bare", "collected", "other", "unwanted_messages", "bare_s", "collected_s")
    print(
        f"{'program':36} " + " ".join(f"{name:>17}" for name in columns) + "  codes, kernels, notes"
    )
    for row in rows:
        cells = " ".join(f"{row[name]!s:>17}" for name in columns)
        more = f"{row['codes']} {row['kernels']} {','.join(row['windows'])} {row['notes']}"
        skipped = " (NOT TRIED)" if row["skipped"] else ""
        print(f"{row['program'] + skipped:36} {cells}  {more}")
        for example in row["examples"]:
            print(f"    {example['code']}: {example['output']!r} {example['errors'][-600:]!r}")


def main() -> int:
    """Run it; 1 if a program ended otherwise."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200, help="with the collector, in all")
    parser.add_argument("--bare", type=int, default=2, help="without it, of each program")
    parser.add_argument("--limit", type=float, default=360, help="of everything (s)")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--python", default=sys.executable, help="of the programs")
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--no-windows", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="file for everything that was found")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dlprof-harmless-") as name:
        library = shutil.copy(build_library(), name)
        bench = Bench(Path(name), options.python, Path(library), find_cupti(options.python))
        programs = {k: v for k, v in make_programs(bench).items() if options.only in k}
        began = time.monotonic()
        of_windows_s = 0 if options.no_windows else len(WINDOW_KINDS) * MOST_WINDOWS_S / 2
        found = run_all(bench, programs, options, began + options.limit - of_windows_s)
        rows = [judge(name, runs) for name, runs in found.items()]
        print_table(rows)
        # Last, while the machine does nothing else: it times steps.
        windows = [] if options.no_windows else check_windows(bench, began + options.limit)
    seconds = round(time.monotonic() - began)
    if options.json is not None:
        content = {"programs": rows, "windows": windows, "seconds": seconds}
        options.json.write_text(json.dumps(content, indent=1))
    wrong = sum(row["other"] + row["unwanted_messages"] for row in rows)
    collected = sum(row["collected"] for row in rows)
    print(
        f"\n{collected} runs with the collector in {seconds} s, {wrong} of them not as without it"
    )
    return int(wrong > 0 or any(one["code"] for one in windows))


if __name__ == "__main__":
    sys.exit(main())
