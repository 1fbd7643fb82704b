"""Runs a script under torch.profiler: ``traced.py OUT how script arguments``."""

from __future__ import annotations

import runpy
import sys

import torch
from torch.profiler import ProfilerActivity, profile


def main() -> None:
    out, how, script, *rest = sys.argv[1:]
    sys.argv = [script, *rest]
    options = {"record_shapes": True, "with_stack": True, "with_modules": True}
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    if how == "light":
        options = {}
    elif how == "shapes":
        options = {"record_shapes": True}
    elif how == "memory":
        options |= {"profile_memory": True, "with_flops": True}
    elif how == "cpu":
        activities = [ProfilerActivity.CPU]
    elif how == "cuda":
        activities = [ProfilerActivity.CUDA]
    torch.cuda.init()
    with profile(activities=activities, **options) as profiler:
        runpy.run_path(script, run_name="__main__")
    profiler.export_chrome_trace(out)


if __name__ == "__main__":
    main()
