"""Train on four ranks that share a GPU, one of which is slow in its backward pass.

Rebuilds traceml's pull request 252.
"""

from __future__ import annotations

import os
import time
from typing import Any

import torch
from torch import nn

from tests.gpu.exam.base import options, repeat, train

a = options("no_pause")
WIDTH, BATCH = (16, 4) if a.tiny else (1024, 512)
a.seconds = 0.0  # All ranks take the same steps.
SLOW_RANK, PAUSE_S = 2, 0.02 if a.tiny else 0.1


class Net(nn.Sequential):
    def __init__(self) -> None:
        layers = [layer for _ in range(6) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
        super().__init__(*layers)


def main() -> None:
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    net = Net().to(a.device)
    if rank == SLOW_RANK and not a.no_pause:
        net[6].register_full_backward_hook(lambda *_: time.sleep(PAUSE_S))
    model = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(BATCH, WIDTH, device=a.device)
    if rank:
        os.environ.pop("EXAM_REPORT", None)

    def step(_: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    train(a, repeat(None), step, BATCH)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
