"""Compare our operations and bytes of seven ops with the hardware counters of Nsight Compute.

    python3 -m tests.gpu.counters --folder=/tmp/counters [--json=FILE] [--limit=220]

It records ``programs/six_kernels.py`` by dlprof's own collector and by torch.profiler, counts the
same kernels with ``ncu``, and prints both. Then it runs the commands of ``dlprof show --ncu`` for
the same ops, and checks that each profiles the launch that was chosen: the function and its grid.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from tests.flops.counters import imported
from tests.gpu.exam.__main__ import DLPROF, REPOSITORY

PROGRAM: Final = (sys.executable, str(Path(__file__).with_name("programs") / "six_kernels.py"))
CASES: Final = ("gemm", "attention", "causal attention", "experts", "norm", "copy", "quantize")
CAPTURE: Final = ("--collector=cupti", "--bare_steps=0", "--profile_steps=all", "--mode=pytorch")
TENSOR: Final = "sm__ops_path_tensor_src_bf16_dst_fp32.sum"
_EXECUTED: Final = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
VECTOR: Final = {_EXECUTED.format(op): 2 if op == "ffma" else 1 for op in ("fadd", "fmul", "ffma")}
MEMORY: Final = ("dram__bytes_read.sum", "dram__bytes_write.sum")
METRICS: Final = (TENSOR, *VECTOR, *MEMORY, "gpu__time_duration.sum")
# https://developer.nvidia.com/ERR_NVGPUCTRPERM; the second is what a sandboxed kernel says.
REFUSED: Final = re.compile(r"ERR_NVGPUCTRPERM|LibraryNotLoaded|No kernels were profiled")
_KERNELS: Final = """
    SELECT k.instance, n.name, o.op_id, k.start, k.duration,
        '(' || s.grid_x || ', ' || s.grid_y || ', ' || s.grid_z || ')'
    FROM kernels AS k JOIN kernel_names AS n ON n.id = k.name
    JOIN launch_sizes AS s ON s.id = k.size JOIN op_kernels AS q ON q.id = k.op_kernel
    JOIN ops AS o ON o.id = q.op ORDER BY k.id
"""
_COSTS: Final = """
    SELECT CASE WHEN count(u.flops) = count(*) THEN sum(p.calls * u.flops) END,
        CASE WHEN count(u.bytes) = count(*) THEN sum(p.calls * u.bytes) END, group_concat(u.name)
    FROM op_instances AS i JOIN op_cost_parts AS p ON p.cost = i.cost
    JOIN cost_units AS u ON u.id = p.unit WHERE i.id = ?
"""


class CountersError(Exception):
    """The counters could not be read; the text says why in one sentence."""


def run(words: Sequence[str], folder: Path) -> str:
    """Run a program and return what it printed.

    Raises:
        CountersError: It failed, or Nsight Compute may not read the counters.
    """
    began = time.monotonic()
    path = os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))
    # The program has ranges of its own, and Nsight Compute runs it without ours.
    environment = {**os.environ, "PYTHONPATH": path, "DLPROF_NVTX": "0"}
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=180
    )
    print(f"{time.monotonic() - began:5.1f} s  {shlex.join(words)[:110]}", flush=True)
    said = done.stdout + done.stderr
    refusal = next((line for line in said.splitlines() if REFUSED.search(line)), None)
    if refusal is not None:
        raise CountersError(f"Nsight Compute may not read the counters here: {refusal.strip()}")
    if done.returncode:
        raise CountersError(f"{words[0]} ended with {done.returncode}: {said[-1500:]}")
    return done.stdout


def find_ncu() -> str:
    """Return the path of Nsight Compute.

    Raises:
        CountersError: It is not installed.
    """
    folders = ("/usr/local/cuda*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
    installed = [str(path) for form in folders for path in sorted(Path("/").glob(form[1:]))]
    found = shutil.which("ncu") or next(reversed(installed), None)
    if found is None:
        raise CountersError("Nsight Compute (ncu) is not installed.")
    return found


def read_report(text: str) -> list[dict[str, str]]:
    """Return the kernels of ``ncu --csv --page raw``, whose second row has the units."""
    lines = text.splitlines()
    first = next((at for at, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    return list(csv.DictReader(lines[first:]))[1:]


def number(row: Mapping[str, str], metric: str) -> float | None:
    text = (row.get(metric) or "").replace(",", "")
    return float(text) if re.fullmatch(r"[\d.]+(e[+-]?\d+)?", text, re.IGNORECASE) else None


def total(rows: Sequence[Mapping[str, str]], factors: Mapping[str, int]) -> float | None:
    """Sum metrics over kernels; None: one of them was not counted."""
    values = [(number(row, name), factor) for row in rows for name, factor in factors.items()]
    if any(value is None for value, _ in values):
        return None
    return sum((value or 0) * factor for value, factor in values)


def count(ncu: str, program: Sequence[str], folder: Path) -> list[dict[str, str]]:
    """Return the counters of each kernel of the largest size."""
    report = str(folder / "counted.ncu-rep")
    options = ("--clock-control=none", "--profile-from-start=off", "--force-overwrite")
    metrics = f"--metrics={','.join(METRICS)}"
    run([ncu, *options, metrics, f"--export={report}", *program, "--only-largest"], folder)
    return imported_report(ncu, report, folder)


def imported_report(ncu: str, report: str, folder: Path) -> list[dict[str, str]]:
    options = ("--csv", "--page=raw", "--print-units=base", "--print-kernel-base=function")
    return read_report(run([ncu, f"--import={report}", *options], folder))


def our_ops(database: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return our counts of the ops that launched the last kernels, which should have these names.

    Raises:
        CountersError: They are not those of one op for each case.
    """
    with closing(sqlite3.connect(database)) as connection:
        kernels = connection.execute(_KERNELS).fetchall()[-len(names) :]
        ops: dict[int, dict[str, Any]] = {}
        for (instance, name, op_id, *_), counted in zip(kernels, names, strict=True):
            if name != counted:
                print(f"{database}: {name} was captured, {counted} counted")
            if instance not in ops:
                flops, moved, units = connection.execute(_COSTS, (instance,)).fetchone()
                ops[instance] = {"op_id": op_id, "flops": flops, "bytes": moved, "units": units}
            ops[instance]["num_kernels"] = ops[instance].get("num_kernels", 0) + 1
    if len(ops) != len(CASES):
        raise CountersError(f"Not one op for each case: {list(ops.values())} of {kernels}")
    return list(ops.values())


