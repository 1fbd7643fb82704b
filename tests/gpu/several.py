"""Try dlprof on several ranks: run as ``python3 -m tests.gpu.several --folder=/tmp/several``.

Ranks that are late on purpose, and ranks that are not; names, steps and windows of each rank; a
rank whose launches take longer, compared. Predictions for several ranks are bases of the exam
(``python -m tests.gpu.exam``), overhead is measured by ``benchmarks.overhead``, and a running job
by ``tests.gpu.standby``.
"""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.recorded_names import compare_names
from tests.gpu.exam.__main__ import CAPTURE, DLPROF, HERE, Run, ask

REPOSITORY: Final = Path(__file__).parents[2]
RECORDS: Final = Path(__file__).with_suffix(".jsonl")
PAGE: Final = REPOSITORY / "benchmarks" / "RANKS.md"
LATE_MS: Final = 200
LATE_RANK: Final = 1
WORDS: Final = {
    "python": ("Python",),
    "kernel": ("spin_kernel", "sleep", "Pause", "backward"),
    "loader": ("data", "loader", "input"),
}
"""Words of which the advice must say one, by what makes the rank late."""
KINDS: Final = {"ddp": "", "fsdp": "--fsdp", "tensor": "--tensor"}
SAME_STEP_PCT: Final = 3.0
AMOUNT_PCT: Final = 5.0
_STEPS: Final = (
    "SELECT rank, phase, number FROM DLPROF_STEP_TIMES WHERE phase <> 'bare'"
    " ORDER BY rank, phase, number"
)
_UNPROFILED: Final = "SELECT bare_step FROM view_step_reference WHERE aggr_id = 1"


@dataclass(frozen=True)
class Case:
    """A capture, and which rank is late in it."""

    name: str
    words: str
    cause: str = ""
    every: int = 1
    options: tuple[str, ...] = ()
    """Of dlprof."""

    @property
    def database(self) -> str:
        return f"{self.name}/dlprof_dldb.sqlite"


def cases(quiet: int) -> list[Case]:
    """Return all captures; ``quiet`` of them have no late rank, beside those of the names."""
    late = [
        Case(
            f"{cause}_every{every}",
            f"--late-{cause}={LATE_MS} --every={every} --late-rank={LATE_RANK}",
            cause,
            every,
        )
        for cause in WORDS
        for every in (1, 5)
    ]
    names = [
        Case(f"{kind}{suffix}", words, options=options)
        for kind, words in KINDS.items()
        for suffix, options in (("", ()), ("_high", ("--detail=high",)))
    ]
    stretched = Case("stretched", f"--stretch-pct=170 --late-rank={LATE_RANK}")
    kinds = list(KINDS.values())
    quiets = [Case(f"quiet{number}", kinds[number % len(kinds)]) for number in range(quiet)]
    return [*names, *late, stretched, *quiets]


def count_gpus(folder: Path) -> int:
    """Return the number of GPUs that the captures of a folder used."""
    for path in folder.glob("*/nsys_profile.sqlite"):
        with closing(sqlite3.connect(path)) as connection:
            query = "SELECT count(DISTINCT cuDevice) FROM TARGET_INFO_GPU"
            return int(connection.execute(query).fetchone()[0])
    return len(list(Path("/proc/driver/nvidia/gpus").glob("*")))


def write_page() -> None:
    """Replace the tables of the page by the records."""
    rows = [json.loads(line) for line in RECORDS.read_text(encoding="utf-8").splitlines()]
    last = {(row["gpus"], row["ranks"], row["line"], row["case"]): row for row in rows}
    held = sum(row["holds"] for row in last.values())
    lines = [
        f"{held} of {len(last)} lines hold.",
        "",
        "| ranks | GPUs | line | capture | holds | found |",
        "|---|---|---|---|---|---|",
    ]
    for row in last.values():
        found = row["found"].replace("|", "/")
        cells = [row["ranks"], row["gpus"], row["line"], f"`{row['case']}`"]
        cells += ["yes" if row["holds"] else "**no**", found]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    mark = r"(<!-- ranks -->\n).*?(<!-- end of the ranks -->)"
    text = PAGE.read_text(encoding="utf-8")
    table = "\n".join(lines)
    PAGE.write_text(
        re.sub(mark, lambda found: f"{found[1]}{table}\n{found[2]}", text, flags=re.S),
        encoding="utf-8",
    )


