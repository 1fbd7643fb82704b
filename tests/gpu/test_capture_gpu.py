"""``dlprof`` with the real Nsight Systems on a real GPU."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu
REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).with_name("programs")
PROGRAM = [
    sys.executable,
    "-c",
    "import sys; from profiler_cli.dlprof import main; sys.exit(main())",
]


@pytest.fixture(autouse=True)
def _needs_gpu() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU")
    if shutil.which("nsys") is None and not os.environ.get("DLPROF_NSYS"):
        pytest.skip("no nsys on PATH")


def profile(folder: Path, *words: str, exit_code: int = 0) -> sqlite3.Connection:
    done = subprocess.run(
        [*PROGRAM, "--mode=pytorch", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == exit_code, done.stdout + done.stderr
    return sqlite3.connect(folder / "dlprof_dldb.sqlite")


def share_of_named_kernels(connection: sqlite3.Connection) -> float:
    total, stray = connection.execute(
        "SELECT sum(kernel_calls), sum((op_node_name LIKE 'unassociated%') * kernel_calls) "
        "FROM view_op_metrics"
    ).fetchone()
    return 1 - stray / total


@pytest.mark.parametrize(("amp", "data_type"), [([], "float32"), (["--amp"], "float16")])
def test_an_unchanged_resnet50_has_every_layer_under_its_path(
    tmp_path: Path, amp: list[str], data_type: str
) -> None:
    pytest.importorskip("torchvision")
    words = [sys.executable, str(PROGRAMS / "resnet50.py"), "--iters", "6", *amp]
    connection = profile(tmp_path, *words)
    rows = connection.execute(
        "SELECT op_node_name, direction, data_type FROM view_op_metrics "
        "WHERE op_node_type IN ('conv2d', 'linear')"
    ).fetchall()
    assert len(rows) == 2 * 54
    assert all(name.startswith("/ResNet/") for name, _, _ in rows)
    assert {found for _, _, found in rows} == {data_type}
    assert share_of_named_kernels(connection) >= 0.995


@pytest.mark.parametrize("how", ["checkpoint", "checkpoint_reentrant", "two_backwards", "compile"])
def test_hard_cases_leave_no_kernel_without_an_op(tmp_path: Path, how: str) -> None:
    connection = profile(tmp_path, sys.executable, str(PROGRAMS / "small.py"), how)
    assert share_of_named_kernels(connection) >= 0.995


def test_out_of_memory_in_the_script_keeps_what_was_captured(tmp_path: Path) -> None:
    words = [sys.executable, str(PROGRAMS / "small.py"), "out_of_memory"]
    connection = profile(tmp_path, *words, exit_code=1)
    assert share_of_named_kernels(connection) >= 0.995
