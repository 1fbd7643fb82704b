"""Random traces of training-like programs, and what can be said of them without the engine.

Clocks only move forward on a thread and ranges nest, as a real capture's do. Every launch has a
kernel name of its own unless asked otherwise.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import strategies as st

from tests.builders import Process, Thread, Trace

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
OPS = ("conv2d", "relu", "linear", "add_", "batch_norm")
GROUPS = ("forward", "augment", "Optimizer.step#SGD.step")


@dataclass
class Program:
    """A random program that writes a trace while it runs.

    Attributes:
        random: Source of all choices.
        num_processes: Processes; each has a GPU of its own.
        num_steps: Steps that begin with a data loader; 0: no loop.
        shared_names: Whether kernels share a few names.
    """

    random: random.Random
    num_processes: int = 1
    num_steps: int = 3
    shared_names: bool = False
    trace: Trace = field(default_factory=Trace)
    _kernels: int = 0

    def write(self) -> Trace:
        """Run the program."""
        for number in range(self.num_processes):
            self.trace.gpu(number)
            self._run(self.trace.process(100 + number), number)
        return self.trace

    def _run(self, process: Process, device: int) -> None:
        main, engine = process.thread(1), process.thread(2)
        clock = self.random.randint(0, 5)
        # At least one op with work: a trace without either is refused or read in simple mode.
        main.op("conv2d", clock, clock + 9)
        clock = self._work(main, clock + 2, device, "launch") + 6
        clock = self._block(main, clock, device, depth=0, seq=0)
        for step in range(self.num_steps):
            main.range(f"{LOADER}, op_id = 1", clock + 1, clock + 4)
            clock = self._block(main, clock + 5, device, depth=0, seq=10 * step + 1)
            clock = self._backward(engine, clock + 1, device, seq=10 * step + 1)
        main.call("cudaDeviceSynchronize_v3020", clock + 1, clock + 3)

    def _block(self, thread: Thread, clock: int, device: int, *, depth: int, seq: int) -> int:
        for _ in range(self.random.randint(0, 3)):
            clock += self.random.randint(0, 2)
            kind = self.random.choice(("op", "op", "group", "launch", "launch", "memory", "call"))
            if kind in ("op", "group") and depth < 3:
                start = clock
                clock = self._block(
                    thread, clock + self.random.randint(0, 2), device, depth=depth + 1, seq=seq
                )
                clock += 1 + self.random.randint(0, 2)
                if kind == "op":
                    number = seq + self.random.randint(0, 3) if seq else None
                    thread.op(self.random.choice(OPS), start, clock, seq=number)
                else:
                    thread.range(self.random.choice(GROUPS), start, clock)
            else:
                clock = self._work(thread, clock, device, kind)
        return clock

    def _work(self, thread: Thread, clock: int, device: int, kind: str) -> int:
        length = self.random.randint(1, 4)
        begin = clock + length + self.random.randint(0, 10)
        gpu = (begin, begin + self.random.randint(0, 12))
        if kind == "memory":
            launch = self.random.choice((thread.copy, thread.set))
            launch(clock, gpu=gpu, device=device, length=length)
        elif kind == "call":
            thread.call("cudaStreamIsCapturing_v10000", clock, clock + length)
        else:
            self._kernels += 1
            name = f"k{self._kernels % 3 if self.shared_names else self._kernels}"
            stream = self.random.choice((7, 8))
            thread.launch(name, clock, gpu=gpu, device=device, length=length, stream=stream)
        return clock + length

    def _backward(self, engine: Thread, clock: int, device: int, *, seq: int) -> int:
        for _ in range(self.random.randint(0, 3)):
            start = clock + self.random.randint(0, 2)
            if self.random.random() < 0.3:
                # What a gradient reducer does between the wrappers.
                engine.op("copy_", start, start + 9)
                start = self._work(engine, start + 2, device, "launch") + 6
            node = self.random.choice(("ConvolutionBackward0", "AddmmBackward0", "AccumulateGrad"))
            if node == "AccumulateGrad":
                node = f"torch::autograd::{node}"
            clock = self._work(engine, start + 1, device, "launch")
            inner = clock + 1
            clock = self._block(engine, inner + 1, device, depth=2, seq=0)
            number = None if "::" in node else seq + self.random.randint(0, 4)
            engine.node(node, inner, clock + 1, seq=number)
            clock = self._work(engine, clock + 2, device, "launch")
            engine.wrapper(node, start, clock + 1)
            clock += 2
        return clock


@st.composite
def programs(
    draw: st.DrawFn,
    *,
    processes: st.SearchStrategy[int] | None = None,
    steps: st.SearchStrategy[int] | None = None,
    shared_names: bool = False,
) -> Trace:
    """Traces of random programs that do some work on a GPU."""
    program = Program(
        random=draw(st.randoms(use_true_random=False)),
        num_processes=draw(st.integers(1, 2) if processes is None else processes),
        num_steps=draw(st.integers(0, 3) if steps is None else steps),
        shared_names=shared_names,
    )
    return program.write()


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for one example, in memory where the system has such."""
    memory = Path("/dev/shm")
    base = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="dlprof-test-", dir=base) as name:
        yield Path(name)
