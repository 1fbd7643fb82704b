"""Detect with a loss that reads 164 values from the device, of which 149 cost next to nothing.

Rebuilds rf-detr's pull request 1492: fewer reads, and a step that is hardly shorter.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.gpu.exam.base import options, repeat, train

a = options("batched_reads", "channels_last", "bf16", "benchmark")
SIZE, BATCH, WIDTH = (32, 2, 8) if a.tiny else (320, 48, 96)


def stage(before: int, after: int) -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(before, after, 3, 2, 1, bias=False), nn.GroupNorm(8, after), nn.ReLU()),
        *(nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.GroupNorm(8, after), nn.ReLU()),
    )


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.Sequential(
            *(stage(3, WIDTH), stage(WIDTH, 2 * WIDTH), stage(2 * WIDTH, 4 * WIDTH)),
            stage(4 * WIDTH, 8 * WIDTH),
        )
        self.head = nn.Linear(8 * WIDTH, 4)

    def forward(self, x: torch.Tensor) -> Any:
        return self.head(self.stages(x).flatten(2).transpose(1, 2))


class Matches(nn.Module):
    """Reads a cost of each pair, one after the other or all at once."""

    def forward(self, cost: torch.Tensor) -> float:
        if a.batched_reads:
            return sum(cost.tolist())
        return sum(value.item() for value in cost.unbind(0))


class Loss(nn.Module):
    """Reads 15 values that the work before it has to be done for, and 149 more that are there."""

    def __init__(self) -> None:
        super().__init__()
        self.matches = Matches()

    def forward(self, boxes: torch.Tensor, wanted: torch.Tensor) -> Any:
        parts = [(boxes[i % BATCH] - wanted[i % BATCH]).abs().mean() for i in range(15)]
        known = [part.item() for part in parts]
        cost = boxes.detach().float().flatten()[:149]
        weight = 1.0 + 0.0 * (self.matches(cost) + sum(known))
        return weight * (boxes - wanted).abs().mean()


def main() -> None:
    torch.backends.cudnn.benchmark = a.benchmark
    layout = torch.channels_last if a.channels_last else torch.contiguous_format
    model = Detector().to(a.device, memory_format=layout)
    criterion = Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x = torch.randn(BATCH, 3, SIZE, SIZE, device=a.device).to(memory_format=layout)
    wanted = torch.randn(BATCH, (SIZE // 16) ** 2, 4, device=a.device)

    def step(_: Any) -> Any:
        optimizer.zero_grad()
        with torch.autocast(a.device, dtype=torch.bfloat16, enabled=a.bf16):
            boxes = model(x)
        loss = criterion(boxes, wanted)
        loss.backward()
        optimizer.step()
        return loss

    train(a, repeat(None), step, BATCH)


if __name__ == "__main__":
    main()
