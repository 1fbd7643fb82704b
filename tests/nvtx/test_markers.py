"""Markers on a CPU build of PyTorch; the only stand-in is where ranges leave the process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402

import dlprof_nvtx  # noqa: E402
from dlprof_nvtx import modules, settings  # noqa: E402
from dlprof_nvtx.names import Names  # noqa: E402
from dlprof_nvtx.state import STATE  # noqa: E402

REPOSITORY = Path(__file__).resolve().parents[2]
INJECT = REPOSITORY / "dlprof_nvtx" / "inject"


class Recorder:
    """Ranges as NVTX would see them: the path of each, in order of start."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.paths: list[tuple[str, ...]] = []
        self.ops = 0
        self.started: list[str] = []
        self.idle = 0

    def start(self, text: str) -> int:
        self.started.append(text)
        self.idle += 1
        return len(self.started)

    def end(self, handle: int) -> None:
        assert 1 <= handle <= len(self.started)
        self.idle -= 1

    def push(self, text: str) -> None:
        self.open.append(text)
        self.paths.append(tuple(self.open))

    def pop(self) -> None:
        self.open.pop()

    def enable_ops(self, *, shapes: bool) -> bool:
        self.ops += 1
        return True

    def disable_ops(self) -> None:
        self.ops -= 1

    def module_paths(self) -> list[str]:
        """Paths of module ranges: labels alone, joined by slashes."""
        return [
            "/".join(text.removeprefix("torch.nn: ").partition(" (")[0] for text in path)
            for path in self.paths
            if path[-1].startswith("torch.nn: ")
        ]

    def details(self, label: str) -> dict[str, object]:
        """What the range of a label says besides."""
        text = next(p[-1] for p in self.paths if p[-1].startswith(f"torch.nn: {label} ("))
        found: dict[str, object] = json.loads(text[text.index("{") :])
        return found

    def configs(self) -> list[dict[str, object]]:
        return [
            json.loads(path[-1])["model_config"]
            for path in self.paths
            if path[-1].startswith('{"model_config"')
        ]


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    found = Recorder()
    modules.NAMES.__dict__.update(Names().__dict__)
    assert dlprof_nvtx.init(backend=found)
    yield found
    dlprof_nvtx.stop()
    STATE.pid = 0
    assert found.open == []
    assert found.ops == 0


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, stride=1, padding=1)

    def forward(self, x):
        return torch.relu(self.conv(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Sequential(nn.ReLU()))
        self.blocks = nn.ModuleList([Block(), Block()])
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.fc(x.mean((2, 3)))


def test_paths_are_those_of_named_modules_in_call_order(recorder: Recorder) -> None:
    Net()(torch.randn(2, 3, 8, 8))
    assert recorder.module_paths() == [
        "Net",
        "Net/stem",
        "Net/stem/0",
        "Net/stem/1",
        "Net/stem/1/0",
        "Net/blocks.0",
        "Net/blocks.0/conv",
        "Net/blocks.1",
        "Net/blocks.1/conv",
        "Net/fc",
    ]


def test_a_compiled_module_has_its_own_path_whatever_is_compiled_in_it(recorder: Recorder) -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.compile(Block(), backend="eager")
            self.head = nn.ReLU()

        def forward(self, x):
            return self.head(self.body(x))

    model = Outer()
    model(torch.randn(1, 4, 8, 8))
    with torch.compiler.set_stance("force_eager"):
        model(torch.randn(1, 4, 8, 8))
    step = ["Outer", "Outer/body", "Outer/head"]
    assert recorder.module_paths() == [*step, *step[:2], "Outer/body/conv", step[2]]
    assert any("body (Block)" in path[-1] for path in recorder.paths)


def test_layers_carry_data_type_and_parameters(recorder: Recorder) -> None:
    Net()(torch.randn(2, 3, 8, 8))
    assert recorder.details("conv") == {
        "stride": [1, 1],
        "padding": [1, 1],
        "dilation": [1, 1],
        "groups": 1,
        "output_padding": [0, 0],
        "dtype": "float32",
    }
    assert recorder.details("fc") == {"dtype": "float32"}


def test_other_layers_record_the_data_type_of_their_input(recorder: Recorder) -> None:
    model = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4), nn.GELU())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(torch.randn(2, 4))
    assert recorder.details("0") == {"input_dtype": "float32"}
    assert recorder.details("2") == {"input_dtype": "bfloat16"}
    assert not any("{" in path[-1] for path in recorder.paths if "Sequential (" in path[-1])


