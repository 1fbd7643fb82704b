"""Small trainings, each with one thing that is hard to profile."""

from __future__ import annotations

import os
import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, how: str, width: int = 256) -> None:
        super().__init__()
        self.how = how
        self.stem = nn.Linear(64, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(3))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            if self.how == "checkpoint":
                x = checkpoint(block, x, use_reentrant=False)
            elif self.how == "checkpoint_reentrant":
                x = checkpoint(block, x, use_reentrant=True)
            else:
                x = block(x)
        return self.head(x)


def step(how: str, model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    loss = nn.functional.cross_entropy(model(x), y)
    if how == "two_backwards":
        loss.backward(retain_graph=True)
    loss.backward()


def wrapped(how: str, model: nn.Module) -> nn.Module:
    if how == "compile":
        return torch.compile(model)
    if how in {"fsdp", "fsdp2"}:
        torch.distributed.init_process_group("nccl")
        if how == "fsdp2":
            from torch.distributed.fsdp import fully_shard

            for block in model.blocks:
                fully_shard(block)
            return fully_shard(model)
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy

        return FullyShardedDataParallel(
            model, auto_wrap_policy=ModuleWrapPolicy({Block}), use_orig_params=True
        )
    return model


def graphed(model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device):
    """One training step as a CUDA graph; returns its inputs and the graph."""
    x = torch.zeros(32, 64, device=device)
    y = torch.zeros(32, dtype=torch.long, device=device)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            step("plain", model, x, y)
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        step("plain", model, x, y)
        optimizer.step()
    return x, y, graph


def main() -> None:
    how = sys.argv[1]
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    model = wrapped(how, Net(how).to(device))
    optimizer = torch.optim.Adam(model.parameters(), capturable=how == "cuda_graph")
    if how == "cuda_graph":
        static_x, static_y, graph = graphed(model, optimizer, device)
    data = [(torch.full((64,), i / 64), i % 10) for i in range(32 * 4)]
    for x, y in torch.utils.data.DataLoader(data, batch_size=32):
        if how == "cuda_graph":
            static_x.copy_(x)
            static_y.copy_(y)
            graph.replay()
            continue
        optimizer.zero_grad()
        if how == "out_of_memory" and x[0, 0] > 0.5:
            torch.empty(1 << 40, device=device)
        step(how, model, x.to(device), y.to(device))
        optimizer.step()
    torch.cuda.synchronize()
    print("done", how)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
