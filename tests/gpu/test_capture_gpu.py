"""``dlprof`` with the real Nsight Systems on a real GPU."""

from __future__ import annotations

import os
import shutil
import signal
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


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, "--mode=pytorch", "--bare_steps=0", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **variables},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def profile(folder: Path, *words: str, exit_code: int = 0, **variables: str) -> sqlite3.Connection:
    done = run(folder, *words, **variables)
    assert done.returncode == exit_code, done.stdout + done.stderr
    return sqlite3.connect(folder / "dlprof_dldb.sqlite")


def on_two_gpus() -> list[str]:
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("fewer than two GPUs")
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]


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


def test_a_training_step_as_a_cuda_graph_is_recorded_and_replayed(tmp_path: Path) -> None:
    connection = profile(tmp_path, sys.executable, str(PROGRAMS / "small.py"), "cuda_graph")
    launches = connection.execute("SELECT count(*) FROM view_graph_launches").fetchone()
    assert launches == (4,)
    found = connection.execute(
        "SELECT direction, count(*) FROM view_op_metrics WHERE op_node_type = 'linear' GROUP BY 1"
    ).fetchall()
    assert dict(found) == {"fprop": 8, "bprop": 8}


def test_out_of_memory_in_the_script_keeps_the_captured_data(tmp_path: Path) -> None:
    words = [sys.executable, str(PROGRAMS / "small.py"), "out_of_memory"]
    connection = profile(tmp_path, *words, exit_code=1)
    assert share_of_named_kernels(connection) >= 0.995


