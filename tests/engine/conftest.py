"""A small database and listeners that stop the work."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.builders import Trace, analyze, one_gpu


def sample_trace() -> Trace:
    """Four steps of forward and backward work, a few hundred rows."""
    trace, main = one_gpu()
    engine = main.process.thread(2)
    for step in range(4):
        at = 10_000 * step
        main.range(f"iteration {step}", at, at + 9_000)
        main.range("Optimizer.zero_grad#SGD.zero_grad, op_id = 1", at + 10, at + 40)
        for layer in range(10):
            begin = at + 100 + 200 * layer
            seq = 10 * step + layer
            main.op("conv2d", begin, begin + 100, seq=seq, sizes="[[8, 3, 4, 4], [6, 3, 3, 3]]")
            main.launch("conv", begin + 10)
            main.copy(begin + 40, gpu=(begin + 50, begin + 60))
            engine.backward("ConvolutionBackward0", begin + 4_000, begin + 4_100, seq=seq)
            engine.launch("dconv", begin + 4_020)
    return trace


@pytest.fixture(scope="session")
def sample_export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_trace().write(tmp_path_factory.mktemp("export") / "profile.sqlite")


@pytest.fixture(scope="session")
def _sample_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # A request that names iterations gets no other aggregation, which would leave out the first.
    return analyze(sample_trace(), tmp_path_factory.mktemp("database"), iter_start=0).path


@pytest.fixture
def sample_database(_sample_database: Path, tmp_path: Path) -> Path:
    """A database of its own for each test."""
    copy = tmp_path / "dlprof_dldb.sqlite"
    shutil.copyfile(_sample_database, copy)
    return copy
