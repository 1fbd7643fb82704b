"""One training, run plainly (for nsys) or under torch.profiler, with the same seeds and batches."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function, schedule


class Images(torch.utils.data.Dataset):
    def __init__(self, count: int, size: int) -> None:
        self.count, self.size = count, size

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int):
        return torch.full((3, self.size, self.size), index / self.count), index % 1000


def images(arguments, device):
    import torchvision

    model = torchvision.models.get_model(arguments.model, weights=None).to(device)
    data = Images(arguments.batch * arguments.iters, arguments.size)
    loader = torch.utils.data.DataLoader(data, batch_size=arguments.batch, pin_memory=True)
    criterion = nn.CrossEntropyLoss()
    return model, loader, lambda net, x, y: criterion(net(x), y)


def tokens(arguments, device):
    from transformers import BertConfig, BertForMaskedLM

    model = BertForMaskedLM(BertConfig(num_hidden_layers=arguments.layers)).to(device)
    batches = [
        (torch.randint(0, 30000, (arguments.batch, 128)),) * 2 for _ in range(arguments.iters)
    ]
    return model, batches, lambda net, x, y: net(input_ids=x, labels=y).loss


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--iters", type=int, default=6)
    parser.add_argument("--amp", choices=("float16", "bfloat16"))
    parser.add_argument("--kineto", default="")
    parser.add_argument("--light", action="store_true")
    parser.add_argument("--flops", default="")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    build = tokens if arguments.model == "bert" else images
    model, loader, loss_of = build(arguments, device)
    if world > 1:
        torch.distributed.init_process_group("nccl")
        model = DistributedDataParallel(model, device_ids=[device.index])
    if arguments.model == "bert":
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    dtype = getattr(torch, arguments.amp) if arguments.amp else torch.float16
    scaler = torch.amp.GradScaler("cuda", enabled=arguments.amp == "float16")

    def step(x, y):
        with record_function("to the GPU"):
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        optimizer.zero_grad()
        with (
            record_function("forward"),
            torch.autocast("cuda", dtype=dtype, enabled=bool(arguments.amp)),
        ):
            loss = loss_of(model, x, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    def loop(profiler=None):
        for x, y in loader:
            loss = step(x, y)
            if profiler is not None:
                profiler.step()
        torch.cuda.synchronize()
        print("loss", float(loss))

    if arguments.kineto:
        full = not arguments.light
        with profile(
            activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
            record_shapes=True,
            with_stack=full,
            with_modules=full,
            schedule=schedule(wait=1, warmup=1, active=arguments.iters - 2),
            on_trace_ready=lambda p: p.export_chrome_trace(arguments.kineto.format(rank=rank)),
        ) as profiler:
            loop(profiler)
    else:
        loop()
    if arguments.flops:
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter:
            step(*next(iter(loader)))
        counts = {str(op): n for op, n in counter.get_flop_counts()["Global"].items()}
        Path(arguments.flops).write_text(json.dumps(counts))
    if world > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