def test_a_layer_that_pads_by_itself_convolves_without_padding(recorder: Recorder) -> None:
    nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"))(torch.randn(1, 3, 8, 8))
    assert recorder.details("0")["padding"] == 0


def test_a_second_model_of_a_class_is_separate_and_a_loss_in_the_loop_is_not(
    recorder: Recorder,
) -> None:
    for _ in range(2):
        nn.MSELoss()(torch.ones(1), torch.ones(1))
    nn.Linear(1, 1)(torch.ones(1))
    nn.Linear(1, 1)(torch.ones(1))
    assert recorder.module_paths() == ["MSELoss", "MSELoss", "Linear", "Linear[2]"]


def test_an_exception_leaves_no_range_open(recorder: Recorder) -> None:
    class Fails(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x):
            self.inner(x)
            raise KeyError("user code")

    with pytest.raises(KeyError):
        Fails()(torch.ones(1, 2))
    assert recorder.open == []


def test_stopping_in_the_middle_leaves_no_range_open(recorder: Recorder) -> None:
    class Stops(nn.Module):
        def forward(self, x):
            dlprof_nvtx.stop()
            return x

    Stops()(torch.ones(1))
    assert recorder.open == []
    dlprof_nvtx.start()


def test_wrappers_have_no_place_on_the_path(recorder: Recorder) -> None:
    model = torch.nn.DataParallel(Net())
    model(torch.randn(2, 3, 8, 8))
    assert recorder.module_paths()[:2] == ["Net", "Net/stem"]


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputation_has_the_path_of_the_forward_call(
    recorder: Recorder, reentrant: bool
) -> None:
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

        def forward(self, x):
            return checkpoint(self.body, x, use_reentrant=reentrant)

    model = Checkpointed()
    model(torch.randn(2, 4, requires_grad=True)).sum().backward()
    paths = recorder.module_paths()
    assert paths.count("Checkpointed/body/0") == 2
    assert {path.partition("/")[0] for path in paths} == {"Checkpointed"}


def test_compiled_code_does_not_see_the_wrapper(recorder: Recorder) -> None:
    model = Net()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    x = torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(compiled(x), model(x))
    assert recorder.open == []


def test_tracing_and_scripting_work(recorder: Recorder) -> None:
    model = Net().eval()
    x = torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(torch.jit.trace(model, x)(x), model(x))
    torch.testing.assert_close(torch.fx.symbolic_trace(model)(x), model(x))


def test_another_profiler_takes_over_and_gives_back(recorder: Recorder) -> None:
    assert recorder.ops == 1
    with torch.profiler.profile() as profile:
        assert recorder.ops == 0
        torch.ones(2) + 1
    assert recorder.ops == 1
    assert any(event.key == "aten::add" for event in profile.key_averages())


def test_a_scripts_own_emit_nvtx_changes_nothing(recorder: Recorder) -> None:
    with torch.autograd.profiler.emit_nvtx(record_shapes=True):
        torch.ones(2) + 1
    assert recorder.ops == 1


def test_settings_of_the_run_are_noted_once(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine the two steps may lie further apart than the time after which all that is
    # known is written again.
    monkeypatch.setattr(settings, "REPEAT_S", 600.0)
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader([torch.ones(2)] * 4, batch_size=2)
    for batch in loader:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            model(batch).sum().backward()
        optimizer.step()
    configs = recorder.configs()
    assert {
        "DataLoader": {
            "num_workers": 0,
            "pin_memory": False,
            "prefetch_factor": None,
            "persistent_workers": False,
            "batch_size": 2,
        }
    } in configs
    assert {"autocast": {"amp_enabled": True, "dtype": "bfloat16"}} in configs
    assert sum("cudnn_benchmark" in config for config in configs) == 1
    assert str(configs[0]["framework"]).startswith("PyTorch 2.")
    settings._NOTED.clear()


def test_flags_of_the_training_are_noted(recorder: Recorder) -> None:
    model = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    with torch.autograd.detect_anomaly(check_nan=False):
        model(torch.randn(1, 3, 8, 8)).sum().backward()
        optimizer.step()
    torch.autograd.gradcheck(torch.relu, torch.ones(1, dtype=torch.double, requires_grad=True))
    found: dict[str, object] = {}
    for config in recorder.configs():
        found |= config
    assert found["optimizer"] == {"name": "Adam", "foreach": None, "fused": True}
    assert found["channels_last"] is True
    assert found["detect_anomaly"] is True
    assert found["gradcheck"] is True
    assert found["amp_enabled"] is False
    assert found["emit_nvtx"] is True
    assert found["matmul_allow_tf32"] is (torch.get_float32_matmul_precision() != "highest")


def test_an_optimizer_whose_steps_are_all_skipped_is_noted(recorder: Recorder) -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120)
    optimizer.zero_grad()
    scaler.scale(model(torch.full((1, 2), 1e30)).sum()).backward()
    before = model.weight.clone()
    scaler.step(optimizer)
    torch.testing.assert_close(model.weight, before)
    optimizers = [config["optimizer"] for config in recorder.configs() if "optimizer" in config]
    assert optimizers == [{"name": "SGD", "foreach": None, "fused": None}]


