"""Try ``dlprof --standby`` on a GPU: run as ``python3 -m tests.gpu.standby --folder=/tmp/standby``.

What standing by costs, by the program's own clock, in turns with the bare program; then windows of
a job that goes on, and its steps before and after them.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
from pathlib import Path
from typing import Any

from tests.gpu.exam.__main__ import DLPROF, RUN_S, WARM_UP, WAVE, Run, _wait, program

BASES = ("atoms", "detector", "convnet", "words", "small", "adapters")
LONG = ("atoms", 1500)
WINDOWS = 4


def time_in_turns(folder: Path, repeats: int) -> dict[str, Any]:
    """Time each program with and without standby; returns the cost and its spread, in percent."""
    order = [(name, way) for name in BASES for way in ("bare", "standby")] * repeats
    random.Random(7).shuffle(order)
    means: dict[tuple[str, str], list[float]] = {}
    for first in range(0, len(order), WAVE):
        wave = order[first : first + WAVE]
        runs = []
        for at, (name, way) in enumerate(wave):
            words = program(name, "", ["--steps=40", "--seconds=2"])
            before = [*DLPROF, "--standby"] if way == "standby" else []
            runs.append(Run(folder / "runs", f"run{at}", [*before, *words], WARM_UP))
        for run in runs:
            run.wait_ready()
        for key, run in zip(wave, runs, strict=True):
            found = run.let_go()
            shown: Any = statistics.median(found["times_ms"]) if "times_ms" in found else found
            print(*key, shown, flush=True)
            if "times_ms" in found:
                means.setdefault(key, []).append(shown)
    result = {}
    for name in BASES:
        bare, standby = means.get((name, "bare"), []), means.get((name, "standby"), [])
        if bare and standby:
            cost = 100 * (statistics.median(standby) / statistics.median(bare) - 1)
            spread = 100 * (max(bare) - min(bare)) / statistics.median(bare)
            result[name] = {"bare_ms": bare, "standby_ms": standby, "cost_pct": cost}
            print(f"{name}: standby {cost:+.2f} %, bare runs differ by {spread:.2f} %", flush=True)
    return result


def record_windows(folder: Path) -> dict[str, Any]:
    """Record windows of a job that runs on; returns its steps before and after them."""
    name, steps = LONG
    words = program(name, "", [f"--steps={steps}", "--seconds=0"])
    run = Run(folder / "long", "long", [*DLPROF, "--standby", *words], WARM_UP)
    run.wait_ready()
    run.gate.with_suffix(".go").touch()
    shown = []
    for number in range(WINDOWS):
        memory = _memory(run.process.pid)
        target = folder / f"window{number}"
        asked = [*DLPROF, "record", "--steps=40", f"--output_path={target}", "--keep_export"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        first = re.search("Step: [^.]*", done.stdout)
        databases = [path.name for path in target.glob("*.sqlite")]
        print(number, done.returncode, first and first[0], databases, memory, flush=True)
        print(done.stderr[-500:], end="")
        shown.append({"code": done.returncode, "said": done.stdout[-3000:], "memory": memory})
    _wait(RUN_S, lambda: run.has_ended)
    times = json.loads(run.report.read_text())["times_ms"]
    ends = {"first": statistics.median(times[:50]), "last": statistics.median(times[-200:])}
    print(ends, len(times), flush=True)
    return {"windows": shown, **ends, "times_ms": times}


def _memory(root: int) -> dict[str, int]:
    """Resident memory of dlprof itself and of the program, in MiB, and open files of the latter."""
    found = {}
    children = Path(f"/proc/{root}/task/{root}/children").read_text().split()
    for title, pid in (("dlprof", root), *(("program", int(child)) for child in children)):
        status = Path(f"/proc/{pid}/status").read_text()
        found[title] = int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) // 1024
        found[f"{title}_files"] = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return found


def main() -> None:
    """Run both parts, and write what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = {"windows": record_windows(options.folder)}
    found["cost"] = time_in_turns(options.folder, options.repeats)
    if options.json:
        options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
