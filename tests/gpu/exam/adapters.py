"""Fine-tune with thousands of tiny launches from Python, beside enough work for the GPU.

Rebuilds unsloth's pull request 10744, where the GPU limits the step once they are gone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.gpu.exam.base import Average, Block, options, repeat, train

a = options("merged", "average_at_once")
WIDTH, LAYERS, BATCH, LENGTH, PARTS = (32, 2, 2, 16, 20) if a.tiny else (1536, 12, 8, 1024, 10_000)


class Scales(nn.Module):
    """Corrects thousands of scales in a loop of Python, or at once."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("values", torch.ones(PARTS, 64))

    def forward(self) -> Any:
        if a.merged:
            return self.values.mul_(1.0)
        for row in self.values.unbind(0):
            row.mul_(1.0)
        return self.values


def main() -> None:
    model = nn.Sequential(*(Block(WIDTH, 16) for _ in range(LAYERS))).to(a.device)
    scales = Scales().to(a.device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-4, **({"fused": True} if a.device == "cuda" else {})
    )
    average = Average(model.parameters(), at_once=a.average_at_once)
    x = torch.randn(BATCH, LENGTH, WIDTH, device=a.device)

    def step(_: Any) -> Any:
        optimizer.zero_grad()
        scales()
        with torch.autocast(a.device, dtype=torch.bfloat16):
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        average()
        return loss

    train(a, repeat(None), step, BATCH)


if __name__ == "__main__":
    main()