def test_a_script_that_only_infers_records_its_flags(recorder: Recorder) -> None:
    model = nn.Linear(2, 2)
    for _ in range(2):
        model(torch.ones(1, 2))
    assert any("cudnn_benchmark" in config for config in recorder.configs())


def test_settings_are_written_again_while_the_training_runs(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "REPEAT_S", 0.0)
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    frameworks = [config for config in recorder.configs() if "framework" in config]
    assert len(frameworks) == 4


def test_a_loader_is_idle_from_one_fetch_to_the_next(recorder: Recorder) -> None:
    loader = torch.utils.data.DataLoader(list(range(4)), batch_size=1)
    for number, _ in enumerate(loader):
        assert recorder.idle == 1
        if number == 2:
            break
    del loader
    import gc

    gc.collect()
    assert recorder.idle == 0
    assert recorder.started == ["DataLoader idle"] * 3


# --- without ops: emit_nvtx left out -------------------------------------------------------------


@pytest.fixture
def plain() -> Iterator[Recorder]:
    found = Recorder()
    modules.NAMES.__dict__.update(Names().__dict__)
    assert dlprof_nvtx.init(backend=found, ops=False)
    yield found
    dlprof_nvtx.stop()
    STATE.pid = 0
    assert found.open == []
    assert found.ops == 0


def test_without_ops_the_work_of_a_module_is_one_op_with_its_shapes(plain: Recorder) -> None:
    Net()(torch.randn(2, 3, 8, 8))
    ops = [path[-1] for path in plain.paths if path[-1].startswith("torch.nn::")]
    assert ops[0] == (
        "torch.nn::conv2d, op_id = 0, sizes = [[2, 3, 8, 8], [4, 3, 3, 3], [4]], input_op_ids = []"
    )
    assert [op.partition(",")[0] for op in ops[1:]] == [
        "torch.nn::relu",
        "torch.nn::conv2d",
        "torch.nn::conv2d",
        "torch.nn::linear",
    ]
    assert {"emit_nvtx": False} in plain.configs()


def test_without_ops_loaders_optimizers_and_own_functions_are_marked(plain: Recorder) -> None:
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in torch.utils.data.DataLoader([torch.ones(1)] * 2, batch_size=1):
        with torch.autograd.profiler.record_function("mine"):
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
    texts = [path[-1] for path in plain.paths]
    assert texts.count("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__") == 3
    assert texts.count("mine") == texts.count("Optimizer.step#SGD.step") == 2


def test_a_scripts_own_emit_nvtx_takes_over_from_single_ops(plain: Recorder, monkeypatch) -> None:
    from torch.autograd import profiler

    monkeypatch.setattr(STATE, "foreign_ops", 1)
    nn.Sequential(nn.ReLU())(torch.ones(1))
    with profiler.record_function("mine"):
        pass
    assert not any("torch.nn::" in path[-1] or path[-1] == "mine" for path in plain.paths)


def test_own_ranges_end_before_ops_are_recorded_no_more(recorder: Recorder) -> None:
    """PyTorch asserts at the end of a range that it began with ops that they are recorded still."""
    ends: list[Any] = []
    leave = STATE.close_function

    def close(function: Any) -> None:
        ends.append((function.name, bool(STATE.ops_thread)))
        assert leave is not None
        leave(function)

    STATE.close_function = close
    try:
        assert STATE.ops_thread
        with torch.autograd.profiler.record_function("epoch"):
            with torch.autograd.profiler.record_function("load"):
                pass
            with torch.autograd.profiler.record_function("step"):
                STATE.record_shapes(wanted=not STATE.with_shapes)
                assert not ends
                STATE.disable_ops()
    finally:
        STATE.close_function = leave
    assert ends == [("step", True), ("epoch", True)]


def test_workers_of_a_data_loader_still_load(recorder: Recorder) -> None:
    loader = torch.utils.data.DataLoader(list(range(8)), batch_size=2, num_workers=2)
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5], [6, 7]]


