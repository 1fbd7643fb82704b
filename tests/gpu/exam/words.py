"""Train a language model whose blocks are computed again in the backward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.gpu.exam.base import Block, options, repeat, train

a = options(
    *("tf32", "bf16", "no_checkpoint", "fused", "loop", "padded", "no_norms"),
    accumulate=1,
    batch=1,
)
WIDTH, LAYERS, BATCH, LENGTH = (32, 2, 2, 16) if a.tiny else (1024, 8, 4, 512)
WORDS = (100 if a.tiny else 50_257) if not a.padded else (128 if a.tiny else 50_304)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block(WIDTH, 16) for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens: torch.Tensor) -> Any:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x) if a.no_checkpoint else checkpoint(block, x, use_reentrant=False)
        return self.head(self.norm(x))


class Norms(nn.Module):
    """Reads the norm of each gradient."""

    def forward(self, weights: Any) -> list[float]:
        return [weight.grad.norm().item() for weight in weights]


def main() -> None:
    torch.backends.cuda.matmul.allow_tf32 = a.tf32
    model, norms = Words().to(a.device), Norms()
    how = {"fused": True} if a.fused else {"foreach": not a.loop}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **how)
    tokens = torch.randint(0, 100, (BATCH * a.batch, LENGTH + 1), device=a.device)

    def step(_: Any) -> Any:
        optimizer.zero_grad()
        for _ in range(a.accumulate):
            with torch.autocast(a.device, dtype=torch.bfloat16, enabled=a.bf16):
                scores = model(tokens[:, :-1])
                loss = nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
        if not a.no_norms:
            norms(model.parameters())
        optimizer.step()
        return loss

    train(a, repeat(None), step, BATCH * a.batch * a.accumulate)


if __name__ == "__main__":
    main()
