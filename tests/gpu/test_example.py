"""The programs of the example train; what dlprof says of them is tested with their page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TRAIN = """
import torch
torch.set_num_threads(1)
import model
model.WIDTH, model.LAYERS, model.LENGTH = 16, 1, 4
import fast, slow
for program in (slow, fast):
    program.BATCH, program.WARM_UP = 2, 1
    assert program.train(5, "cpu") > 0
"""


def test_programs_train_without_a_gpu() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    words = [sys.executable, "-W", "ignore", "-c", TRAIN]
    done = subprocess.run(words, cwd=EXAMPLES, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    # The loss of a guess is ln(16384) = 9.7, give or take what the first weights do.
    losses = [float(line.split()[-1]) for line in done.stdout.splitlines()]
    assert [round(loss / 9.7) for loss in losses] == [1, 1]