# --- injected at interpreter start -------------------------------------------------------------


def run_injected(code: str, **more: str) -> subprocess.CompletedProcess[str]:
    import os

    environment = {**os.environ, "PYTHONPATH": str(INJECT), "DLPROF_NVTX": "1", **more}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


def test_the_markers_are_written_for_the_oldest_python_of_pytorch_2() -> None:
    import ast

    newer = {"removeprefix", "removesuffix"}
    for path in (REPOSITORY / "dlprof_nvtx").rglob("*.py"):
        tree = ast.parse(path.read_text(), feature_version=(3, 8))
        names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not names & newer, path
        assert not any(
            isinstance(node, ast.AugAssign) and isinstance(node.op, ast.BitOr)
            for node in ast.walk(tree)
        ), path


def test_a_program_without_torch_pays_nothing() -> None:
    done = run_injected("import sys; print('dlprof_nvtx' in sys.modules, 'torch' in sys.modules)")
    assert done.stdout == "False False\n"
    assert done.stderr == ""


def test_importing_torch_switches_markers_on() -> None:
    code = "import torch, dlprof_nvtx; print(torch.nn.Module.__call__.__name__)"
    done = run_injected(code)
    # A CPU build has no NVTX of its own; with the package nvtx, modules are marked all the same.
    assert done.stdout == "__call__\n" or "no markers are written" in done.stderr


@pytest.mark.parametrize("name", ["nvidia_dlprof_pytorch_nvtx", "pyprof", "pyprof2"])
def test_old_imports_run_unchanged(name: str) -> None:
    code = f"import torch, {name}; {name}.init(enable_function_stack=True); print('ok')"
    assert run_injected(code).stdout == "ok\n"


def test_the_users_own_sitecustomize_runs_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    done = run_injected("print('main')", PYTHONPATH=f"{INJECT}:{tmp_path}")
    assert done.stdout == "mine\nmain\n"


def test_subprocesses_and_ranks_are_marked_too() -> None:
    code = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', "
        "'import sys; print(type(sys.meta_path[0]).__name__)'])"
    )
    assert run_injected(code).stdout == "_Markers\n"


def calls_with_shapes(model: nn.Module, inputs: list[Any]) -> str:
    """``x`` for every call of the model that records shapes, and ``.`` for the others."""
    found = ""
    for value in inputs:
        model(value)
        found += "x" if STATE.with_shapes else "."
    return found


def test_shapes_are_written_in_the_first_calls_of_a_model(recorder: Recorder) -> None:
    assert calls_with_shapes(nn.Linear(2, 2), [torch.ones(1, 2)] * 5) == "xxx.."
    assert recorder.ops == 1


@pytest.mark.usefixtures("recorder")
def test_shapes_are_written_again_for_inputs_of_other_shapes_and_in_evaluation() -> None:
    model = nn.Linear(2, 2)
    sizes = [1, 1, 1, 1, 5, 1, 5, 5, 5, 1]
    assert calls_with_shapes(model, [torch.ones(n, 2) for n in sizes]) == "xxx.x.xx.."
    with torch.no_grad():
        assert calls_with_shapes(model.eval(), [torch.ones(1, 2)] * 4) == "xxx."


@pytest.mark.usefixtures("recorder")
def test_shapes_of_decoding_are_those_of_the_mask_that_grows() -> None:
    class Decoder(nn.Module):
        def forward(self, token, attention_mask=None, cache=()):
            return token

    model = Decoder().eval()
    found = []
    for _ in range(4):
        for length in range(3):
            model(torch.ones(1, 1), attention_mask=torch.ones(1, 8 + length), cache=[torch.ones(2)])
            found.append(STATE.with_shapes)
    assert found == [True] * 9 + [False] * 3


@pytest.mark.usefixtures("recorder")
def test_shapes_of_all_micro_batches_are_written_in_two_steps() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters())
    found = []
    for _ in range(5):
        found.append(calls_with_shapes(model, [torch.ones(1, 2)] * 5))
        optimizer.step()
    assert found == ["xxx..", "xxxxx", "xxxxx", ".....", "....."]


@pytest.mark.usefixtures("recorder")
def test_few_calls_record_shapes_if_all_inputs_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules, "SHAPE_CALLS", 10)
    found = calls_with_shapes(nn.Linear(2, 2), [torch.ones(n, 2) for n in range(1, 91)])
    assert found.startswith("x" * 10)
    assert found.count("x") == 10 + 90 // modules.SHAPE_SHARE
