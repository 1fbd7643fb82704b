"""Traces of training loops as torch.profiler writes them, made by a few lines. Times are in us."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ORIGIN = 1_000_000.0
MATRIX, CHEAP = "ampere_sgemm_128x64_tn", "void at::native::vectorized_elementwise_kernel<4>(int)"
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


@dataclass
class Loop:
    """A program that is written down while it runs."""

    now: float = ORIGIN  # On the host.
    gpu: float = ORIGIN  # When the GPU has done what was launched.
    pid: int = 9
    events: list[dict[str, Any]] = field(default_factory=list)
    sequence: int = 0
    launches: int = 0
    has_launches: bool = True  # Whether the calls that launch work are recorded.

    def add(self, category: str, name: str, start: float, duration: float, **args: Any) -> None:
        """Add an event of the host."""
        where = {"pid": self.pid, "tid": self.pid}
        times = {"ts": round(start, 3), "dur": round(duration, 3)}
        event = {"ph": "X", "cat": category, "name": name, **where, **times, "args": args}
        self.events.append(event)

    def op(self, name: str, kernel: float = 0, host: float = 20, *, backward: bool = False) -> None:
        """Run an op, which launches a kernel unless that takes no time."""
        args: dict[str, Any] = {"Input Dims": [[256, 512]], "Input type": ["float"]}
        if backward:
            self.sequence -= 1
            args |= {"Sequence number": self.sequence, "Fwd thread id": 1}
            node = f"autograd::engine::evaluate_function: {name}"
            self.add("cpu_op", node, self.now, host, **args)
        elif kernel:
            args |= {"Sequence number": self.sequence}
            self.sequence += 1
        self.add("cpu_op", name, self.now + 1, host - 2, **args)
        if kernel:
            self.launches += 1
            begin = max(self.now + 8, self.gpu)
            if self.has_launches:
                call = self.now + 3
                self.add("cuda_runtime", "cudaLaunchKernel", call, 4, correlation=self.launches)
            kind = MATRIX if "linear" in name or "Addmm" in name else CHEAP
            where = {"device": 0, "stream": 7, "context": 1, "correlation": self.launches}
            sizes = {"grid": [64, 1, 1], "block": [128, 1, 1]}
            work = {"ph": "X", "cat": "kernel", "name": kind, "pid": 0, "tid": 7}
            times = {"ts": round(begin, 3), "dur": kernel}
            self.events.append({**work, **times, "args": where | sizes})
            self.gpu = begin + kernel
        self.now += host

    def annotation(self, name: str, start: float) -> None:
        """Name the time from a start until now."""
        self.add("user_annotation", name, start, self.now - start)

    def wait(self) -> None:
        """Wait until the GPU has done everything."""
        start, self.now = self.now, max(self.now, self.gpu) + 5
        self.add("cuda_runtime", "cudaDeviceSynchronize", start, self.now - start)

    def fetch(self, host: float = 30) -> None:
        """Take a batch from the data loader."""
        start = self.now
        self.now += host
        self.annotation(LOADER, start)

    def forward(self, kernel: float) -> None:
        """Run a forward pass of two kernels."""
        self.op("aten::linear", kernel)
        self.op("aten::relu", kernel)

    def backward(self, kernel: float) -> None:
        """Run a backward pass of two kernels."""
        self.op("ReluBackward0", kernel, backward=True)
        self.op("AddmmBackward0", kernel, backward=True)

    def update(self, kernel: float = 20, name: str = "SGD") -> None:
        """Run an optimizer."""
        start = self.now
        self.op("aten::_foreach_add_", kernel)
        self.annotation(f"Optimizer.step#{name}.step", start)

    def step(self, kernel: float = 200) -> None:
        """Run a step of four kernels and an update."""
        self.forward(kernel)
        self.backward(kernel)
        self.update()

    def idle(self, duration: float) -> None:
        """Let nothing happen."""
        self.now += duration

    def shifted(self, gpu_us: float) -> Loop:
        """Return the same program, the clock of whose GPU is off."""
        events = [
            {**event, "ts": event["ts"] + gpu_us} if event["cat"] == "kernel" else event
            for event in self.events
        ]
        return Loop(self.now, self.gpu, self.pid, events)

    def write(self, path: Path) -> Path:
        """Write the trace."""
        device = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85_000_000_000}
        device |= {"computeMajor": 8, "computeMinor": 0, "numSms": 108}
        head = {"schemaVersion": 1, "deviceProperties": [device]}
        path.write_text(json.dumps({**head, "traceEvents": self.events}))
        return path
