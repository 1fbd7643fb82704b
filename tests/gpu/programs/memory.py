"""A small transformer whose peak of GPU memory depends on the options: for what-ifs of memory.

Prints what PyTorch counted, and the bytes of the model's own parameters, gradients and states.
"""

from __future__ import annotations

import argparse
import itertools
import json
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    """Attention and MLP."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.act = nn.GELU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, 8, c // 8).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(self.act(self.up(self.norm2(x))))


class Model(nn.Module):
    """Blocks between an embedding and a head."""

    def __init__(self, width: int, depth: int, *, recompute: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(8192, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 8192)
        self.recompute = recompute

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)
        return self.head(x)


class Conv(nn.Module):
    """A few convolutions."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 64, 128, 256, 512)
        self.layers = nn.Sequential()
        for before, after in itertools.pairwise(widths):
            self.layers.append(nn.Conv2d(before, after, 3, stride=2, padding=1))
            self.layers.append(nn.BatchNorm2d(after))
            self.layers.append(nn.ReLU())
        self.head = nn.Linear(512, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x).mean((2, 3)))


class Adam(torch.optim.Optimizer):
    """Adam with states of a chosen data type, parameter by parameter."""

    def __init__(self, params: Any, dtype: torch.dtype, shards: int = 1) -> None:
        super().__init__(params, {"lr": 1e-4})
        self.dtype = dtype
        # As a sharded optimizer: this rank has the states of its share of the bytes.
        self.owned: set[torch.Tensor] = set()
        loads = [0] * shards
        for weight in sorted(self.param_groups[0]["params"], key=lambda one: -one.numel()):
            least = loads.index(min(loads))
            loads[least] += weight.numel()
            if least == 0:
                self.owned.add(weight)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None or weight not in self.owned:
                    continue
                state = self.state[weight]
                if not state:
                    state["m"] = torch.zeros_like(weight, dtype=self.dtype)
                    state["v"] = torch.zeros_like(weight, dtype=self.dtype)
                grad = weight.grad.to(self.dtype)
                state["m"].mul_(0.9).add_(grad, alpha=0.1)
                state["v"].mul_(0.99).addcmul_(grad, grad, value=0.01)
                weight.addcdiv_(state["m"], state["v"].sqrt().add_(1e-8), value=-1e-4)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="gpt")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--checkpoint", action="store_true")
    parser.add_argument("--bf16-states", action="store_true")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--autocast", action="store_true")
    parser.add_argument("--optimizer", default="own")
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.model == "gpt":
        model: nn.Module = Model(1024, options.depth, recompute=options.checkpoint).cuda()
    else:
        model = Conv().cuda()
    dtype = torch.bfloat16 if options.bf16_states else torch.float32
    weights = list(model.parameters())
    optimizer: torch.optim.Optimizer = (
        Adam(weights, dtype, options.shards)
        if options.optimizer == "own"
        else torch.optim.AdamW(weights)
    )
    for _ in range(4):
        if options.model == "gpt":
            x = torch.randint(0, 8192, (options.batch, 512), device="cuda")
            target = x.view(-1)
        else:
            x = torch.randn(options.batch, 3, 224, 224, device="cuda")
            target = torch.randint(0, 1000, (options.batch,), device="cuda")
        with torch.autocast("cuda", torch.bfloat16, enabled=options.autocast):
            y = model(x)
            loss = nn.functional.cross_entropy(y.reshape(-1, y.shape[-1]).float(), target)
        loss.backward()
        optimizer.step()
        own = {
            "parameters": sum(w.numel() * w.element_size() for w in weights),
            "gradients": sum(w.grad.numel() * w.grad.element_size() for w in weights),
            "states": sum(
                value.numel() * value.element_size()
                for state in optimizer.state.values()
                for value in state.values()
                if isinstance(value, torch.Tensor) and value.is_cuda
            ),
        }
        optimizer.zero_grad()
        del y, loss
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    names = ("allocated_bytes", "active_bytes", "reserved_bytes", "requested_bytes")
    found = {
        f"{name}.{when}": stats[f"{name}.all.{when}"]
        for name in names
        for when in ("current", "peak")
    }
    print("MEMORY", json.dumps({**vars(options), **found, "own": own}), flush=True)


if __name__ == "__main__":
    main()
