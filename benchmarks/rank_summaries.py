"""Time and memory of joining the summaries of a large job.

    python -m benchmarks.rank_summaries SUMMARY [--ranks 1024] [--steps 100]

The summaries are made from a real one (``dlprof summarize``): the steps of its first rank are
repeated one after the other, for as many ranks as needed, each with another delay of its work;
eight ranks run on a machine, and each machine has its own clock. One rank computes longer, so that
each step takes longer. They are written as files, one for each rank, and joined by ``dlprof
stragglers`` in a process of its own; the program fails if that rank is not named.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from aggregator.profile.arrays import Int64
from aggregator.ranks.summary_schema import CALL, KEY, SCHEMA, write_table
from benchmarks.measured import KIB, REPOSITORY

SLOW_RANK = 700
SLOWER = 0.2
JITTER_NS = 20_000
TRANSFER_NS = 100_000
PER_HOST = 8
CLOCK_ERROR_NS = 3_000_000
MOST_S, MOST_BYTES, MOST_SUMMARY_BYTES = 60.0, 4 << 30, 50_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run it and print one line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rank_summaries")
    parser.add_argument("summary", type=Path, help="a summary with collectives")
    parser.add_argument("--ranks", type=int, default=1024, help="ranks of the job (default 1024)")
    parser.add_argument("--steps", type=int, default=100, help="steps of the job (default 100)")
    parser.add_argument("--folder", type=Path, help="for the files (default: the system's)")
    options = parser.parse_args(argv)
    slow = SLOW_RANK % options.ranks
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="dlprof-benchmark-") as name:
        folder = Path(name)
        job = Job(options.summary, options.steps)
        sizes = [job.write(folder, rank, slow) for rank in range(options.ranks)]
        each = sum(sizes) / len(sizes) / options.steps
        calls = options.ranks * options.steps * job.calls
        print(
            f"{options.ranks} files, {sum(sizes) / 1e6:.0f} MB, {each:.0f} bytes per rank and step"
        )
        measured = joined(folder)
    print(
        f"{options.ranks} ranks, {options.steps} steps, {calls / 1e6:.1f} M collectives: "
        f"{measured['wall_s']:.1f} s, {measured['cpu_s']:.1f} s of CPU, peak "
        f"{measured['peak'] / 2**20:.0f} MiB, named {measured['slow_rank']}"
    )
    is_quick = measured["cpu_s"] <= MOST_S and measured["peak"] <= MOST_BYTES
    return 0 if is_quick and each <= MOST_SUMMARY_BYTES and measured["slow_rank"] == slow else 1


def joined(folder: Path) -> dict[str, Any]:
    """Join the summaries in a new process."""
    words = [sys.executable, "-m", "profiler_cli.dlprof", "stragglers", str(folder)]
    began = time.monotonic()
    with (folder / "result.json").open("w+") as output:
        child = subprocess.Popen([*words, "--format=json"], stdout=output, cwd=REPOSITORY)
        _, status, usage = os.wait4(child.pid, 0)
        if status:
            raise SystemExit(f"dlprof stragglers failed with status {status}")
        output.seek(0)
        document = json.load(output)
    return {
        "wall_s": time.monotonic() - began,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak": usage.ru_maxrss * KIB,
        "slow_rank": document["slow_rank"],
    }


class Job:
    """A job whose ranks repeat the steps of a real one."""

    def __init__(self, summary: Path, steps: int) -> None:
        table = pq.read_table(summary)
        self._document = json.loads(table.schema.metadata[KEY])
        rank = self._document["ranks"][0]["rank"]
        # Only one rank: not all ranks make the same calls within the bounds of each step.
        self._rows = _usual(
            [row for row in table.to_pylist() if row["rank"] == rank and row["is_steady"]]
        )
        self._steps = steps
        first, last = self._rows[0], self._rows[-1]
        self._span = last["start_ns"] + last["duration_ns"] - first["start_ns"] + 1_000_000
        self._longer = int(SLOWER * self._span / len(self._rows))
        self.calls = len(first["collectives"])

    def write(self, folder: Path, rank: int, slow: int) -> int:
        """Write the summary of a rank; returns its size in bytes."""
        own, host = self._rows, rank // PER_HOST
        # Steps 0 to --steps: the first one only gives the start of the second.
        count = self._steps + 1
        place = np.arange(count) % len(own)
        moved = (np.arange(count) // len(own)) * self._span + np.arange(count) * self._longer
        clock = int(np.random.default_rng(host).integers(0, CLOCK_ERROR_NS))
        rows: dict[str, Any] = {name: [own[p][name] for p in place] for name in SCHEMA.names}
        rows["rank"] = [0] * count
        rows["step"] = list(range(count))
        rows["start_ns"] = [
            time + int(by) for time, by in zip(rows["start_ns"], moved, strict=True)
        ]
        calls = [one for p in place for one in own[p]["collectives"]]
        step = np.repeat(np.arange(count), [len(own[p]["collectives"]) for p in place])
        rows["collectives"] = self._calls(calls, step, moved, rank, is_slow=rank == slow)
        schema = SCHEMA.with_metadata({KEY: json.dumps(self._document_of(rank, host, clock))})
        path = folder / f"rank{rank}.ranks.parquet"
        with path.open("wb") as stream:
            write_table(pa.table(rows, schema=schema), stream)
        return path.stat().st_size

    def _calls(
        self, calls: list[dict[str, Any]], step: Int64, moved: Int64, rank: int, *, is_slow: bool
    ) -> pa.Array:
        """Collectives of all steps: each rank's work ends a little later than another's."""
        random = np.random.default_rng(rank)
        late = random.integers(0, JITTER_NS)
        columns: dict[str, Any] = {}
        is_last = np.r_[np.diff(step) != 0, True]
        for field in CALL:
            values = [one[field.name] for one in calls]
            if not field.name.endswith("_ns"):
                columns[field.name] = pa.array(values, field.type)
                continue
            missing = np.array([value is None for value in values])
            times = np.array([value or 0 for value in values], dtype=np.int64) + moved[step]
            if field.name == "end_ns":
                times[is_last] += self._longer
            elif field.name == "start_ns":
                start = times
            elif field.name == "work_end_ns":
                times += late
            columns[field.name] = (times, missing)
        end = columns["end_ns"][0]
        start[:] = np.minimum(start + late, end - 1_000)
        if is_slow:  # All others wait for it at the end of each step.
            start[is_last] = end[is_last] - TRANSFER_NS
            columns["work_end_ns"][0][is_last] = start[is_last]
            columns["busy_until_ns"][0][is_last] = start[is_last]
        for name in ("next_start_ns", "next_launch_ns"):
            columns[name][0][is_last] += self._longer
        arrays = [
            column if isinstance(column, pa.Array) else pa.array(column[0], mask=column[1])
            for column in (columns[field.name] for field in CALL)
        ]
        offsets = np.searchsorted(step, np.arange(int(step[-1]) + 2)).astype(np.int32)
        return pa.ListArray.from_arrays(
            pa.array(offsets), pa.StructArray.from_arrays(arrays, fields=list(CALL))
        )

    def _document_of(self, rank: int, host: int, clock_ns: int) -> dict[str, Any]:
        meta = self._document["meta"]
        start = int(meta["session_start_utc_ns"] or 10**18) + clock_ns
        one = {**self._document["ranks"][0], "rank": 0, "host": f"node{host}"}
        last = self._span * (self._steps + 1)
        own = {"host_name": f"node{host}", "session_start_utc_ns": str(start), "last_ns": str(last)}
        return {
            **self._document,
            "meta": {**meta, **own},
            "ranks": [one],
            "recorded_ranks": [rank],
            "gpus": [f"node{host}-{gpu}" for gpu in range(PER_HOST)],
            "kernels": [rank + 1, 0],
            "source": f"/data/rank{rank}/dlprof_dldb.sqlite",
        }


def _usual(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    counts = [len(row["collectives"]) for row in rows]
    usual = max(set(counts), key=counts.count)
    return [row for row, count in zip(rows, counts, strict=True) if count == usual]


if __name__ == "__main__":
    sys.exit(main())