class Bench:
    """The captures of a folder, and the lines that are printed about them."""

    def __init__(self, folder: Path, ranks: int) -> None:
        self.folder, self.ranks = folder, ranks
        self.utc = datetime.now(UTC).isoformat(timespec="minutes")
        self.gpus = count_gpus(folder)
        self.rows: list[dict[str, Any]] = []

    def start(self, case: Case, more: Sequence[str]) -> Run:
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={self.ranks}"]
        program = [str(HERE / "group.py"), *case.words.split(), "--steps=50", *more]
        words = [*DLPROF, *CAPTURE, *case.options, sys.executable, *launcher, *program]
        return Run(self.folder / case.name, case.name, words, 0)

    def capture(self, wanted: Sequence[Case], more: Sequence[str], wave: int, end_s: float) -> None:
        """Start ``wave`` captures at once; their steps then run one after the other."""
        for first in range(0, len(wanted), wave):
            if time.monotonic() > end_s:
                print("no time left", flush=True)
                return
            part = wanted[first : first + wave]
            runs = [self.start(case, more) for case in part]
            for run in runs:
                run.wait_ready()
            for case, run in zip(part, runs, strict=True):
                report = run.let_go()
                print(case.name, report.get("error", "captured"), run.process.wait(), flush=True)

    def note(self, line: str, case: str, *, is_true: bool, found: str) -> None:
        row = {"line": line, "case": case, "holds": is_true, "found": found}
        self.rows.append({"utc": self.utc, "gpus": self.gpus, "ranks": self.ranks, **row})
        print(f"{'ok   ' if is_true else 'WRONG'} {line}: {case}: {found}", flush=True)

    def judge_late(self, case: Case) -> None:
        """Compare what dlprof says of late ranks with what was planted."""
        path = str(self.folder / case.database)
        answer = ask(["stragglers", path, "--json"])
        named, reason = answer.get("slow_rank"), answer.get("error", answer.get("verdict"))
        if not case.cause:
            self.note("no rank is named", case.name, is_true=named is None, found=str(reason))
            return
        self.note("late rank", case.name, is_true=named == LATE_RANK, found=str(reason))
        self.judge_amount(case, answer)
        advice = ask(["advise", path, "--json", "--fail_on=never"]).get("advice", [])
        texts = (f"{row['problem']}: {row['recommendation']}" for row in advice)
        said = next((text for text in texts if f"ank {LATE_RANK}" in text), "no finding")
        is_said = any(word in said for word in WORDS[case.cause])
        self.note("cause", case.name, is_true=is_said, found=said[:300])

    def judge_amount(self, case: Case, answer: dict[str, Any]) -> None:
        """Compare the step without the late rank with that of the training in which none is."""
        quiet, late = (self.own_times(name) for name in ("ddp", case.name))
        if not quiet or not late or "step_ns" not in answer:
            self.note("amount", case.name, is_true=False, found="not known")
            return
        (without_ns,) = (
            row["step_without_ns"] for row in answer["ranks"] if row["rank"] == LATE_RANK
        )
        steps = len(answer["iterations"])
        # Of the steps in which it is late: a window has four or three of 19 as one of five.
        slow = max(len(answer["slow_iterations"]), 1) if case.every > 1 else steps
        said_ms = (answer["step_ns"] - without_ns) / 1e6 * steps / slow
        longest = sorted(late)[-len(late) // case.every :]
        real_ms = statistics.median(longest) - statistics.median(quiet)
        is_near = abs(said_ms - real_ms) <= AMOUNT_PCT / 100 * real_ms
        found = f"{said_ms:.1f} ms a late step, own clock {real_ms:.1f} ms"
        self.note("amount", case.name, is_true=is_near, found=found)

    def own_times(self, name: str) -> list[float]:
        """Return the steps by the clock of the program. Unit: ms."""
        report = self.folder / name / f"{name}.json"
        found: list[float] = json.loads(report.read_text())["times_ms"] if report.is_file() else []
        return found

    def judge_names(self, kind: str) -> None:
        """Compare names, steps and windows of the ranks of a kind of training."""
        light, marked = (
            self.folder / kind / "dlprof_dldb.sqlite" for kind in (kind, f"{kind}_high")
        )
        if not (light.is_file() and marked.is_file()):
            self.note("names", kind, is_true=False, found="not captured")
            return
        counts = compare_names(light, marked)
        is_right = counts["compared"] > 0 and not counts["wrong"]
        self.note("names", kind, is_true=is_right, found=str(counts)[:400])
        with closing(sqlite3.connect(self.folder / kind / "nsys_profile.sqlite")) as connection:
            steps: dict[int, list[tuple[Any, ...]]] = {}
            for rank, *step in connection.execute(_STEPS):
                steps.setdefault(rank, []).append(tuple(step))
        is_same = len(steps) == self.ranks and len({tuple(rows) for rows in steps.values()}) == 1
        found = f"recorded steps of the ranks: {[len(rows) for rows in steps.values()]}"
        self.note("same steps in all ranks", kind, is_true=is_same, found=found)
        with closing(sqlite3.connect(light)) as connection:
            row = connection.execute(_UNPROFILED).fetchone()
        unprofiled_ms = row[0] / 1e6 if row and row[0] else None
        own = self.own_times(kind)
        # The first 20 steps are timed without profiling; the own clock leaves out ten of them.
        own_ms = statistics.median(own[:9]) if len(own) > 9 else None
        is_near = bool(unprofiled_ms and own_ms) and (
            abs(unprofiled_ms / own_ms - 1) <= SAME_STEP_PCT / 100  # type: ignore[operator]
        )
        found = f"{unprofiled_ms} ms, own clock {own_ms} ms"
        self.note("step without profiling", kind, is_true=is_near, found=found)

    def judge_stretched(self) -> None:
        """Compare a rank whose launches take longer with the same training without."""
        base, new = (
            str(self.folder / name / "dlprof_dldb.sqlite") for name in ("ddp", "stretched")
        )
        answer = ask(["compare", base, new, "--format=json"])
        headline = json.dumps(answer.get("headline", answer.get("error")))
        is_named = f"ank {LATE_RANK}" in headline or f"rank_{LATE_RANK}" in headline
        is_clean = "AllReduce" not in headline
        self.note("stretched launches", "compare", is_true=is_named and is_clean, found=headline)


def main() -> int:
    """Run it; 1 if something is not as it must be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "build" / "several")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--quiet", type=int, default=20, help="captures without a late rank")
    parser.add_argument("--wave", type=int, default=6, help="captures that start at once")
    parser.add_argument("--only", help="comma list of beginnings of names")
    parser.add_argument("--limit", type=float, default=500, help="no wave begins after so many s")
    parser.add_argument(
        "--judge", action="store_true", help="captures that are there; capture none"
    )
    parser.add_argument("--keep", action="store_true", help="append what was found to the records")
    parser.add_argument("--table", action="store_true", help="only write the page of the records")
    options, more = parser.parse_known_args()
    if options.table:
        write_page()
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(options.folder.resolve(), options.ranks)
    starts = tuple(options.only.split(",")) if options.only else ("",)
    wanted = [case for case in cases(options.quiet) if case.name.startswith(starts)]
    if not options.judge:
        bench.capture(wanted, more, options.wave, time.monotonic() + options.limit)
    for case in wanted:
        if (bench.folder / case.database).is_file() and case.name != "stretched":
            bench.judge_late(case)
    for kind in KINDS:
        if any(case.name == kind for case in wanted):
            bench.judge_names(kind)
    if any(case.name == "stretched" for case in wanted):
        bench.judge_stretched()
    if options.keep:
        with RECORDS.open("a", encoding="utf-8") as output:
            output.writelines(json.dumps(row) + "\n" for row in bench.rows)
    wrong = [row for row in bench.rows if not row["holds"]]
    print(f"{len(bench.rows) - len(wrong)} of {len(bench.rows)} lines hold")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
