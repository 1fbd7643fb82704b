"""Learn energies and forces of atoms, with a loss that asks the device on the host.

Rebuilds fairchem's pull requests 2193 and 2203.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.gpu.exam.base import options, repeat, train

a = options("device_loss", "fused", "foreach")
ATOMS, EDGES, WIDTH, ROUNDS = (64, 256, 16, 2) if a.tiny else (8_000, 160_000, 256, 6)


class Round(nn.Module):
    """Each atom gets messages from its neighbors."""

    def __init__(self) -> None:
        super().__init__()
        self.message, self.update = nn.Linear(2 * WIDTH, WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> Any:
        sent = nn.functional.silu(self.message(torch.cat([x[edges[0]], x[edges[1]]], 1)))
        total = torch.zeros_like(x).index_add(0, edges[1], sent)
        return x + self.update(torch.cat([self.norm(x), total], 1))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, WIDTH)
        self.rounds = nn.ModuleList(Round() for _ in range(ROUNDS))
        self.heads = nn.ModuleList(nn.Linear(WIDTH, 1) for _ in range(4))

    def forward(self, kinds: torch.Tensor, edges: torch.Tensor) -> Any:
        x = self.embed(kinds)
        for turn in self.rounds:
            x = turn(x, edges)
        return torch.cat([head(x) for head in self.heads], 1)


class AskingLoss(nn.Module):
    """Asks for each property on the host whether it is known and finite."""

    def forward(self, found: torch.Tensor, wanted: torch.Tensor, known: torch.Tensor) -> Any:
        total = torch.zeros((), device=found.device)
        for column in range(found.shape[1]):
            if known[:, column].any():
                rows = known[:, column]
                part = (found[rows, column] - wanted[rows, column]).abs().mean()
                if torch.isfinite(part):
                    total = total + part
        return total


class DeviceLoss(nn.Module):
    """The same without a question of the host."""

    def forward(self, found: torch.Tensor, wanted: torch.Tensor, known: torch.Tensor) -> Any:
        error = torch.where(known, (found - wanted).abs(), 0).sum(0) / known.sum(0).clamp(min=1)
        return torch.where(torch.isfinite(error), error, 0).sum()


def main() -> None:
    torch.backends.cuda.matmul.allow_tf32 = True
    model = Net().to(a.device)
    criterion = DeviceLoss() if a.device_loss else AskingLoss()
    how = {"fused": True} if a.fused else {"foreach": a.foreach}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **how)
    kinds = torch.randint(0, 100, (ATOMS,), device=a.device)
    edges = torch.randint(0, ATOMS, (2, EDGES), device=a.device)
    wanted = torch.randn(ATOMS, 4, device=a.device)
    known = torch.rand(ATOMS, 4, device=a.device) < 0.8

    def step(_: Any) -> Any:
        optimizer.zero_grad()
        loss = criterion(model(kinds, edges), wanted, known)
        loss.backward()
        optimizer.step()
        return loss

    train(a, repeat(None), step, ATOMS)


if __name__ == "__main__":
    main()
