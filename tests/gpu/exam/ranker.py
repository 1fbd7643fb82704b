"""Rank with embeddings, beside a long kernel whose result is not read.

Rebuilds torchrec's pull request 4749.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.gpu.exam.base import options, repeat, train

a = options("no_unread", "no_log", "pinned")
ROWS, TABLES, WIDTH, BATCH, SIDE = (
    (1000, 2, 16, 32, 32) if a.tiny else (400_000, 12, 64, 16_384, 7168)
)


class Ranker(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(ROWS, WIDTH, sparse=True) for _ in range(TABLES)
        )
        wide = (TABLES + 1) * WIDTH
        self.dense = nn.Linear(256, WIDTH)
        self.top = nn.Sequential(
            *(nn.Linear(wide, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU()),
            *(nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 1)),
        )

    def forward(self, dense: torch.Tensor, ids: torch.Tensor) -> Any:
        parts = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        return self.top(torch.cat([self.dense(dense), *parts], 1))


class Unread(nn.Module):
    """Computes what is not read."""

    def forward(self, x: torch.Tensor) -> Any:
        return x @ x


class Log(nn.Module):
    """Writes the loss and the norm of each weight."""

    def forward(self, loss: torch.Tensor, weights: Any) -> str:
        norms = [f"{weight.norm().item():.4f}" for weight in weights]
        return f"{loss.item():.4f} {' '.join(norms)}"


def main() -> None:
    model, unread, log = Ranker().to(a.device), Unread(), Log()
    dense_weights = [*model.dense.parameters(), *model.top.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    square = torch.randn(SIDE, SIDE, device=a.device)
    dense, ids = torch.randn(BATCH, 256), torch.randint(0, ROWS, (BATCH, TABLES, 20))
    target = torch.randn(BATCH, 1, device=a.device)
    if a.pinned and a.device == "cuda":
        dense, ids = dense.pin_memory(), ids.pin_memory()

    def step(_: Any) -> Any:
        optimizer.zero_grad()
        x = dense.to(a.device, non_blocking=a.pinned)
        words = ids.to(a.device, non_blocking=a.pinned)
        if not a.no_unread:
            unread(square)
        loss = nn.functional.mse_loss(model(x, words), target)
        loss.backward()
        optimizer.step()
        if not a.no_log:
            log(loss, dense_weights)
        return loss

    train(a, repeat(None), step, BATCH)


if __name__ == "__main__":
    main()
