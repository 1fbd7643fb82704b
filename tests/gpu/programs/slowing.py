"""Train a small network whose steps become slower: they sleep, or their batches take longer."""

from __future__ import annotations

import argparse
import itertools
import time
from typing import Any

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("how", choices=("sleep", "loader"))
parser.add_argument("--from-step", type=int, default=6000)
parser.add_argument("--seconds", type=float, default=120)
parser.add_argument("--device", default="cuda")
a = parser.parse_args()
WIDTH, BATCH, SLOWER_S = 1024, 64, 0.004


class Samples(torch.utils.data.IterableDataset[Any]):
    """Batches; later ones are harder to make."""

    def __iter__(self) -> Any:
        x = torch.randn(BATCH, WIDTH)
        for number in itertools.count():
            end_s = time.perf_counter() + SLOWER_S
            while a.how == "loader" and number >= a.from_step and time.perf_counter() < end_s:
                x = x.flip(0)  # What decoding a larger picture does.
            yield x


def main() -> None:
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(12))).to(a.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    end_s = time.monotonic() + a.seconds
    for number, batch in enumerate(torch.utils.data.DataLoader(Samples(), batch_size=None)):
        if a.how == "sleep" and number >= a.from_step:
            time.sleep(SLOWER_S)
        optimizer.zero_grad()
        loss = model(batch.to(a.device)).square().mean()
        loss.backward()
        optimizer.step()
        if number % 10 == 0:
            loss.item()  # As a log line does: launches do not run ahead without end.
        if time.monotonic() > end_s:
            print(f"{number + 1} steps", flush=True)
            break


if __name__ == "__main__":
    main()
