"""``python -m tests.gpu.exam PHASE``: what dlprof predicts for changes, and what they give.

``capture`` and ``measure`` run the programs on a GPU, ``predict`` asks dlprof about the captures,
``table`` writes the page. Predictions are committed before ``measure`` runs a changed program.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aggregator.compare.trials import Estimate, TrialRun, judge_variant, mean_step
from tests.gpu.exam.base import GATE, GATE_AT, REPORT
from tests.gpu.exam.plan import PLAN

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
PREDICTED, MEASURED = HERE / "predicted.jsonl", HERE / "measured.jsonl"
PAGE = REPOSITORY / "benchmarks" / "PREDICTIONS.md"
DLPROF = [
    sys.executable,
    "-c",
    "import sys; from profiler_cli.dlprof import main; sys.exit(main())",
]
CAPTURE = [
    *("--collector=cupti", "--bare_steps=20", "--profile_steps=24", "--force=true"),
    "--end_with_dlprof=true",
]
WAVE = 14
"""Programs that start at once; their steps then run one after the other."""
REPEATS = 3
WARM_UP = 6
"""Steps before the gate of a measurement."""
READY_S, RUN_S = 180.0, 60.0


class Run:
    """A program that has been started and waits at its gate."""

    def __init__(self, folder: Path, name: str, words: Sequence[str], gate_at: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.gate, self.report = folder / name, folder / f"{name}.json"
        self.log = folder / f"{name}.log"
        for path in folder.glob(f"{name}.*"):
            path.unlink()
        environment = {
            **os.environ,
            GATE: str(self.gate),
            GATE_AT: str(gate_at),
            REPORT: str(self.report),
            "PYTHONPATH": f"{REPOSITORY}:{os.environ.get('PYTHONPATH', '')}",
        }
        with self.log.open("w") as output:
            self.process = subprocess.Popen(
                words, env=environment, cwd=folder, stdout=output, stderr=output
            )

    def wait_ready(self) -> None:
        """Wait until its steps may begin, or it has ended."""
        _wait(READY_S, lambda: self.has_ended or self.gate.with_suffix(".ready").exists())

    def let_go(self) -> dict[str, Any]:
        """Let it run its steps and end; returns what it reported, or why it did not."""
        self.gate.with_suffix(".go").touch()
        _wait(RUN_S, lambda: self.has_ended)
        if not self.has_ended:
            self.process.kill()
        with contextlib.suppress(OSError, ValueError):
            return dict(json.loads(self.report.read_text()))
        return {"error": self.log.read_text(errors="replace").strip()[-400:] or "no report"}

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None


def _wait(seconds: float, is_over: Callable[[], bool]) -> None:
    end_s = time.monotonic() + seconds
    while not is_over() and time.monotonic() < end_s:
        time.sleep(0.01)


def program(name: str, change: str, more: Sequence[str]) -> list[str]:
    """Return the command of a base of the plan with a change."""
    base = PLAN[name]
    words = [str(HERE / f"{base.program}.py"), *base.words.split(), *change.split(), *more]
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={base.ranks}"]
    return [sys.executable, *(launcher if base.ranks > 1 else []), *words]


def capture(folder: Path, names: Sequence[str], more: Sequence[str]) -> None:
    """Capture each base, after the one before it has become a profile."""
    runs: list[Run] = []
    for name in names:
        words = program(name, "", ["--steps=80", "--seconds=4", *more])
        runs.append(Run(folder / name, name, [*DLPROF, *CAPTURE, *words], 0))
    for run in runs:
        run.wait_ready()
    for name, run in zip(names, runs, strict=True):
        error = run.let_go().get("error", "captured")
        print(name, error, "exit code", run.process.wait(), flush=True)


def measure(
    folder: Path, names: Sequence[str], more: Sequence[str], repeats: int, limit_s: float
) -> None:
    """Time bases and their changes in turn, in a random order, without dlprof."""
    end_s = time.monotonic() + limit_s
    order: list[tuple[int, str, str]] = []
    for turn, name in itertools.product(range(repeats), names):
        variants = ["", *(change for change, _ in PLAN[name].changes)]
        random.Random(f"{name} {turn}").shuffle(variants)
        order += [(turn, name, variant) for variant in variants]
    with (folder / "measured.jsonl").open("a", encoding="utf-8") as output:
        for first in range(0, len(order), WAVE):
            wave = order[first : first + WAVE]
            if time.monotonic() > end_s:
                print("no time left", flush=True)
                return
            runs = [
                Run(folder / "runs", f"run{at}", program(name, change, more), WARM_UP)
                for at, (_, name, change) in enumerate(wave)
            ]
            for run in runs:
                run.wait_ready()
            for (turn, name, change), run in zip(wave, runs, strict=True):
                begun = datetime.now(UTC).isoformat(timespec="seconds")
                found = run.let_go()
                row = {"base": name, "change": change, "turn": turn, "utc": begun, **found}
                output.write(json.dumps(row) + "\n")
                output.flush()
                shown = statistics.fmean(found["times_ms"]) if "times_ms" in found else found
                print(name, change, shown, flush=True)


def ask(words: Sequence[str]) -> dict[str, Any]:
    """Run a command of dlprof that answers in JSON; its message where it has no answer."""
    done = subprocess.run([*DLPROF, *words], capture_output=True, text=True, check=False)
    with contextlib.suppress(ValueError):
        return dict(json.loads(done.stdout))
    return {"error": done.stderr.strip().removeprefix("dlprof: error: ")[:300]}


def predict(folder: Path, names: Sequence[str]) -> None:
    """Ask dlprof about each change of the captures, and append its answers to the records."""
    head = ["git", "-C", str(REPOSITORY), "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()
    with PREDICTED.open("a", encoding="utf-8") as output:
        for name in names:
            place = folder / name
            export, database = (
                place / "nsys_profile.sqlite",
                place / "predict" / "dlprof_dldb.sqlite",
            )
            words = [f"--database={export}", f"--output_path={database.parent}", "--force=true"]
            subprocess.run([*DLPROF, *words], capture_output=True, check=False)
            advice = ask(["advise", str(database), "--json", "--fail_on=never"])
            for change, question in PLAN[name].changes:
                command, *rest = question.split()
                answer = (
                    advised(advice, rest)
                    if command == "advise"
                    else replayed(ask(["whatif", str(database), *rest, "--format=json"]))
                )
                row = {"base": name, "change": change, "question": question}
                row |= {"utc": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit}
                output.write(json.dumps(row | answer) + "\n")
                print(name, change, answer, flush=True)


def advised(document: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the saving that an advice promises, as a share of the step.

    Args:
        document: What ``dlprof advise`` writes.
        names: The advice; several where one of them replaces the others.
    """
    for row in document.get("advice", ()):
        if row["advice_name"] in names and row["gain_pct"] is not None:
            found = {"saving_pct": row["gain_pct"], "confidence": row["certainty"]}
            return found | {"source": row["gain_source"], "said": row["recommendation"]}
    return {"saving_pct": None, "said": document.get("error", "no such advice")}


