"""Train a small network whose launches take longer than its work."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.gpu.exam.base import Average, options, repeat, train

a = options("graph", "compile", "fused", "average_at_once", "no_average", batch=1)
WIDTH, DEPTH, BATCH = (16, 2, 4) if a.tiny else (512, 24, 128)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> Any:
        return x + nn.functional.gelu(self.linear(self.norm(x)))


class Small(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(*(Layer() for _ in range(DEPTH)), nn.Linear(WIDTH, 10))


def graphed(step: Any) -> Any:
    """Record a step as a CUDA graph."""
    side: Any = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(None)
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(None)

    def replay(_: Any) -> Any:
        graph.replay()
        return loss

    return replay


def main() -> None:
    model = Small().to(a.device)
    run = torch.compile(model, mode="reduce-overhead") if a.compile else model
    how: dict[str, Any] = {"fused": True} if a.fused else {"foreach": False}
    if a.graph and a.device == "cuda":
        how["capturable"] = True
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, **how)
    average = Average(model.parameters(), at_once=a.average_at_once)
    x = torch.randn(BATCH * a.batch, WIDTH, device=a.device)
    classes = torch.randint(0, 10, (BATCH * a.batch,), device=a.device)

    def step(_: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(run(x), classes)
        loss.backward()
        optimizer.step()
        if not a.no_average:
            average()
        return loss

    if a.graph and a.device == "cuda":
        train(a, repeat(None), graphed(step), BATCH * a.batch)
    else:
        train(a, repeat(None), step, BATCH * a.batch)


if __name__ == "__main__":
    main()
