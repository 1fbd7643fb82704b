"""Train on pictures that a data loader prepares; an epoch may be long or short."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn

from tests.gpu.exam.base import options, train

a = options("pinned", "persistent", "gpu_augment", workers=0, epoch=400)
SIZE, BATCH, WIDTH = (16, 2, 8) if a.tiny else (128, 32, 64)


def augment(picture: torch.Tensor) -> torch.Tensor:
    """Flip, shift and brighten a picture, or a batch of them."""
    picture = picture.flip(-1).roll((3, 5), (-2, -1))
    mean = picture.mean((-2, -1), keepdim=True)
    return ((picture - mean) * 1.2 + mean).clamp(0, 1)


class Pictures(torch.utils.data.Dataset[Any]):
    def __init__(self, count: int) -> None:
        self.count, self.picture = count, torch.randint(0, 255, (3, SIZE, SIZE), dtype=torch.uint8)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        picture = self.picture.float() / 255
        return picture if a.gpu_augment else augment(augment(picture)), index % 100


def net() -> nn.Module:
    layers: list[nn.Module] = []
    before = 3
    for width in (WIDTH, 2 * WIDTH, 4 * WIDTH, 8 * WIDTH):
        for stride in (2, 1):
            layers += [nn.Conv2d(before, width, 3, stride, 1), nn.BatchNorm2d(width), nn.ReLU()]
            before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 100))


def main() -> None:
    model = net().to(a.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    loader = torch.utils.data.DataLoader(
        Pictures(BATCH * a.epoch),
        batch_size=BATCH,
        num_workers=a.workers,
        pin_memory=a.pinned and a.device == "cuda",
        persistent_workers=a.persistent,
    )

    def step(batch: Any) -> Any:
        x, classes = (part.to(a.device, non_blocking=a.pinned) for part in batch)
        if a.gpu_augment:
            x = augment(augment(x))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), classes)
        loss.backward()
        optimizer.step()
        return loss

    train(a, itertools.chain.from_iterable(loader for _ in itertools.count()), step, BATCH)


if __name__ == "__main__":
    main()