def replayed(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the saving that a what-if promises, as a share of the step."""
    if (saving_ns := answer.get("saving_ns")) is None:
        return {"saving_pct": None, "said": answer.get("error", "unknown")}
    step_ns, interval = answer["measured_step_ns"], answer["interval_ns"] or ()
    confidence = {"high": "likely"}.get(answer["confidence"], "possible")
    found = {
        "saving_pct": 100 * saving_ns / step_ns,
        "interval_pct": [100 * (1 - time_ns / step_ns) for time_ns in reversed(interval)],
        "confidence": "possible" if answer["is_bound"] else confidence,
    }
    return found | {"source": answer["basis"], "step_ms": step_ns / 1e6}


def read_records(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file, in their order."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def estimate(measured: Sequence[dict[str, Any]], base: str, change: str) -> Estimate:
    """Compare a change with its base by the rules of ``dlprof trial``."""
    runs: list[TrialRun] = []
    for row in measured:
        if row["base"] == base and row["change"] in ("", change) and row.get("times_ms"):
            step_ns, pauses = mean_step([round(1e6 * time_ms) for time_ms in row["times_ms"]])
            steps = len(row["times_ms"])
            run = TrialRun(int(row["change"] == change), len(runs), step_ns, steps, pauses)
            runs.append(replace(run, samples=row["samples"]))
    return judge_variant(runs, 1)


def table_lines(
    predicted: Sequence[dict[str, Any]], measured: Sequence[dict[str, Any]]
) -> list[str]:
    """Return the tables: the last predictions before the measurement, then later ones."""
    began: dict[tuple[str, str], str] = {}
    for row in measured:
        began.setdefault((row["base"], row["change"]), row["utc"])
    last: dict[tuple[str, str], dict[str, Any]] = {}
    later = []
    for row in predicted:
        name = row["base"], row["change"]
        if row["utc"] < began.get(name, "9"):
            last[name] = row
        else:
            later.append(row)
    before = list(last.values())
    lines = _table(before, measured)
    if later:
        lines += ["", "Asked again after the measurement, of a later version (these do not count):"]
        lines += ["", *_table(later, measured)]
    return [*lines, "", *_base_lines(before, measured)]


def _base_lines(
    predicted: Sequence[dict[str, Any]], measured: Sequence[dict[str, Any]]
) -> list[str]:
    """Return the table of the unchanged programs: a share depends on how fast they ran."""
    steps = {row["base"]: row["step_ms"] for row in predicted if "step_ms" in row}
    lines = [
        "| program | step of the capture without profiling, ms | measured runs, ms |",
        "|---|---|---|",
    ]
    for base, step_ms in steps.items():
        runs = [row for row in measured if row["base"] == base and not row["change"]]
        means = [f"{statistics.fmean(run['times_ms']):.1f}" for run in runs if "times_ms" in run]
        lines.append(f"| {base} | {step_ms:.1f} | {', '.join(means)} |")
    return lines


def _table(predicted: Sequence[dict[str, Any]], measured: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        "| program | change | asked | at (UTC) | certainty | predicted | measured | error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    errors: list[float] = []
    sure: list[float] = []
    wrong = silent = count = 0
    for row in predicted:
        found = estimate(measured, row["base"], row["change"])
        real = None if found.change_pct is None else -found.change_pct
        saving = row["saving_pct"]
        error = None if saving is None or real is None else saving - real
        count += real is not None
        silent += saving is None and real is not None
        if error is not None and real is not None:
            errors.append(abs(error))
            wrong += (saving >= 1 and real <= -1) or (saving <= -1 and real >= 1)
            sure += [abs(error)] if row["confidence"] == "sure" else []
        lines.append(_line(row, found, error))
    if not errors:
        return lines
    near = sum(error <= 10 for error in errors)
    names = {row["base"] for row in measured}
    of_sure = f"{sum(error <= 5 for error in sure)} of the {len(sure)} that were sure"
    summary = (
        f"{count} changes of {len(names)} captures; dlprof gave no number for {silent}. "
        f"Of the others the median error is {statistics.median(errors):.1f} points of the step, "
        f"{near} of {len(errors)} ({100 * near / len(errors):.0f} %) are within 10 points, and "
        f"{wrong or 'none'} {'have' if wrong > 1 else 'has'} the wrong sign. "
        f"{of_sure + ' are within 5 points' if sure else 'None was sure'}."
    )
    return [summary, "", *lines]


def _line(row: dict[str, Any], found: Estimate, error: float | None) -> str:
    saving, shown = row["saving_pct"], "none"
    if saving is not None:
        shown = f"{saving:.1f} %"
        if interval := row.get("interval_pct"):
            shown += f" ({interval[0]:.1f} to {interval[1]:.1f})"
    real = "not measured"
    if found.change_pct is not None:
        real = f"{0.0 - found.change_pct:.1f} %"
        if found.interval_pct is not None:
            low, high = (0.0 - bound for bound in reversed(found.interval_pct))
            real += f" ({low:.1f} to {high:.1f})"
    off = "" if error is None else f"{error:+.1f}"
    off = f"**{off}**" if error is not None and abs(error) > 10 else off
    cells = [row["base"], f"`{row['change']}`", f"`{row['question']}`", row["utc"][:16]]
    return f"| {' | '.join([*cells, row.get('confidence', ''), shown, real, off])} |"


def write_page() -> None:
    """Replace the tables of the page."""
    text = PAGE.read_text(encoding="utf-8")
    lines = "\n".join(table_lines(read_records(PREDICTED), read_records(MEASURED)))
    mark = r"(<!-- exam -->\n).*?(<!-- end of the exam -->)"
    PAGE.write_text(
        re.sub(mark, lambda found: f"{found[1]}{lines}\n{found[2]}", text, flags=re.S),
        encoding="utf-8",
    )


def main() -> None:
    """Run a phase."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("phase", choices=("capture", "predict", "measure", "table"))
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "build" / "exam")
    parser.add_argument("--bases", default=",".join(PLAN), help="comma list")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--limit", type=float, default=560.0, help="no wave begins after so many s")
    options, more = parser.parse_known_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    folder, names = options.folder.resolve(), options.bases.split(",")
    if options.phase == "capture":
        capture(folder, names, more)
    elif options.phase == "predict":
        predict(folder, names)
    elif options.phase == "measure":
        measure(folder, names, more, options.repeats, options.limit)
    else:
        write_page()


if __name__ == "__main__":
    main()
