"""Markers of an older package by hand: dictionaries per op, with and without ``emit_nvtx``."""

from __future__ import annotations

import contextlib
import sys

import torch


def linear(x, w, b):
    here = {"traceMarker": ["train.py:12"], "funcStack": "/<module>/Net::forward/linear"}
    torch.cuda.nvtx.range_push(str(here))
    args = [
        {"name": "", "type": "tensor", "shape": tuple(t.shape), "dtype": "float32"}
        for t in (x, w, b)
    ]
    marker = {"mod": "torch.nn.functional", "op": "linear", "args": args}
    torch.cuda.nvtx.range_push(str(marker))
    y = torch.nn.functional.linear(x, w, b)
    torch.cuda.nvtx.range_pop()
    torch.cuda.nvtx.range_pop()
    return y


def main() -> None:
    emit = torch.autograd.profiler.emit_nvtx() if sys.argv[1] == "emit" else None
    w = torch.randn(512, 512, device="cuda", requires_grad=True)
    b = torch.zeros(512, device="cuda", requires_grad=True)
    x = torch.randn(256, 512, device="cuda")
    with emit or contextlib.nullcontext():
        for _ in range(6):
            loss = linear(linear(x, w, b).relu(), w, b).square().mean()
            loss.backward()
    torch.cuda.synchronize()
    print("done")


if __name__ == "__main__":
    main()
