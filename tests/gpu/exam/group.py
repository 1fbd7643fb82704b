"""Train on several ranks through NCCL: with DDP, FSDP2, tensor parallelism or without overlap.

A rank can be late in its backward pass (in Python or by a kernel) or in its data loader, or take
longer for each of its ops; each step reads its loss, so that a delay is not hidden by work that
was launched before. Where there are fewer GPUs than ranks, they share them: NCCL then
believes that each rank has a machine of its own, and moves the data through sockets.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from tests.gpu.exam.base import Block, options, train

a = options(
    *("fsdp", "tensor", "manual", "overlapped", "no_communication", "none_late"),
    late_python=0,
    late_kernel=0,
    late_loader=0,
    late_rank=1,
    every=1,
    stretch_pct=0,
    bucket_mb=25,
    layers=8,
)
WIDTH, BATCH, LENGTH = (32, 2, 8) if a.tiny else (512, 16, 512)
a.seconds = 0.0  # All ranks take the same steps.
RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
IS_MANUAL = a.manual and not a.overlapped
"""Whether gradients are reduced one by one, after the backward pass."""
IS_LATE = a.late_rank == RANK and not a.none_late


class Samples(torch.utils.data.Dataset[Any]):
    """Zeros; the late rank reads the first sample of a batch slowly."""

    def __len__(self) -> int:
        return BATCH * 100_000

    def __getitem__(self, index: int) -> torch.Tensor:
        number, place = divmod(index, BATCH)
        if IS_LATE and a.late_loader and place == 0 and number % a.every == 0:
            time.sleep(1e-3 * a.late_loader)
        return torch.zeros(LENGTH, WIDTH)


class Pause(nn.Module):
    """Makes the backward pass of the late rank wait, in Python or by a kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.cycles = round(a.late_kernel * self._cycles_per_ms()) if a.late_kernel else 0
        self.register_full_backward_hook(self._be_late)

    @staticmethod
    def _cycles_per_ms() -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(100_000_000)
        begin.record()
        torch.cuda._sleep(100_000_000)
        end.record()
        torch.cuda.synchronize()
        return 100_000_000 / float(begin.elapsed_time(end))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 1.0

    def _be_late(self, *_: object) -> None:
        self.count += 1
        if not IS_LATE or self.count % a.every:
            return
        if a.late_python:
            time.sleep(1e-3 * a.late_python)
        if self.cycles:
            torch.cuda._sleep(self.cycles)


class Stretched(TorchDispatchMode):
    """Makes each op take longer on the CPU, as a machine with a slower one would."""

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        started_ns = time.perf_counter_ns()
        found = op(*args, **(kwargs or {}))
        now_ns = time.perf_counter_ns()
        end_ns = now_ns + (now_ns - started_ns) * (a.stretch_pct - 100) // 100
        while time.perf_counter_ns() < end_ns:
            pass
        return found


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pause = Pause()
        self.h = nn.ModuleList(Block(WIDTH, 4) for _ in range(a.layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, block in enumerate(self.h):
            x = block(self.pause(x) if number == a.layers // 2 else x)
        return x


def in_parallel(net: nn.Module) -> Any:
    """Return the model as it is trained."""
    if a.fsdp:
        from torch.distributed.fsdp import fully_shard

        for block in net.h:
            fully_shard(block)
        return fully_shard(net)
    if a.tensor:
        from torch.distributed.tensor import parallel

        mesh = dist.init_device_mesh(a.device, (WORLD,))
        plan = {"up": parallel.ColwiseParallel(), "down": parallel.RowwiseParallel()}
        for block in net.h:
            parallel.parallelize_module(block, mesh, plan)
        return net
    if IS_MANUAL:
        return net
    return nn.parallel.DistributedDataParallel(net, bucket_cap_mb=a.bucket_mb)


def main() -> None:
    if a.device == "cuda":
        count = torch.cuda.device_count()
        if count < WORLD:
            os.environ["NCCL_HOSTID"] = f"rank{RANK}"
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % count)
    dist.init_process_group("nccl" if a.device == "cuda" else "gloo")
    model = in_parallel(Net().to(a.device))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=not a.tensor)
    loader = torch.utils.data.DataLoader(Samples(), batch_size=BATCH)
    if RANK:
        os.environ.pop("EXAM_REPORT", None)

    def step(batch: Any) -> Any:
        optimizer.zero_grad()
        is_silent = a.no_communication and not IS_MANUAL
        with (
            model.no_sync() if is_silent else contextlib.nullcontext(),
            Stretched() if a.stretch_pct and IS_LATE else contextlib.nullcontext(),
        ):
            loss = model(batch.to(a.device) + 1.0).square().mean()
            loss.backward()
        if IS_MANUAL and not a.no_communication:
            for weight in model.parameters():
                dist.all_reduce(weight.grad)
        optimizer.step()
        loss.item()
        return loss

    train(a, loader, step, BATCH)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
