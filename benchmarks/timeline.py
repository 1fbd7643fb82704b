"""Time and memory of a timeline.

    python -m benchmarks.timeline DATABASE [--tiles 300]

Prepares the timeline of a database in a new folder, opens it again, and asks for tiles of random
lanes, widths and places. Prints CPU times, sizes and peak memory; ``python -m benchmarks.tile``
makes a large profile.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from aggregator.answers.timeline import TILE_BINS, TimelineAnswers
from aggregator.system.replies import to_plain
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.connection import opened
from benchmarks.measured import KIB, machine

FIRST_PICTURE_S = 1.0
TILE_P95_MS = 50.0
MOST_SHARE = 0.1
_SCREEN_TILES = 4
"""Tiles of a lane that a screen of 1,500 pixels shows."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run it and print its lines; returns 1 if a limit is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.timeline", description=__doc__)
    parser.add_argument("database", type=Path)
    parser.add_argument("--tiles", type=int, default=300, help="tiles to ask for (default 300)")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.folder:
        print(json.dumps(_ask(options.database, options.folder, options.tiles)))
        return 0
    with tempfile.TemporaryDirectory(prefix="dlprof-benchmark-") as folder:
        command = [sys.executable, "-m", "benchmarks.timeline", str(options.database)]
        command += ["--folder", folder, "--tiles"]
        first, second = (
            json.loads(subprocess.run([*command, tiles], check=True, capture_output=True).stdout)
            for tiles in ("0", str(options.tiles))
        )
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
    share = size / options.database.stat().st_size
    print(machine(1))
    print(
        f"* {options.database}: {first['events']:,} events, prepared in {first['open_s']:.2f} s CPU"
        f" ({first['peak_mib']:.0f} MiB), {size / 1e6:.1f} MB ({share:.1%} of the database)\n"
        f"* first picture {second['open_s'] + second['picture_s']:.2f} s CPU, tile median"
        f" {second['tile_ms'][0]:.2f} ms, p95 {second['tile_ms'][1]:.2f} ms, largest"
        f" {second['tile_ms'][2]:.2f} ms and {second['tile_bytes']:,} bytes; totals of"
        f" the whole time {second['range_s']:.2f} s; peak {second['peak_mib']:.0f} MiB"
    )
    is_missed = (
        second["open_s"] + second["picture_s"] > FIRST_PICTURE_S
        or second["tile_ms"][1] > TILE_P95_MS
        or share > MOST_SHARE
    )
    return int(is_missed)


def _ask(database: Path, folder: Path, num_tiles: int) -> dict[str, object]:
    """Open a timeline, which prepares it if the folder is empty, and ask for tiles."""
    begin = time.process_time()
    with opened(database, time_limit_s=3600) as found:
        data = AggregationData(found, {"aggr_id": 1, "domain": "default_domain"})
        timeline = TimelineAnswers(data, folder)
        lanes = to_plain(timeline.lanes())
        open_s = time.process_time() - begin
        # The critical path is found when it is looked at, after a replay.
        keys = [lane["key"] for lane in lanes["lanes"] if lane["kind"] != "path"]
        length = lanes["stop_ns"] - lanes["start_ns"]
        widest = (length // (_SCREEN_TILES * TILE_BINS)).bit_length()
        begin = time.process_time()
        for number in range(length // (TILE_BINS << widest) + 1):
            timeline.tiles(keys, widest, number)
        picture_s = time.process_time() - begin
        random = np.random.default_rng(1)
        times_ms, sizes = [0.0], [0]
        for _ in range(num_tiles):
            shift = int(random.integers(0, widest + 1))
            number = int(random.integers(0, length // (TILE_BINS << shift) + 1))
            key = keys[int(random.integers(0, len(keys)))]
            begin = time.process_time()
            tile = timeline.tiles([key], shift, number)
            times_ms.append((time.process_time() - begin) * 1e3)
            sizes.append(len(tile))
        begin = time.process_time()
        if num_tiles:
            to_plain(timeline.range(keys, lanes["start_ns"], lanes["stop_ns"]))
        return {
            "events": sum(lane["num_events"] or 0 for lane in lanes["lanes"]),
            "open_s": open_s,
            "picture_s": picture_s,
            "tile_ms": np.percentile(times_ms, [50, 95, 100]).tolist(),
            "tile_bytes": max(sizes),
            "range_s": time.process_time() - begin,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB,
        }


if __name__ == "__main__":
    sys.exit(main())
