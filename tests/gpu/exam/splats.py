"""Fit points to pictures: the loader decodes one each step, and the step reads from the device.

Rebuilds gsplat's pull requests 1057 and 1062.
"""

from __future__ import annotations

import itertools
import zlib
from typing import Any

import torch
from torch import nn

from tests.gpu.exam.base import options, train

a = options("cached", "no_reads", workers=0)
HEIGHT, WIDTH, POINTS = (32, 32, 2000) if a.tiny else (720, 1280, 400_000)


class Pictures(torch.utils.data.Dataset[Any]):
    """Compressed pictures, decoded where one is asked for; or kept decoded."""

    def __init__(self, count: int) -> None:
        shade = torch.arange(3 * HEIGHT * WIDTH) // 7
        noise = torch.randint(0, 24, (3 * HEIGHT * WIDTH,))
        raw = ((shade + noise) % 256).to(torch.uint8).numpy().tobytes()
        self.stored = [zlib.compress(raw[i:] + raw[:i], 1) for i in range(4)]
        self.count, self.decoded = count, [self._decode(i) for i in range(4)] if a.cached else []

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.decoded[index % 4] if self.decoded else self._decode(index % 4)

    def _decode(self, index: int) -> torch.Tensor:
        values = torch.frombuffer(bytearray(zlib.decompress(self.stored[index])), dtype=torch.uint8)
        return values.view(HEIGHT * WIDTH, 3).float() / 255


class Splats(nn.Module):
    """Points with a place, a depth and a color, drawn from the farthest to the nearest."""

    def __init__(self) -> None:
        super().__init__()
        self.place = nn.Parameter(torch.rand(POINTS, 2))
        self.depth = nn.Parameter(torch.rand(POINTS) - 0.02)
        self.color = nn.Parameter(torch.rand(POINTS, 3))
        self.scale = nn.Linear(3, 64)
        self.mix = nn.Linear(64, 3)

    def forward(self) -> Any:
        order = self.depth.argsort(descending=True)
        if not a.no_reads:
            order = order[: int((self.depth > 0).sum())]
        color = self.mix(torch.relu(self.scale(self.color[order])))
        image = torch.zeros(HEIGHT * WIDTH, 3, device=color.device)
        for turn in range(8):
            where = (
                self.place[order].detach().roll(turn, 1)
                * torch.tensor([HEIGHT - 1, WIDTH - 1], device=color.device)
            ).long()
            cell = where[:, 0].clamp(0, HEIGHT - 1) * WIDTH + where[:, 1].clamp(0, WIDTH - 1)
            image = image.index_add(0, cell, color * torch.sigmoid(self.depth[order])[:, None])
            if not a.no_reads and float(image.detach().max()) > 1e9:
                raise ValueError
        return image


def main() -> None:
    model = Splats().to(a.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = torch.utils.data.DataLoader(
        Pictures(400), num_workers=a.workers, persistent_workers=a.workers > 0
    )

    def step(picture: torch.Tensor) -> Any:
        optimizer.zero_grad()
        loss = (model() - picture[0].to(a.device)).abs().mean()
        loss.backward()
        optimizer.step()
        return loss

    train(a, itertools.chain.from_iterable(loader for _ in itertools.count()), step, 1)


if __name__ == "__main__":
    main()