def compare(
    counted: Sequence[dict[str, str]], ways: Mapping[str, list[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    """Yield each op with our counts, by way of recording, beside those of the hardware."""
    first = 0
    for at, case in enumerate(CASES):
        ops = {way: found[at] for way, found in ways.items()}
        rows = counted[first : first + next(iter(ops.values()))["num_kernels"]]
        first += len(rows)
        tensor, vector = total(rows, {TENSOR: 1}), total(rows, VECTOR)
        yield {
            "case": case,
            "kernels": [row["Kernel Name"] for row in rows],
            "units": {way: op["units"] for way, op in ops.items()},
            "flops": {way: op["flops"] for way, op in ops.items()},
            "counted_flops": tensor or vector,
            "counted_vector_flops": vector,
            "bytes": {way: op["bytes"] for way, op in ops.items()},
            "counted_bytes": total(rows, dict.fromkeys(MEMORY, 1)),
        }


def ratio(ours: float | None, theirs: float | None) -> str:
    if ours is None or theirs is None:
        return "unknown"
    return f"{ours / theirs:.3f}" if theirs else "-" if ours else "both 0"


def table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Write the comparison, a row for each op and way of recording."""
    yield "| op | recorded by | GFLOP | counted | ratio | MB | memory | ratio |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        for way, flops in row["flops"].items():
            moved = row["bytes"][way]
            cells = []
            for ours, theirs, unit in (
                (flops, row["counted_flops"], 1e9),
                (moved, row["counted_bytes"], 1e6),
            ):
                numbers = ("unknown" if n is None else f"{n / unit:.3f}" for n in (ours, theirs))
                cells += [*numbers, ratio(ours, theirs)]
            yield f"| {row['case']} | {way} | {' | '.join(cells)} |"


def hand_over(ncu: str, database: Path, op_id: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Run the commands of an op, and yield whether each profiled the launch that was chosen."""
    said = run([*DLPROF, "show", f"--ncu={op_id}", "--format=json", str(database)], folder)
    with closing(sqlite3.connect(database)) as connection:
        starts = {(row[1], row[3]): row for row in connection.execute(_KERNELS)}
    for at, command in enumerate(json.loads(said)["commands"]):
        chosen = starts[command["kernel_name"], command["start_ns"]]
        place = folder / f"{re.sub(r'[^A-Za-z0-9]+', '_', op_id)}_{at}"
        place.mkdir()
        words = shlex.split(command["command"].replace("PROGRAM ARGUMENTS...", shlex.join(PROGRAM)))
        run([ncu, "--clock-control=none", *words[1:]], place)
        rows = imported_report(ncu, str(place / "report.ncu-rep"), place)
        profiled = [(row["Kernel Name"], row["Grid Size"]) for row in rows]
        time_ns = number(rows[0], "gpu__time_duration.sum") if rows else None
        yield {
            "command": command["command"],
            "chosen": (chosen[1], chosen[5]),
            "profiled": profiled,
            "launches": command["num_launches"],
            "gpu_time_ns": (command["gpu_time_ns"], time_ns),
            "is_right": profiled == [(chosen[1], chosen[5])],
        }


def main() -> int:
    """Run all, and return 1 if the counters could not be read or a command was wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--limit", type=float, default=200, help="seconds in which commands start")
    options = parser.parse_args()
    began = time.monotonic()
    folder = options.folder.resolve()
    folder.mkdir(parents=True)
    found: dict[str, Any] = {}
    try:
        check(folder, began + options.limit, found)
    except CountersError as error:
        found["error"] = str(error)
        print(error)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return int("error" in found or not all(row["is_right"] for row in found["hand_over"]))


def check(folder: Path, until_s: float, found: dict[str, Any]) -> None:
    """Record, count, compare, and hand over as long as there is time."""
    ncu = find_ncu()
    trace = folder / "trace.json"
    run([*PROGRAM, f"--trace={trace}"], folder)
    run([*DLPROF, *CAPTURE, *PROGRAM], folder)
    counted = count(ncu, PROGRAM, folder)
    names = [row["Kernel Name"] for row in counted]
    (folder / "traced").mkdir()
    database = folder / "dlprof_dldb.sqlite"
    ways = {"collector": our_ops(database, names)}
    ways["torch.profiler"] = our_ops(imported(trace, folder / "traced"), names)
    found["counters"] = list(compare(counted, ways))
    print("\n".join(table(found["counters"])), flush=True)
    found["hand_over"] = []
    for op_id in dict.fromkeys(op["op_id"] for op in ways["collector"]):
        if time.monotonic() > until_s:
            print(f"no time left for {op_id}")
            break
        for row in hand_over(ncu, database, op_id, folder):
            found["hand_over"].append(row)
            verdict = "ok   " if row["is_right"] else "WRONG"
            print(verdict, row["command"], row["chosen"], row["profiled"], row["gpu_time_ns"])


if __name__ == "__main__":
    sys.exit(main())
