"""``python benchmarks/launch_costs.py``: time of a kernel launch with markers around it, as JSON.

Run under a profiler, it shows what the profiler adds. The fastest of several rounds counts; the
kinds take turns in each round, because the speed of a machine may change.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import torch

LAUNCHES, SYNCHRONIZED, ROUNDS = 2_000, 500, 5
GRAPH_NODES = 100


def kinds() -> dict[str, Callable[[], object]]:
    """Return what is timed, by name; each launches one kernel."""
    x = torch.zeros(64, device="cuda")
    nvtx: Any = torch._C._nvtx
    push, pop = nvtx.rangePushA, nvtx.rangePop
    long_text = "x" * 300
    event: Any = torch.cuda.Event()

    def launch() -> object:
        return x.add_(1)

    def in_ranges(count: int, text: str) -> Callable[[], object]:
        def run() -> object:
            for _ in range(count):
                push(text)
            x.add_(1)
            for _ in range(count):
                pop()
            return None

        return run

    def with_event() -> object:
        event.record()
        return x.add_(1)

    return {
        "launch": launch,
        "1 range": in_ranges(1, "range"),
        "5 ranges": in_ranges(5, "range"),
        "5 ranges of 300 characters": in_ranges(5, long_text),
        "CUDA event and launch": with_event,
    }


def timed_us(run: Callable[[], object], launches: int) -> float:
    """Return the time of one call. Unit: us."""
    torch.cuda.synchronize()
    started = time.perf_counter_ns()
    for number in range(launches):
        run()
        if number % SYNCHRONIZED == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    return (time.perf_counter_ns() - started) / launches / 1e3


def graph() -> Callable[[], object]:
    """Return a replay of a CUDA graph of some kernels."""
    x = torch.zeros(64, device="cuda")
    x.add_(1)
    torch.cuda.synchronize()
    found: Any = torch.cuda.CUDAGraph()
    with torch.cuda.graph(found):
        for _ in range(GRAPH_NODES):
            x.add_(1)
    replay: Callable[[], object] = found.replay
    return replay


def main() -> None:
    """Time everything in turns and print the fastest of each."""
    found: dict[str, list[float]] = {}
    todo, replay = kinds(), graph()
    for _ in range(ROUNDS):
        for name, run in todo.items():
            found.setdefault(name, []).append(timed_us(run, LAUNCHES))
        found.setdefault("kernel of a graph", []).append(
            timed_us(replay, LAUNCHES // GRAPH_NODES) / GRAPH_NODES
        )
        for shapes in (False, True):
            name = "emit_nvtx with shapes" if shapes else "emit_nvtx"
            with torch.autograd.profiler.emit_nvtx(record_shapes=shapes):
                found.setdefault(name, []).append(timed_us(todo["launch"], LAUNCHES))
    print(json.dumps({name: min(times) for name, times in found.items()}))


if __name__ == "__main__":
    main()
