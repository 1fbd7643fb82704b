"""Time and memory of the search for slow ranks in a large job.

    python -m benchmarks.many_ranks DATABASE [--ranks 1024] [--steps 100]

The job is made from the ranks of a real database: their steps are repeated one after the other,
and their ranks as often as needed, each with another delay of its kernels. One of them computes
longer, so that each step takes longer; the program fails if that rank is not named.
"""

from __future__ import annotations

import argparse
import resource
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from aggregator.dldb.slow_ranks import read_compared_ranks, read_rank_events
from aggregator.profile.arrays import Int64
from aggregator.replay.rank_steps import RankEvents, rank_steps
from aggregator.replay.slow_ranks import find_slow_ranks
from benchmarks.measured import KIB

SLOW_RANK = 700
SLOWER = 0.2
JITTER_NS = 20_000
TRANSFER_NS = 100_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run it and print one line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_ranks", description=__doc__)
    parser.add_argument("database", type=Path, help="a database with several ranks")
    parser.add_argument("--ranks", type=int, default=1024, help="ranks of the job (default 1024)")
    parser.add_argument("--steps", type=int, default=100, help="steps of the job (default 100)")
    options = parser.parse_args(argv)
    with closing(sqlite3.connect(options.database)) as connection:
        compared = read_compared_ranks(connection, 1)
        real = list(read_rank_events(connection, compared))
    slow = SLOW_RANK % options.ranks
    begin = time.monotonic()
    job = _job(real, options.ranks, options.steps, slow)
    group = np.repeat(compared.arranged.group[:, :1], options.ranks, axis=1)
    found = find_slow_ranks(rank_steps(job, group))
    seconds = time.monotonic() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB / 2**20
    kernels = len(real[0].start_ns) // (len(real[0].calls) + 1) * options.ranks * options.steps
    print(
        f"{options.ranks} ranks, {options.steps} steps, {kernels / 1e6:.0f} M kernels: "
        f"{seconds:.1f} s, peak {peak:.0f} MiB, slowdown {found.slowdown:.3f}, named {found.named}"
    )
    return 0 if found.named == slow else 1


def _job(real: list[RankEvents], ranks: int, steps: int, slow: int) -> Iterator[RankEvents]:
    random = np.random.default_rng(1)
    span = max(int(one.end_ns[one.calls[-1, -1]] - one.end_ns[one.calls[0, -1]]) for one in real)
    longer = int(SLOWER * span / (len(real[0].calls) - 1))
    for rank in range(ranks):
        one = _repeated(real[rank % len(real)], span, steps)
        last = one.calls[:, -1]
        delay = longer * np.searchsorted(last, np.arange(len(one.start_ns)))
        delay[one.computes] += random.integers(0, JITTER_NS)
        start, end = one.start_ns + delay, one.end_ns + delay
        end[last] += longer
        if rank == slow:  # All others wait for it at the end of each step.
            row = np.maximum.accumulate(np.where(one.computes, np.arange(len(start)), 0))[last]
            start[last] = end[last] - TRANSFER_NS
            end[row] = start[last]
        yield replace(one, start_ns=start, end_ns=end)


def _repeated(one: RankEvents, span_ns: int, steps: int) -> RankEvents:
    """The steps of a rank but the first, one copy after the other."""
    low, high = int(one.calls[0, -1]) + 1, int(one.calls[-1, -1]) + 1
    times = -(-(steps + 1) // (len(one.calls) - 1))
    offset = np.repeat(np.arange(times) * span_ns, high - low)

    def tiled(column: Int64) -> Int64:
        return np.tile(column[low:high], times) + offset

    calls = np.concatenate([one.calls[1:] - low + copy * (high - low) for copy in range(times)])
    return RankEvents(
        tiled(one.start_ns), tiled(one.end_ns), tiled(one.api_start_ns), tiled(one.api_end_ns),
        np.tile(one.computes[low:high], times), calls[: steps + 1],
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
