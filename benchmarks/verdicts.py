"""Count how often verdicts of comparisons are right, on captures whose difference is known.

    python -m benchmarks.verdicts FOLDER [--op extra/mul_] [--halves 520] [--also DATABASE ...]

FOLDER holds captures named PROGRAM_CHANGE_NUMBER, as databases or summaries: CHANGE is by how many
percent the op of ``--op`` was made longer, 00 for the program as it is. Captures of the same
program are drawn as both sides (no verdict but "same" and "cannot tell" is right), and against
those with a change (the op should be slower). ``--halves`` also compares random halves of the
iterations of single captures: those without a change, and further databases or summaries.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from aggregator.compare.captures import CaptureData
from aggregator.compare.engine import compare
from aggregator.compare.result import Comparison, Verdict
from aggregator.compare.sides import Source, read_source
from aggregator.profile.arrays import Int64

_NAME: Final = re.compile(r"^(?P<program>.+)_(?P<change>\d\d)_\d+\.(?:sqlite|summary\.json\.gz)$")
_CALLED: Final = (Verdict.SLOWER, Verdict.FASTER)
_CAPTURES: Final = 3  # A side.


@dataclass
class Tally:
    """Comparisons of one kind."""

    what: str
    draws: int = 0
    steps_called: int = 0
    rows: int = 0
    rows_called: int = 0
    ops_slower: int = 0  # Comparisons in which the changed op was called slower.
    change: float = 0.0  # Sum of its measured changes, as a share of the base.

    def add(self, found: Comparison, op: str) -> None:
        """Count one."""
        called = [row for row in found.rows if row.judgement.verdict in _CALLED]
        self.draws += 1
        self.steps_called += found.judgement.verdict in _CALLED
        self.rows += len(found.rows)
        self.rows_called += len(called)
        for row in found.rows:
            if row.kind == "other compute" and f"{row.module}{row.op}".endswith(f"/{op}"):
                self.ops_slower += row.judgement.verdict is Verdict.SLOWER
                self.change += float(row.difference_ns / row.base_ns)
                break

    def __str__(self) -> str:
        draws = max(self.draws, 1)
        return (
            f"{self.what}: step called {self.steps_called} of {self.draws}, rows called"
            f" {self.rows_called} of {self.rows}, op slower {self.ops_slower} of {self.draws}"
            f" ({100 * self.change / draws:+.2f} %)"
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Run it and print a line for each kind of comparison."""
    options = _parser().parse_args(argv)
    random = np.random.default_rng(options.seed)
    programs: dict[str, dict[int, list[CaptureData]]] = {}
    for path in sorted(options.folder.iterdir()):
        if name := _NAME.match(path.name):
            changes = programs.setdefault(name["program"], {})
            data = _read(path, options.iterations)
            changes.setdefault(int(name["change"]), []).append(data)
    for program, changes in programs.items():
        for tally in _drawn(program, changes, options, random):
            print(tally, flush=True)
    single = [capture for changes in programs.values() for capture in changes.get(0, [])]
    single += [_read(path, None) for path in options.also]
    for tally in _halves(single, options, random) if options.halves else ():
        print(tally, flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdicts", description=__doc__)
    parser.add_argument("folder", type=Path, help="captures named PROGRAM_CHANGE_NUMBER")
    parser.add_argument("--op", default="extra/mul_", help="end of the changed op's path")
    parser.add_argument("--iterations", default="5-15", help="iterations of each (default 5-15)")
    parser.add_argument("--draws", type=int, default=40, help="comparisons of a kind (default 40)")
    parser.add_argument("--halves", type=int, default=0, help="random halves, over all captures")
    parser.add_argument("--also", nargs="*", type=Path, default=[], help="more files to halve")
    parser.add_argument("--seed", type=int, default=1)
    return parser


def _read(path: Path, iterations: str | None) -> CaptureData:
    name = str(path) if iterations is None else f"{path}@{iterations}"
    return read_source(Source.parse(name), path)


def _drawn(
    program: str,
    changes: dict[int, list[CaptureData]],
    options: argparse.Namespace,
    random: np.random.Generator,
) -> Iterator[Tally]:
    base = changes.get(0, [])
    for count in (_CAPTURES, 1):
        if len(base) >= 2 * count:
            same = Tally(f"{program}, {len(base)} captures, {count} a side, no change")
            for _ in range(options.draws):
                chosen = random.permutation(len(base))[: 2 * count]
                sides = [[base[row] for row in part] for part in np.split(chosen, 2)]
                same.add(compare(*sides), options.op)
            yield same
    for change, new in sorted(changes.items()):
        if change and min(len(base), len(new)) >= _CAPTURES:
            known = Tally(f"{program}, {_CAPTURES} a side, {change} %")
            for _ in range(options.draws):
                known.add(compare(_some(base, random), _some(new, random)), options.op)
            yield known


def _some(captures: Sequence[CaptureData], random: np.random.Generator) -> list[CaptureData]:
    return [captures[row] for row in random.permutation(len(captures))[:_CAPTURES]]


def _halves(
    captures: Sequence[CaptureData], options: argparse.Namespace, random: np.random.Generator
) -> Iterator[Tally]:
    total = Tally(f"random halves of {len(captures)} captures")
    for number in range(options.halves):
        data = captures[number % len(captures)]
        order = random.permutation(len(data.ownership.numbers))
        halves = [np.sort(part) for part in np.array_split(order, 2)]
        sides = [[_part(data, rows)] for rows in halves]
        total.add(compare(*sides, is_one_capture=True), options.op)
    yield total


def _part(data: CaptureData, rows: Int64) -> CaptureData:
    owned = data.ownership.part(rows)
    capture = replace(data.capture, lengths_ns=owned.lengths_ns)
    return replace(data, ownership=owned, capture=capture)


if __name__ == "__main__":
    sys.exit(main())
