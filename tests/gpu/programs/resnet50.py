"""An ordinary training script: torchvision's ResNet-50, and nothing that knows of profiling."""

from __future__ import annotations

import argparse
import os

import torch
import torchvision
from torch.nn.parallel import DistributedDataParallel


class Images(torch.utils.data.Dataset):
    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int):
        return torch.full((3, 224, 224), index / self.count), index % 1000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--iters", type=int, default=8)
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--model", default="resnet50")
    arguments = parser.parse_args()
    world = int(os.environ.get("WORLD_SIZE", "1"))
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    model = torchvision.models.get_model(arguments.model, weights=None).to(device)
    if world > 1:
        torch.distributed.init_process_group("nccl")
        model = DistributedDataParallel(model, device_ids=[device.index])
    loader = torch.utils.data.DataLoader(
        Images(arguments.batch * arguments.iters),
        batch_size=arguments.batch,
        num_workers=2,
        pin_memory=True,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda", enabled=arguments.amp)
    criterion = torch.nn.CrossEntropyLoss()
    for images, labels in loader:
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=arguments.amp):
            loss = criterion(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    print("loss", float(loss))
    if world > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
