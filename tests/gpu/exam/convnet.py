"""Train a convolutional network with batch normalization in single precision."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.gpu.exam.base import options, repeat, train

a = options("channels_last", "bf16", "benchmark", "fused", "no_metrics")
SIZE, BATCH, WIDTH, DEPTH = (32, 2, 8, 1) if a.tiny else (192, 48, 64, 3)


class Bottleneck(nn.Module):
    """Narrow, convolve, widen, add."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = 4 * width
        self.body = nn.Sequential(
            *(nn.Conv2d(before, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            *(nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, after, 1, bias=False)),
            nn.BatchNorm2d(after),
        )
        self.short = (
            nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
            if before != after or stride > 1
            else nn.Identity()
        )

    def forward(self, x: torch.Tensor) -> Any:
        return nn.functional.relu(self.body(x) + self.short(x))


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, WIDTH, 7, 2, 3, bias=False), nn.BatchNorm2d(WIDTH), nn.MaxPool2d(2)
        )
        blocks, before = [], WIDTH
        for level in range(4):
            for number in range(DEPTH):
                stride = 2 if level and not number else 1
                blocks.append(Bottleneck(before, WIDTH << level, stride))
                before = 4 * WIDTH << level
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(before, 1000)

    def forward(self, x: torch.Tensor) -> Any:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Metrics(nn.Module):
    """Reads how many of the classes were right, each step."""

    def forward(self, scores: torch.Tensor, classes: torch.Tensor) -> Any:
        best = scores.topk(5, 1).indices == classes[:, None]
        return best[:, 0].float().mean().item(), best.any(1).float().mean().item()


def main() -> None:
    torch.backends.cudnn.benchmark = a.benchmark
    layout = torch.channels_last if a.channels_last else torch.contiguous_format
    model, metrics = ConvNet().to(a.device, memory_format=layout), Metrics()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=1e-3, momentum=0.9, **({"fused": True} if a.fused else {})
    )
    x = torch.randn(BATCH, 3, SIZE, SIZE, device=a.device).to(memory_format=layout)
    classes = torch.randint(0, 1000, (BATCH,), device=a.device)

    def step(_: Any) -> Any:
        optimizer.zero_grad()
        with torch.autocast(a.device, dtype=torch.bfloat16, enabled=a.bf16):
            scores = model(x)
            loss = nn.functional.cross_entropy(scores, classes)
        loss.backward()
        optimizer.step()
        if not a.no_metrics:
            metrics(scores.detach(), classes)
        return loss

    train(a, repeat(None), step, BATCH)


if __name__ == "__main__":
    main()
