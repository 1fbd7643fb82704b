"""Collectives of every kind between two processes, plainly or under torch.profiler."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, record_function


def run(rank: int, device: torch.device) -> None:
    def tensor(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.ones(count, device=device, dtype=dtype)

    for _ in range(3):
        with record_function("step"):
            dist.all_reduce(tensor(1 << 20))
            dist.all_reduce(tensor(1000, torch.bfloat16))
            dist.broadcast(tensor(5000), 0)
            dist.reduce(tensor(7000), 0)
            dist.all_gather_into_tensor(tensor(2 * 3000), tensor(3000))
            dist.all_gather([tensor(100), tensor(100)], tensor(100))
            dist.reduce_scatter_tensor(tensor(2500), tensor(2 * 2500))
            dist.all_to_all_single(tensor(6000, torch.float16), tensor(6000, torch.float16))
            if rank == 0:
                dist.send(tensor(1234), 1)
            else:
                dist.recv(tensor(1234), 0)
            dist.barrier()


def main() -> None:
    rank = int(os.environ["RANK"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    dist.all_reduce(torch.ones(1, device=device))
    torch.cuda.synchronize()
    if len(sys.argv) > 1:
        activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
        with profile(activities=activities, record_shapes=True) as profiler:
            run(rank, device)
            torch.cuda.synchronize()
        profiler.export_chrome_trace(sys.argv[1].format(rank=rank))
    else:
        run(rank, device)
        torch.cuda.synchronize()
    dist.destroy_process_group()
    print("done collectives")


if __name__ == "__main__":
    main()
