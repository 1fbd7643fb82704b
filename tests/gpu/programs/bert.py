"""Hugging Face's BERT, from a configuration: nothing is downloaded."""

from __future__ import annotations

import os
import sys

import torch
from torch.nn.parallel import DistributedDataParallel
from transformers import BertConfig, BertForMaskedLM


class Tokens(torch.utils.data.Dataset):
    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int):
        return (torch.arange(128) * (index + 1)) % 30000


def main() -> None:
    iters = int(sys.argv[1]) if len(sys.argv) > 1 else 6
    layers = int(sys.argv[2]) if len(sys.argv) > 2 else 12
    world = int(os.environ.get("WORLD_SIZE", "1"))
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    model = BertForMaskedLM(BertConfig(num_hidden_layers=layers)).to(device)
    if world > 1:
        torch.distributed.init_process_group("nccl")
        model = DistributedDataParallel(model, device_ids=[device.index])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for tokens in torch.utils.data.DataLoader(Tokens(16 * iters), batch_size=16):
        tokens = tokens.to(device)
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
    print("loss", float(loss))
    if world > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
