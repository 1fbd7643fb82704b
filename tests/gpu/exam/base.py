"""What the programs of the exam share: options, a clock of their own, and a gate.

The programs contain nothing of a profiler. The gate lets several of them start at once and run
their steps one after the other, so that none is timed beside another: a program at the gate only
sleeps.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

SETTLE = 10
"""Steps after the gate that do not count: batches that waited ready, clocks that were low."""
GATE, GATE_AT, REPORT = "EXAM_GATE", "EXAM_GATE_AT", "EXAM_REPORT"
"""Variables: files of the gate, the step that it stands before, and where the times go."""
BLOCK = "EXAM_BLOCK"
"""Variable: the gate stands also after every so many steps, until it is said to stop there."""
SWITCH = "EXAM_SWITCH"
"""Variable: in every other block of so many steps, what others have hooked into the steps of all
optimizers does not run."""


def options(*switches: str, **numbers: int) -> argparse.Namespace:
    """Read the command line: the interventions of a program, and what all programs take.

    Args:
        switches: Names of options without a value.
        numbers: Options with a number, and their defaults.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="sizes for a CPU")
    parser.add_argument("--steps", type=int, default=30, help="least number of steps that count")
    parser.add_argument("--seconds", type=float, default=0.0, help="least time of the loop")
    for switch in switches:
        parser.add_argument(f"--{switch.replace('_', '-')}", action="store_true")
    for name, default in numbers.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    found = parser.parse_args()
    torch.manual_seed(1)
    return found


def train(
    a: argparse.Namespace, batches: Iterable[Any], step: Callable[[Any], Any], samples: int
) -> None:
    """Run the steps and report their times.

    Args:
        a: Says how many steps count at least, and how long the loop takes at least.
        batches: Endless.
        step: Runs a step; returns its loss.
        samples: Of a step.
    """
    gate_at, losses = int(os.environ.get(GATE_AT, "0")), []
    block, switch = (int(os.environ.get(name, "0")) for name in (BLOCK, SWITCH))
    hooks = _Hooks()
    ends: list[Any] = []
    started_s = 0.0
    for number, batch in enumerate(batches):
        if number == gate_at:
            _pass_gate(a.device)
            started_s, ends = time.perf_counter(), [_now(a.device)]
        turn, is_inside = divmod(number - gate_at, block) if block else (0, 1)
        if turn > 0 and not is_inside and not _pass_gate(a.device, str(turn)):
            break
        if switch and number >= gate_at and not (number - gate_at) % switch:
            hooks.switch(is_on=not (number - gate_at) // switch % 2)
        loss = step(batch)
        if number < 3:
            losses.append(loss.detach().float().mean())
        ends.append(_now(a.device))
        is_enough = number >= gate_at + SETTLE + a.steps - 1
        if is_enough and time.perf_counter() - started_s >= a.seconds:
            break
    if a.device == "cuda":
        torch.cuda.synchronize()
    times_ms = [round(_between_ms(*pair), 4) for pair in itertools.pairwise(ends)]
    times_ms = times_ms if block or switch else times_ms[SETTLE:]
    report: dict[str, Any] = {"times_ms": times_ms, "samples": samples}
    report["losses"] = [float(loss) for loss in losses]
    if a.device == "cuda":
        report["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    print(f"step: mean {sum(times_ms) / len(times_ms):.3f} ms ({len(times_ms)} steps)", flush=True)
    if path := os.environ.get(REPORT):
        Path(path).write_text(json.dumps(report), encoding="utf-8")


class _Hooks:
    """The hooks of the steps of all optimizers, which may be taken out and put back."""

    def __init__(self) -> None:
        module = sys.modules["torch.optim.optimizer"]  # A name that the package does not have.
        names = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")
        self._all = [(found, dict(found)) for found in (getattr(module, name) for name in names)]

    def switch(self, *, is_on: bool) -> None:
        """Put them back, or take them out."""
        for found, kept in self._all:
            found.clear()
            found.update(kept if is_on else {})


def _pass_gate(device: str, turn: str = "") -> bool:
    """Say that the program is ready, and wait until it may go on; returns whether it may."""
    if not (name := os.environ.get(GATE)):
        return True
    if device == "cuda":
        torch.cuda.synchronize()
    Path(f"{name}.ready{turn}").touch()
    while not Path(f"{name}.go{turn}").exists():
        if Path(f"{name}.stop").exists():
            return False
        time.sleep(0.01)
    return True


def _now(device: str) -> Any:
    if device != "cuda":
        return time.perf_counter()
    event: Any = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _between_ms(start: Any, end: Any) -> float:
    return 1e3 * (end - start) if isinstance(start, float) else float(start.elapsed_time(end))


class Block(nn.Module):
    """A block of a transformer with causal attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> Any:
        """Attend, then mix the channels."""
        size, length, width = x.shape
        parts = self.c_attn(self.ln_1(x)).split(width, dim=2)
        q, k, v = (part.view(size, length, self.heads, -1).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(mixed.transpose(1, 2).reshape(size, length, width))
        return x + self.down(functional.gelu(self.up(self.ln_2(x))))


class Average(nn.Module):
    """Keeps a moving average of weights, one by one or by one call."""

    def __init__(self, weights: Iterable[Any], *, at_once: bool) -> None:
        super().__init__()
        self.at_once, self.weights = at_once, list(weights)
        self.means = [weight.detach().clone() for weight in self.weights]

    @torch.no_grad()
    def forward(self) -> None:
        """Move the averages by a hundredth of the way."""
        if self.at_once:
            torch._foreach_lerp_(self.means, self.weights, 0.01)
            return
        for mean, weight in zip(self.means, self.weights, strict=True):
            mean.lerp_(weight, 0.01)


def repeat(batch: Any) -> Iterable[Any]:
    """Yield the same batch for ever."""
    return itertools.repeat(batch)
