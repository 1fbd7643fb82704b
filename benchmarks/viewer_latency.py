"""How fast the viewer answers: every panel, figure and table of its OpenAPI document, over HTTP.

    python benchmarks/viewer_latency.py DATABASE [--rounds 5] [--aggregation N] [--json FILE]
                                        [--results FILE] [--title TEXT]

Starts a viewer on the database (or measures the one at --url) and asks for every panel and figure,
for every table in every order and direction with its first, middle and last page, with every
filter, for text searches, the values of each column, and exports. Everything is asked in turn and
then once more from the beginning, so that a busy moment of the machine hits all alike. Prints the
median and the 95th percentile of each kind, the CPU time that the server took for one answer, and
the first answers, of which nothing was known and whose file was not in memory. Exits with 1 when a
limit is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.measured import write_section
from benchmarks.viewer_addresses import Address, Kind, all_addresses, find_place
from benchmarks.viewer_server import Api, Viewer, forget_file, running

#: Kinds without a limit are only told.
LIMITS_MS = {
    Kind.PAGE: 60.0,
    Kind.FILTER: 60.0,
    Kind.PANEL: 60.0,
    Kind.SEARCH: 250.0,
}
_SLOWEST = 30


@dataclass
class Sample:
    """Times of one address.

    Attributes:
        address: What was asked for.
        first_ms: The first answer: nothing was known of the file.
        times_ms: The answers after it.
        cpu_ms: CPU time of the server for each of those.
    """

    address: Address
    first_ms: float = 0.0
    times_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    @property
    def median_ms(self) -> float:
        """Half of the answers came within this."""
        return statistics.median(self.times_ms)

    @property
    def limit_ms(self) -> float:
        """What an answer may take."""
        return LIMITS_MS.get(self.address.kind, float("inf"))


def measure(
    viewer: Viewer, aggregation: int | None, rounds: int, file: Path | None
) -> list[Sample]:
    """Ask for everything; the first round is told apart from the others."""
    api = Api(viewer.url)
    place = find_place(api, aggregation)
    samples = [Sample(address) for address in all_addresses(api, place)]
    for sample in samples:
        if file is not None:
            forget_file(file)
        sample.first_ms = _time(api, sample.address)
    for _ in range(rounds):
        for sample in samples:
            before = viewer.cpu_ms()
            sample.times_ms.append(_time(api, sample.address))
            sample.cpu_ms.append(viewer.cpu_ms() - before)
    return samples


def _time(api: Api, address: Address) -> float:
    answer = api.ask(address.path, address.params)
    return answer.first_ms if address.kind is Kind.EXPORT else answer.elapsed_ms


def p95(times_ms: Iterable[float]) -> float:
    """95 of 100 answers came within this."""
    ordered = sorted(times_ms)
    return ordered[int(0.95 * (len(ordered) - 1))]


def table(samples: list[Sample]) -> Iterator[str]:
    """A line for each kind, as a Markdown table."""
    yield (
        "| what | addresses | median ms | p95 ms | limit ms | CPU median ms | CPU p95 ms "
        "| first: median ms | first: p95 ms |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for kind in Kind:
        found = [sample for sample in samples if sample.address.kind is kind]
        if not found:
            continue
        times = [time for sample in found for time in sample.times_ms]
        cpu = [time for sample in found for time in sample.cpu_ms]
        first = [sample.first_ms for sample in found]
        limit = f"{LIMITS_MS[kind]:.0f}" if kind in LIMITS_MS else ""
        cells = [
            f"{value:.1f}"
            for numbers in (times, cpu, first)
            for value in (statistics.median(numbers), p95(numbers))
        ]
        cells.insert(2, limit)
        yield f"| {kind} | {len(found)} | {' | '.join(cells)} |"


def slow(samples: list[Sample]) -> list[Sample]:
    """Addresses beyond their limit, slowest first.

    An address is called slow by its median: the slowest of a few answers tells more of the machine
    than of the address.
    """
    found = [sample for sample in samples if sample.median_ms > sample.limit_ms]
    return sorted(found, key=lambda sample: -sample.median_ms)


def is_met(samples: list[Sample]) -> bool:
    """Whether the 95th percentile of each kind is within its limit."""
    return all(
        p95(time for sample in samples if sample.address.kind is kind for time in sample.times_ms)
        <= limit
        for kind, limit in LIMITS_MS.items()
    )


def report(samples: list[Sample]) -> bool:
    """Print how fast each kind is, and what is slow; whether all limits are met."""
    print("\n".join(table(samples)))
    for sample in slow(samples)[:_SLOWEST]:
        print(
            f"SLOW {sample.median_ms:8.1f} ms (limit {sample.limit_ms:.0f})  {sample.address.name}"
        )
    by_cpu = sorted(samples, key=lambda one: -statistics.median(one.cpu_ms))
    print("Most CPU time:")
    for sample in by_cpu[:_SLOWEST]:
        print(f"     {statistics.median(sample.cpu_ms):8.1f} ms  {sample.address.name}")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return is_met(samples) and not slow(samples)


def main() -> int:
    """Measure, print, and say by the exit status whether all limits are met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("database", nargs="?", help="database to start a viewer on")
    parser.add_argument("--url", help="measure this viewer's first profile instead")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is asked")
    parser.add_argument("--aggregation", type=int, help="aggregation to ask about, not the first")
    parser.add_argument("--json", help="write all times to this file")
    parser.add_argument("--results", type=Path, help="Markdown file to write the figures to")
    parser.add_argument("--title", default="Viewer", help="heading of the figures there")
    options = parser.parse_args()
    if (options.database is None) == (options.url is None):
        parser.error("name a database or --url")
    file = Path(options.database) if options.database else None
    viewer = contextlib.nullcontext(Viewer(options.url)) if options.url else running(str(file))
    with viewer as found:
        samples = measure(found, options.aggregation, options.rounds, file)
    if options.json:
        times = {one.address.name: [one.first_ms, one.times_ms, one.cpu_ms] for one in samples}
        Path(options.json).write_text(json.dumps(times, indent=1), encoding="utf-8")
    if options.results:
        write_section(options.results, options.title, options.rounds, table(samples))
    return 0 if report(samples) else 1


if __name__ == "__main__":
    raise SystemExit(main())
