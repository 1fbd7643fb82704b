"""What markers cost: a ResNet-50 step without any, under plain ``emit_nvtx``, and under ours.

    python -m benchmarks.capture_overhead [--batch 64] [--steps 64] [--repeats 2] [--nsys PATH]

Each case runs in its own process, FP32 and AMP, alone and under Nsight Systems where that is
installed; all in one run and in turn, ``--repeats`` times, so that clocks and heat are alike.
Told are the median round and the fastest, in ms a step: with other work on the machine the fastest
says what the markers cost, the median what the run cost.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MARKERS = ("none", "emit_nvtx", "dlprof_nvtx", "dlprof_nvtx all shapes")
PRECISIONS = ("fp32", "amp")
REPOSITORY = Path(__file__).resolve().parent.parent
WARMUP_STEPS = 12
ROUNDS = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--nsys", default="")
    parser.add_argument("--measure", choices=MARKERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.batch, arguments.steps)))
        return
    times: dict[tuple[bool, str], dict[str, list[float]]] = {}
    for _ in range(arguments.repeats):
        for nsys in filter(None, ("none", arguments.nsys)):
            for markers in MARKERS:
                result = run(markers, nsys, arguments)
                print(
                    json.dumps({"nsys": nsys != "none", "markers": markers, **result}), flush=True
                )
                case = times.setdefault((nsys != "none", markers), {p: [] for p in PRECISIONS})
                for precision in PRECISIONS:
                    case[precision] += result[precision]
    print(table(times))


def run(markers: str, nsys: str, arguments: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.capture_overhead", "--measure", markers]
    command += ["--batch", str(arguments.batch), "--steps", str(arguments.steps)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with tempfile.TemporaryDirectory() as folder:
        if nsys != "none":
            output = str(Path(folder) / "profile")
            command = [nsys, "profile", "-t", "cuda,nvtx", "-s", "none", "-o", output, *command]
        done = subprocess.run(
            command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
        )
    line = next((line for line in done.stdout.splitlines() if line.startswith("{")), None)
    if line is None:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    result: dict[str, Any] = json.loads(line)
    return result


def measure(markers: str, batch: int, steps: int) -> dict[str, list[float]]:
    """Milliseconds per step, by precision and round."""
    import torch
    import torchvision

    if markers.startswith("dlprof_nvtx"):
        import dlprof_nvtx

        dlprof_nvtx.init(shapes="first" if markers == "dlprof_nvtx" else "always")
    result: dict[str, list[float]] = {}
    for precision in PRECISIONS:
        model = torchvision.models.resnet50(weights=None).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        images = torch.randn(batch, 3, 224, 224, device="cuda")
        labels = torch.randint(0, 1000, (batch,), device="cuda")
        scaler = torch.amp.GradScaler("cuda", enabled=precision == "amp")
        criterion = torch.nn.CrossEntropyLoss()

        def step() -> None:
            optimizer.zero_grad()  # noqa: B023
            with torch.autocast("cuda", torch.float16, enabled=precision == "amp"):  # noqa: B023
                loss = criterion(model(images), labels)  # noqa: B023
            scaler.scale(loss).backward()  # noqa: B023
            scaler.step(optimizer)  # noqa: B023
            scaler.update()  # noqa: B023

        with torch.autograd.profiler.emit_nvtx(markers == "emit_nvtx", record_shapes=True):
            for _ in range(WARMUP_STEPS):
                step()
            times = []
            for _ in range(ROUNDS):
                torch.cuda.synchronize()
                begin = time.perf_counter()
                for _ in range(steps // ROUNDS):
                    step()
                torch.cuda.synchronize()
                times.append((time.perf_counter() - begin) * 1000 / (steps // ROUNDS))
        result[precision] = [round(value, 2) for value in times]
    return result


def table(times: dict[tuple[bool, str], dict[str, list[float]]]) -> str:
    lines = [
        "| nsys | markers | FP32 median | | fastest | | AMP median | | fastest | |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (nsys, markers), case in times.items():
        cells = []
        for precision in PRECISIONS:
            for of in (statistics.median, min):
                value, base = of(case[precision]), of(times[nsys, "none"][precision])
                cells.append(f"{value:.2f} | {value / base * 100 - 100:+.1f} %")
        lines.append(f"| {'yes' if nsys else 'no'} | {markers} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