def test_an_unchanged_bert_has_every_layer_under_its_path(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    connection = profile(tmp_path, sys.executable, str(PROGRAMS / "bert.py"), "4")
    rows = connection.execute(
        "SELECT op_node_name, direction FROM view_op_metrics WHERE op_node_type = 'linear'"
    ).fetchall()
    assert len([name for name, direction in rows if direction == "fprop"]) >= 6 * 12
    assert len([row for row in rows if row[1] == "bprop"]) >= 6 * 12
    assert all(name.startswith("/Bert") for name, _ in rows)
    assert share_of_named_kernels(connection) >= 0.995


def test_two_ranks_of_resnet50_are_kept_apart(tmp_path: Path) -> None:
    words = [*on_two_gpus(), str(PROGRAMS / "resnet50.py"), "--iters", "5", "--amp"]
    connection = profile(tmp_path, *words)
    rows = connection.execute(
        "SELECT op_node_name, direction FROM view_op_metrics "
        "WHERE op_node_type IN ('conv2d', 'linear')"
    ).fetchall()
    assert len(rows) == 2 * 2 * 54
    assert {name.split("/")[1] for name, _ in rows} == {"rank_0", "rank_1"}
    assert share_of_named_kernels(connection) >= 0.995
    used = connection.execute("SELECT used FROM view_gpu_memories").fetchall()
    assert len(used) == 2
    assert all(value > 1 << 30 for (value,) in used)


@pytest.mark.parametrize("how", ["fsdp", "fsdp2"])
def test_sharded_models_are_linked(tmp_path: Path, how: str) -> None:
    connection = profile(tmp_path, *on_two_gpus(), str(PROGRAMS / "small.py"), how)
    rows = connection.execute(
        "SELECT direction, count(*) FROM view_op_metrics WHERE op_node_type = 'linear' GROUP BY 1"
    ).fetchall()
    assert dict(rows) == {"fprop": 16, "bprop": 16}
    assert share_of_named_kernels(connection) >= 0.995


def test_without_emit_nvtx_the_backward_pass_is_one_op(tmp_path: Path) -> None:
    words = [sys.executable, str(PROGRAMS / "small.py"), "plain"]
    connection = profile(tmp_path, *words, DLPROF_NVTX_OPS="0")
    rows = connection.execute(
        "SELECT op_node_name, direction, num_calls, kernel_calls FROM view_op_metrics "
        "WHERE op_node_type = 'backward'"
    ).fetchall()
    assert [row[:3] for row in rows] == [("/backward", "bprop", 4)]
    assert rows[0][3] > 4 * 20
    linear = connection.execute(
        "SELECT count(*) FROM view_op_metrics WHERE op_node_type = 'linear' AND num_calls = 4"
    ).fetchone()
    assert linear == (8,)
    # What is called outside all modules, as the loss is, has no range.
    assert share_of_named_kernels(connection) >= 0.95


def test_memory_versions_and_settings_of_the_run_are_recorded(tmp_path: Path) -> None:
    import torch

    pytest.importorskip("torchvision")
    words = [sys.executable, str(PROGRAMS / "resnet50.py"), "--iters", "6", "--amp"]
    connection = profile(tmp_path, *words)
    total, used, source = connection.execute(
        "SELECT total, used, source FROM view_gpu_memories WHERE device_id = 0"
    ).fetchone()
    assert source == "nvml"
    assert 2 << 30 < used < total
    (framework, cuda, cudnn) = connection.execute(
        "SELECT framework, cuda_version, cudnn_version FROM view_system_config"
    ).fetchone()
    assert framework == f"PyTorch {torch.__version__}"
    assert cuda == torch.version.cuda
    assert cudnn.replace(".", "").startswith(str(torch.backends.cudnn.version())[0])
    settings = dict(connection.execute("SELECT key, value FROM view_model_settings"))
    assert settings["num_workers"] == "2"
    assert settings["pin_memory"] == settings["amp_enabled"] == "true"
    assert settings["amp_dtype"] == '"float16"'
    assert settings["optimizer"] == '"SGD"'
    assert settings["emit_nvtx"] == "true"


RANGE = """
import torch
model = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(12):
    if step == 4: torch.cuda.profiler.start()
    if step == 8: torch.cuda.profiler.stop()
    optimizer.zero_grad()
    model(torch.randn(64, 256, device="cuda")).sum().backward()
    optimizer.step()
torch.cuda.synchronize()
print("reached the end")
"""


def test_a_profiled_range_follows_the_script_and_has_its_settings(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(RANGE)
    done = run(tmp_path, "--nsys_profile_range=true", sys.executable, "train.py")
    assert done.returncode == 0, done.stderr
    assert "reached the end" in done.stdout
    connection = sqlite3.connect(tmp_path / "dlprof_dldb.sqlite")
    calls = connection.execute(
        "SELECT num_calls FROM view_op_metrics WHERE op_node_type = 'linear'"
    ).fetchall()
    assert calls == [(4,), (4,)]
    settings = dict(connection.execute("SELECT key, value FROM view_model_settings"))
    assert settings["optimizer"] == '"SGD"'
    assert settings["framework"].startswith('"PyTorch')


@pytest.mark.parametrize(
    ("script", "exit_code", "said"),
    [
        ("import nothing_of_that_name", 1, "exit code 1"),
        ("print('no GPU')", 4, "GPU"),
    ],
)
def test_scripts_without_gpu_work_end_clearly(
    tmp_path: Path, script: str, exit_code: int, said: str
) -> None:
    (tmp_path / "train.py").write_text(script)
    done = run(tmp_path, sys.executable, "train.py")
    assert done.returncode == exit_code
    assert said in done.stderr
    assert "Traceback" not in done.stderr.replace(
        "Traceback (most recent call last):\n  File", "", 1
    )
    assert not (tmp_path / "dlprof_dldb.sqlite").exists()


def test_ctrl_c_keeps_the_captured_data(tmp_path: Path) -> None:
    endless = RANGE.replace("range(12)", "range(10**6)").replace("step == ", "step == -")
    (tmp_path / "train.py").write_text(endless.replace("zero_grad()", "zero_grad(); print(step)"))
    process = subprocess.Popen(
        [*PROGRAM, "--mode=pytorch", sys.executable, "-u", "train.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == "200":
            process.send_signal(signal.SIGINT)
            break
    rest = process.stdout.read()
    assert process.wait(120) == 130, rest
    connection = sqlite3.connect(tmp_path / "dlprof_dldb.sqlite")
    assert share_of_named_kernels(connection) >= 0.995
