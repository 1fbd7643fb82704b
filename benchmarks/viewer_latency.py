"""Time the viewer's answers: every panel, figure and table of its OpenAPI document, over HTTP.

    python -m benchmarks.viewer_latency DATABASE [--rounds 5] [--aggregation N]
                                        [--results FILE] [--title TEXT]

Starts a viewer on the database and asks for every panel and figure, for every table in every order
and direction with its first, middle and last page, with every filter, for text searches, the values
of each column, and exports. All addresses are asked in turn, then again from the beginning, so that
a busy moment of the machine affects all of them. Prints the median and the 95th percentile of each
kind, the CPU time that the server took for one answer, and the first answers, of which nothing was
known and whose file was not in memory. Exits with 1 when a limit is missed.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measured import write_section
from benchmarks.viewer_addresses import Address, Kind, all_addresses, find_place
from benchmarks.viewer_server import Api, Viewer, running, viewer_parser

#: Kinds without a limit are only reported.
LIMITS_MS = {Kind.PAGE: 60.0, Kind.FILTER: 60.0, Kind.PANEL: 60.0, Kind.SEARCH: 250.0}
_SLOWEST = 30


@dataclass
class Sample:
    """Times of one address."""

    address: Address  # What was asked for.
    first_ms: float = 0.0  # The first answer, with empty caches.
    times_ms: list[float] = field(default_factory=list)  # The answers after it.
    cpu_ms: list[float] = field(default_factory=list)  # CPU time of the server for each of those.

    @property
    def median_ms(self) -> float:
        """Median of the answers after the first."""
        return statistics.median(self.times_ms)

    @property
    def is_slow(self) -> bool:
        """Whether the median is above the limit.

        The slowest of a few answers depends on the machine more than on the address.
        """
        return self.median_ms > LIMITS_MS.get(self.address.kind, float("inf"))


def measure(viewer: Viewer, aggregation: int | None, rounds: int, file: Path) -> list[Sample]:
    """Ask for everything; the first round is kept apart from the others."""
    api = Api(viewer.url)
    place = find_place(api, aggregation)
    samples = [Sample(address) for address in all_addresses(api, place)]
    for sample in samples:
        _forget_file(file)
        sample.first_ms = _time(api, sample.address)
    for _ in range(rounds):
        for sample in samples:
            before = viewer.cpu_ms()
            sample.times_ms.append(_time(api, sample.address))
            sample.cpu_ms.append(viewer.cpu_ms() - before)
    return samples


def _forget_file(path: Path) -> None:
    """Drop the file from the page cache, as after a restart."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _time(api: Api, address: Address) -> float:
    answer = api.ask(address.path, address.params)
    return answer.first_ms if address.kind is Kind.EXPORT else answer.elapsed_ms


def p95(times_ms: Iterable[float]) -> float:
    """Return the 95th percentile."""
    ordered = sorted(times_ms)
    return ordered[int(0.95 * (len(ordered) - 1))]


def table(samples: list[Sample]) -> Iterator[str]:
    """Yield a line for each kind, as a Markdown table."""
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


def report(samples: list[Sample]) -> bool:
    """Print the times of each kind and the slowest addresses; return whether all limits are met.

    The 95th percentile of each kind and the median of each address have to be within the limit.
    """
    print("\n".join(table(samples)))
    slow = [sample for sample in samples if sample.is_slow]
    for sample in sorted(slow, key=lambda item: -item.median_ms)[:_SLOWEST]:
        print(f"SLOW {sample.median_ms:8.1f} ms  {sample.address.name}")
    print("Most CPU time:")
    for sample in sorted(samples, key=lambda item: -statistics.median(item.cpu_ms))[:_SLOWEST]:
        print(f"     {statistics.median(sample.cpu_ms):8.1f} ms  {sample.address.name}")
    return not slow and all(
        p95(time for sample in samples if sample.address.kind is kind for time in sample.times_ms)
        <= limit
        for kind, limit in LIMITS_MS.items()
    )


def main() -> int:
    """Measure and print; return 1 if a limit is missed."""
    parser = viewer_parser(__doc__, rounds=5, title="Viewer")
    parser.add_argument("--aggregation", type=int, help="aggregation to ask about, not the first")
    options = parser.parse_args()
    with running(str(options.database)) as viewer:
        samples = measure(viewer, options.aggregation, options.rounds, options.database)
    if options.results:
        write_section(options.results, options.title, options.rounds, table(samples))
    return 0 if report(samples) else 1


if __name__ == "__main__":
    raise SystemExit(main())
