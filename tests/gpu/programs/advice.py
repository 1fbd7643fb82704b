"""Small trainings for the advice: each option does one thing well or badly.

Without a profiler it prints its median step time, so that the same step can be timed before and
after acting on an advice.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import statistics
import time

import torch
from torch import nn


class Images(torch.utils.data.Dataset):
    def __init__(self, count: int, delay_s: float) -> None:
        self.count, self.delay_s = count, delay_s

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int):
        time.sleep(self.delay_s)
        return torch.full((3, 96, 96), index / self.count), index % 1000


class Block(nn.Module):
    def __init__(self, width: int, island: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.island = island

    def forward(self, x):
        y = self.norm(x)
        if self.island:  # a part that was kept in FP32 long ago
            with torch.autocast("cuda", enabled=False):
                return x + self.down(torch.relu(self.up(y.float())))
        return x + self.down(torch.relu(self.up(y)))


class Mlp(nn.Module):
    def __init__(self, width: int, depth: int, island: bool) -> None:
        super().__init__()
        blocks = [Block(width, island and i == depth - 1) for i in range(depth)]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.blocks(x))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--net", default="mlp", choices=["mlp", "resnet18", "mobilenet_v2"])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "tf32", "bf16", "fp16"])
    parser.add_argument("--optimizer", default="fused", choices=["loop", "foreach", "fused"])
    parser.add_argument("--input", default="gpu", choices=["gpu", "pageable", "pinned", "stream"])
    parser.add_argument("--loader", default="none", choices=["none", "slow", "fast"])
    parser.add_argument("--slow-every", type=int, default=0)
    parser.add_argument("--pause", type=float, default=0.0, help="work on the CPU in each step, s")
    for flag in ("channels-last", "benchmark", "island", "item", "norms", "anomaly", "graph"):
        parser.add_argument(f"--{flag}", action="store_true")
    parser.add_argument("--reduce", default="none", choices=["none", "ddp", "after"])
    parser.add_argument("--uneven", type=int, default=1, help="how much more rank 0 does")
    return parser.parse_args()


def make_model(a: argparse.Namespace, device: torch.device) -> nn.Module:
    if a.net == "mlp":
        return Mlp(a.width, a.depth, a.island).to(device)
    import torchvision

    model = torchvision.models.get_model(a.net, weights=None).to(device)
    return model.to(memory_format=torch.channels_last) if a.channels_last else model


def batches(a: argparse.Namespace, device: torch.device):
    shape = (a.batch, a.width) if a.net == "mlp" else (a.batch, 3, a.size, a.size)
    if a.loader != "none":
        count = a.batch * a.steps
        slow = a.loader == "slow"
        loader = torch.utils.data.DataLoader(
            Images(count, 0.001 if slow else 0.0),
            batch_size=a.batch,
            num_workers=0 if slow else 4,
            pin_memory=not slow,
        )
        for x, y in loader:
            yield x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        return
    classes = 10 if a.net == "mlp" else 1000
    y = torch.arange(a.batch, device=device) % classes
    if a.input == "gpu":
        x = torch.randn(shape, device=device)
        for _ in range(a.steps):
            yield x, y
        return
    host = torch.randn(shape)
    if a.input != "pageable":
        host = host.pin_memory()
    if a.input != "stream":
        for _ in range(a.steps):
            yield host.to(device, non_blocking=a.input == "pinned"), y
        return
    yield from prefetched(a, host, y, device)


def prefetched(a: argparse.Namespace, host, y, device: torch.device):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        following = host.to(device, non_blocking=True)
    for _ in range(a.steps):
        torch.cuda.current_stream().wait_stream(stream)
        x = following
        x.record_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            following = host.to(device, non_blocking=True)
        yield x, y


def make_step(a: argparse.Namespace, model: nn.Module, optimizer, scaler):
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(a.precision)

    def step(x, y) -> None:
        if a.channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        optimizer.zero_grad(set_to_none=not a.graph)
        with torch.autocast("cuda", dtype=dtype or torch.float16, enabled=dtype is not None):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        if a.reduce == "after":
            for parameter in model.parameters():
                torch.distributed.all_reduce(parameter.grad)
        if a.norms:
            sum(p.grad.norm().item() ** 2 for p in model.parameters())
        scaler.step(optimizer)
        scaler.update()
        if a.item:
            loss.item()

    return step


def make_graphed(step, x, y):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(x, y)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(x, y)
    return lambda *_: graph.replay()


def run(a: argparse.Namespace, step, source, model: nn.Module) -> list[float]:
    ends: list[float] = []
    for number, (x, y) in enumerate(source):
        torch.cuda.nvtx.range_push(f"iteration {number}")
        step(x, y)
        if a.pause:
            time.sleep(a.pause)
        if a.slow_every and number % a.slow_every == a.slow_every - 1:
            {k: v.cpu() for k, v in model.state_dict().items()}
            time.sleep(0.03)  # a checkpoint, written while the GPU waits
        torch.cuda.nvtx.range_pop()
        if "DLPROF_NVTX" not in os.environ:
            torch.cuda.synchronize()
        ends.append(time.perf_counter())
    return ends


def main() -> None:
    a = options()
    world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    torch.backends.cudnn.benchmark = a.benchmark
    torch.backends.cudnn.allow_tf32 = a.precision != "fp32"
    torch.backends.cuda.matmul.allow_tf32 = a.precision == "tf32"
    if world > 1:
        torch.distributed.init_process_group("nccl", device_id=device)
        if rank == 0:
            a.batch *= a.uneven
    model = make_model(a, device)
    if a.reduce == "ddp":
        model = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    how = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
    extra = {"capturable": True} if a.graph else {}
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, **how[a.optimizer], **extra)
    scaler = torch.amp.GradScaler("cuda", enabled=a.precision == "fp16")
    step = make_step(a, model, optimizer, scaler)
    anomaly = torch.autograd.set_detect_anomaly(True) if a.anomaly else contextlib.nullcontext()
    source = batches(a, device)
    if a.graph:
        step = make_graphed(step, *next(source))
    with anomaly:
        ends = run(a, step, source, model)
    torch.cuda.synchronize()
    lengths = [end - start for start, end in itertools.pairwise(ends[5:])]
    peak = torch.cuda.max_memory_allocated() / 2**30
    if lengths and rank == 0:
        median = 1e3 * statistics.median(lengths)
        mean = 1e3 * statistics.fmean(lengths)
        print(f"STEP {median:.3f} ms median, {mean:.3f} ms mean, {peak:.2f} GiB", flush=True)
    if world > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
