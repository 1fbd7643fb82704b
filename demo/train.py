"""Train ResNet-50 with mixed precision on made-up images, and print the time of a step.

The script contains nothing of a profiler: ``dlprof python demo/train.py`` marks it. It needs
PyTorch and torchvision. ``make demo-capture`` makes the bundled profile with it.
"""

from __future__ import annotations

import argparse
import itertools
import statistics

import torch
import torchvision


class Images(torch.utils.data.Dataset):
    """Images of one color, and labels."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int):
        return torch.full((3, 224, 224), index / self.count), index % 1000


def train(batch: int, steps: int, layout: torch.memory_format) -> list[float]:
    """Train and return the time of each step on the GPU, from one batch to the next. Unit: ms."""
    torch.backends.cudnn.benchmark = True
    model = torchvision.models.resnet50(weights=None).cuda().to(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda")
    criterion = torch.nn.CrossEntropyLoss()
    loader = torch.utils.data.DataLoader(
        Images(batch * steps), batch_size=batch, num_workers=4, pin_memory=True
    )
    events = []
    for images, labels in loader:
        optimizer.zero_grad()
        placed = images.cuda(non_blocking=True).to(memory_format=layout)
        with torch.autocast("cuda", dtype=torch.float16):
            output = model(placed)
            loss = criterion(output, labels.cuda(non_blocking=True))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        events.append(torch.cuda.Event(enable_timing=True))
        events[-1].record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) for before, after in itertools.pairwise(events)]


def main() -> None:
    """Train and print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--warm-up", type=int, default=5, help="steps that are not counted")
    parser.add_argument("--channels-last", action="store_true", help="memory format of the model")
    options = parser.parse_args()
    layout = torch.channels_last if options.channels_last else torch.contiguous_format
    times_ms = sorted(train(options.batch, options.steps, layout)[options.warm_up - 1 :])
    low, high = times_ms[len(times_ms) // 10], times_ms[-1 - len(times_ms) // 10]
    median = statistics.median(times_ms)
    print(f"step: median {median:.2f} ms, 10 to 90 % of the steps {low:.2f} to {high:.2f} ms")


if __name__ == "__main__":
    main()
