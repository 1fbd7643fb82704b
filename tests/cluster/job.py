"""A simulated job with an export for each rank, as processes of a cluster write them."""

from __future__ import annotations

from pathlib import Path

from tests.builders import Trace
from tests.replay.simulated_job import simulate, speeds
from tests.replay.test_slow_ranks_of_databases import ALL_REDUCE, JOB

START_UTC_NS = 1_800_000_000_000_000_000


def rank_exports(folder: Path, slow: int, share: float) -> list[Path]:
    """Write the export of each rank of a job with a slow one; each has a machine of its own."""
    factor = speeds(JOB, 7)
    factor[slow] *= 1 + share
    events, _ = simulate(JOB, factor, 7)
    made = []
    for rank, own in enumerate(events):
        trace = Trace()
        trace.session(START_UTC_NS, f"node{rank}")
        trace.gpu(0)
        thread = trace.thread(pid=100)
        per_step = len(own.start_ns) // JOB.steps
        for row in range(len(own.start_ns)):
            if row % per_step == 0:
                first, last = int(own.api_start_ns[row]), row + per_step - 1
                name = f"iteration {row // per_step}"
                thread.range(name, first - 100, int(own.api_end_ns[last]) + 100)
            name = "gemm" if own.computes[row] else ALL_REDUCE
            thread.launch(
                name,
                int(own.api_start_ns[row]),
                gpu=(int(own.start_ns[row]), int(own.end_ns[row])),
                long_name=f"{name}(x)",
                stream=7 if own.computes[row] else 17,
            )
        made.append(trace.write(folder / f"export{rank}.sqlite"))
    return made
