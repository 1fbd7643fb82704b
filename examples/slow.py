"""Train a small language model, and print the time of a step."""

import argparse
import time

import torch
from model import LanguageModel, Text
from torch.nn.functional import cross_entropy

BATCH, WARM_UP = 16, 20


def train(steps: int, device: str) -> float:
    """Train and return the mean time of a step after the warm-up. Unit: ms."""
    model = LanguageModel().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loader = torch.utils.data.DataLoader(Text(BATCH * steps), batch_size=BATCH)
    total = 0.0
    for step, (tokens, targets) in enumerate(loader):
        if step == WARM_UP:
            start = time.perf_counter()
        optimizer.zero_grad()
        output = model(tokens.to(device)).flatten(0, 1)
        loss = cross_entropy(output, targets.to(device).flatten())
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"mean loss {total / steps:.2f}")
    return (time.perf_counter() - start) * 1e3 / (steps - WARM_UP)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    print(f"step: {train(options.steps, options.device):.2f} ms")
