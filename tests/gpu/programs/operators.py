"""Ops whose parameters decide their cost, without gradients and with; counts of flop_counter."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.profiler import record_function
from torch.utils.flop_counter import FlopCounterMode

D = "cuda"


def cases():
    x = torch.randn(8, 16, 33, 47, device=D)
    s = torch.randn(4, 24, 101, device=D)
    v = torch.randn(2, 8, 9, 17, 13, device=D)

    def w(*sizes):
        return torch.randn(*sizes, device=D) * 0.1

    yield "conv2d_stride", lambda: F.conv2d(x, w(32, 16, 3, 3), None, 2, 1)
    yield "conv2d_dilated_bias", lambda: F.conv2d(x, w(32, 16, 3, 5), w(32), (1, 2), (2, 0), (2, 3))
    yield "conv2d_groups", lambda: F.conv2d(x, w(32, 4, 3, 3), None, 1, 0, 1, 4)
    yield "conv2d_depthwise", lambda: F.conv2d(x, w(16, 1, 5, 5), None, 1, 2, 1, 16)
    yield "conv2d_same", lambda: F.conv2d(x, w(8, 16, 3, 3), None, 1, "same")
    yield "conv1d", lambda: F.conv1d(s, w(12, 24, 7), w(12), 3, 3)
    yield "conv3d", lambda: F.conv3d(v, w(6, 8, 3, 3, 3), None, (1, 2, 2), 1)
    yield "conv_transpose2d", lambda: F.conv_transpose2d(x, w(16, 6, 4, 4), None, 2, 1, 1)
    yield "conv_transpose2d_groups", lambda: F.conv_transpose2d(x, w(16, 3, 3, 3), w(6), 1, 0, 0, 2)
    yield "max_pool2d", lambda: F.max_pool2d(x, 3, 2, 1)
    yield "avg_pool2d", lambda: F.avg_pool2d(x, (2, 3), None, 0, True)
    yield "adaptive_avg_pool2d", lambda: F.adaptive_avg_pool2d(x, (5, 7))
    yield "interpolate", lambda: F.interpolate(x, scale_factor=2, mode="bilinear")
    yield "dropout", lambda: F.dropout(x, 0.3, True)
    yield "sum_dim", lambda: x.sum((0, 2, 3))
    yield "softmax", lambda: x.softmax(1)
    yield "cat", lambda: torch.cat([x, x], 1)
    yield "einsum", lambda: torch.einsum("bchw,dc->bdhw", x, w(20, 16))
    yield "addmm", lambda: torch.addmm(w(40), w(64, 33), w(33, 40), beta=0.5, alpha=2)
    yield "baddbmm", lambda: torch.baddbmm(w(4, 16, 20), w(4, 16, 8), w(4, 8, 20), beta=0)
    yield "linear", lambda: F.linear(w(7, 5, 64), w(48, 64), w(48))
    yield "topk", lambda: x.flatten(1).topk(10)
    yield "scalar_mul", lambda: x * 3.5
    q = torch.randn(2, 4, 64, 32, device=D, dtype=torch.bfloat16)
    yield "sdpa", lambda: F.scaled_dot_product_attention(q, q, q)
    yield "sdpa_causal", lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True)
    i = torch.randint(0, 50, (6, 9), device=D)
    yield "embedding", lambda: F.embedding(i, w(50, 16))
    yield "one_hot_loss", lambda: F.cross_entropy(w(30, 10), i.flatten()[:30] % 10)
    lstm = torch.nn.LSTM(16, 24, 2, bidirectional=True).to(D)
    yield "lstm", lambda: lstm(w(5, 3, 16))


def main() -> None:
    counts = {}
    torch.manual_seed(0)
    for _ in range(2):
        for name, call in cases():
            with torch.no_grad(), record_function(f"case {name}"):
                call()
    torch.cuda.synchronize()
    if len(sys.argv) > 1:
        for name, call in cases():
            with torch.no_grad(), FlopCounterMode(display=False) as counter:
                call()
            counts[name] = counter.get_total_flops()
        Path(sys.argv[1]).write_text(json.dumps(counts))
    print("done operators")


if __name__ == "__main__":
    main()
