"""Six kinds of kernels of a language model, each in three sizes; the last and largest is compared.

    python six_kernels.py [--only-largest | --trace=FILE]

The ranges of PyTorch's ops have their sizes. With ``--only-largest`` CUDA's profiler is started for
the last size alone, with ``--trace`` torch.profiler records everything.
"""

from __future__ import annotations

import argparse

import torch
import triton
import triton.language as tl
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import rms_norm, scaled_dot_product_attention

WIDTH, EXPERTS, HEAD = 4096, 8, 64
SIZES = (1, 2, 4)


@triton.jit
def quantize_rows(x, out, scales, width: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = row * width + tl.arange(0, width)
    values = tl.load(x + at).to(tl.float32)
    scale = tl.max(tl.abs(values), axis=0) / 448
    tl.store(scales + row, scale)
    tl.store(out + at, (values * (1 / scale)).to(tl.float8e4nv))


@torch.library.custom_op(
    "serving::dynamic_per_token_scaled_fp8_quant", mutates_args=("out", "scales")
)
def quantize(out: torch.Tensor, x: torch.Tensor, scales: torch.Tensor) -> None:
    quantize_rows[(x.shape[0],)](x, out, scales, x.shape[1], num_warps=8)


def new(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


def kernels(size: int) -> list:
    """Return functions that run one op each; their tensors exist before."""
    rows = 8192 * size
    left, right = new(1024 * size, WIDTH), new(WIDTH, WIDTH)
    heads = [new(size, 16, 4096, HEAD) for _ in range(3)]
    tokens, weights = new(4096 * size, 2048), new(EXPERTS, 2048, 2048)
    # Experts get different numbers of tokens, none of them a multiple of a tile.
    shares = torch.arange(1, EXPERTS + 1, device="cuda") / (EXPERTS * (EXPERTS + 1) / 2)
    ends = (shares.cumsum(0) * len(tokens)).to(torch.int32)
    ends[-1] = len(tokens)
    wide, scale = new(rows, 2 * WIDTH), new(WIDTH)
    narrow = wide[:, :WIDTH]
    values = narrow.contiguous()
    out = torch.empty_like(values, dtype=torch.float8_e4m3fn)
    scales = torch.empty(rows, device="cuda")
    return [
        lambda: torch.mm(left, right),
        lambda: scaled_dot_product_attention(heads[0], heads[1], heads[2]),
        lambda: scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True),
        lambda: torch._grouped_mm(tokens, weights, offs=ends),
        lambda: rms_norm(values, (WIDTH,), scale),
        narrow.contiguous,
        lambda: quantize(out, values, scales),
    ]


def run(*, only_largest: bool) -> None:
    with torch.no_grad(), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        for size in SIZES:
            calls = kernels(size)
            torch.cuda.synchronize()
            if only_largest and size == SIZES[-1]:
                torch.cuda.profiler.start()
            for call in calls:
                call()
            torch.cuda.synchronize()
    if only_largest:
        torch.cuda.profiler.stop()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only-largest", action="store_true")
    parser.add_argument("--trace")
    options = parser.parse_args()
    if options.trace:
        with torch.profiler.profile(record_shapes=True) as profiler:
            run(only_largest=False)
        profiler.export_chrome_trace(options.trace)
        return
    with torch.autograd.profiler.emit_nvtx(record_shapes=True):
        run(only_largest=options.only_largest)


if __name__ == "__main__":
    main()
