"""Timing the first steps never changes the program: what its own classes do may be anything."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from dlprof_nvtx import memory, phases  # noqa: E402 - needs PyTorch
from dlprof_nvtx.baseline_timing import STARTED, Reference  # noqa: E402 - needs PyTorch
from dlprof_nvtx.program import has_loop  # noqa: E402 - needs PyTorch
from dlprof_nvtx.trial import TRIAL  # noqa: E402 - needs PyTorch

SECOND_NS = 1_000_000_000


@pytest.fixture
def held(tmp_path: Path) -> Reference:
    reference = Reference()
    reference.folder, reference.pid, reference.is_held = str(tmp_path), os.getpid(), True
    return reference


class Listed(torch.nn.Linear):  # type: ignore[name-defined] # torch is optional
    """A model whose parameters are a list."""

    def parameters(self, recurse: bool = True) -> Any:
        return list(super().parameters(recurse))


class Refusing(torch.nn.Linear):  # type: ignore[name-defined] # torch is optional
    """A model whose parameters are not known yet."""

    def parameters(self, recurse: bool = True) -> Any:
        raise LookupError(recurse)


@pytest.mark.parametrize("kind", [Listed, Refusing])
def test_a_model_may_have_its_own_parameters(held: Reference, kind: Any) -> None:
    model = kind(2, 2).eval()
    for _ in range(3):
        held.call(model, is_training=False)
    assert held.clock == "call"
    assert len(held.ticks) == 3


@pytest.mark.parametrize("place", ["sampler", "batch_sampler", "dataset"])
def test_loader_has_no_length_if_the_program_counts_or_refuses(held: Reference, place: str) -> None:
    asked = []

    class Own:
        def __len__(self) -> int:
            asked.append(True)
            raise ValueError("endless")

        def __iter__(self) -> Any:
            return iter([[0]])

        def __getitem__(self, _: int) -> int:
            return 0

    own: Any = Own()
    if place == "dataset":  # PyTorch's own sampler asks it, too.
        loader = torch.utils.data.DataLoader(own, batch_size=2)
    else:
        loader = torch.utils.data.DataLoader(torch.ones(4), **{place: own})
    held.fetch(iter(loader))
    assert held.batches is None
    assert held.is_held
    assert bool(asked) == (place == "dataset")


def test_one_bare_step_that_is_longer_than_a_second(held: Reference) -> None:
    held.wanted, held.is_asked = 1, True
    ticks = [(number * 6 * SECOND_NS // 5, None, "") for number in range(8)]
    counts = [count for count in range(1, 9) if held._is_enough(ticks[:count])]
    assert counts == [5, 6, 7, 8]


def test_steps_of_the_warm_up_are_no_reference(held: Reference) -> None:
    held.wanted, held.is_asked = 60, True
    lengths = [SECOND_NS // 25] * 47 + [SECOND_NS // 200] * 400
    ticks: list[tuple[int, Any, str]] = [(0, None, "")]
    for length in lengths:
        ticks.append((ticks[-1][0] + length, None, ""))
        if held._is_enough(ticks):
            break
    held.ticks = ticks
    held._keep()
    assert median(held.unprofiled["host_ns"]) == SECOND_NS // 200
    assert held.unprofiled["host_ns"].count(SECOND_NS // 25) < 20
    assert len(ticks) < 150


def test_events_of_several_gpus_have_no_time_between_them(held: Reference) -> None:
    class Event:
        def query(self) -> bool:
            return True

        def elapsed_time(self, other: object) -> float:
            raise ValueError(f"{other} is of another device")

    held.ticks, held.found = [(number * SECOND_NS, Event(), "") for number in range(4)], 1
    held._keep()
    ends = held.unprofiled.pop("end_utc_ns")
    assert held.unprofiled == {"host_ns": [SECOND_NS] * 3}
    assert [end - ends[0] for end in ends] == [0, SECOND_NS, 2 * SECOND_NS]


def test_bare_steps_have_the_phase_in_which_they_begin(
    held: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phases, "REFERENCE", held)
    model = torch.nn.Linear(2, 2).eval()
    held.wanted, held.is_asked, held.found = 100, True, 1
    for name in ("prefill", "decode", "decode"):
        with phases.phase(name):
            held.call(model, is_training=False)
    held.call(model, is_training=False)  # Outside of every phase.
    held.call(model, is_training=False)
    held.found = 1
    held._keep()
    assert held.unprofiled_phases == ["prefill", "decode", "decode", ""]


def test_a_step_that_an_optimizer_ends_is_of_the_phase_before(
    held: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phases, "REFERENCE", held)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=0.1)
    held.wanted, held.is_asked = 100, True
    for name in ("train", "train", "tune"):
        with phases.phase(name):
            pass
        held.step(optimizer)
    held.found = 1
    held._keep()
    assert held.unprofiled_phases == ["train", "tune"]


def test_a_forked_process_begins_the_collection_when_it_uses_cuda(held: Reference) -> None:
    folder = Path(held.folder)
    (folder / STARTED).touch()  # The collection begins at once.
    before = len(torch.cuda._queued_calls)
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        held.begin_in_child()
        # THEN nothing happened yet; PyTorch runs the call when CUDA is initialized
        (folder / "child.json").write_text(
            json.dumps([[one.name for one in folder.iterdir()], held.is_held])
        )
        for call, _ in torch.cuda._queued_calls[before:]:
            call()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert json.loads((folder / "child.json").read_text()) == [[STARTED], False]
    assert (folder / f"start.{child}").exists()
    held.begin_in_child()  # In the process itself it does nothing.
    assert held.is_held


def test_a_sparse_gradient_has_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = type("Device", (), {"type": "cuda", "index": 0})()
    monkeypatch.setattr(torch.Tensor, "device", gpu)
    tensors = [("sparse", torch.eye(3).to_sparse()), ("dense", torch.ones(3))]
    assert [row[0] for row in memory._tensors(tensors)] == ["dense"]


def test_memory_is_recorded_of_modules_that_have_no_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    class Compared(torch.nn.Linear):  # type: ignore[name-defined] # torch is optional
        """A module that compares by value, and has no names of its modules."""

        __hash__: Any = None

        def __eq__(self, other: object) -> bool:
            raise LookupError("==")

        def named_modules(self, *_: object, **__: object) -> Any:
            raise LookupError("named_modules")

    recorder = memory._Recorder("unused")
    notes: list[str] = []
    recorder.note = notes.append
    monkeypatch.setattr(torch.nn.Module, "__call__", torch.nn.Module.__call__)
    memory._wrap_modules(recorder, torch)
    model = torch.nn.Sequential(Compared(2, 2), torch.nn.ReLU())
    model(torch.ones(1, 2)).sum().backward()
    assert notes == ["F|Sequential", "F|0", "F|Sequential", "F|1", "F|Sequential", "X|"]
    assert set(memory._parameter_names(recorder).values()) == {"0.weight", "0.bias"}


def test_an_optimizer_with_a_state_of_its_own_kind(capsys: pytest.CaptureFixture[str]) -> None:
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    optimizer.state[weight] = [1, 2]
    recorder = memory._Recorder("unused")
    recorder.on = True
    for hook in (memory._before_step, memory._after_step) * 2:
        memory._guarded(hook, recorder, optimizer, (), {})
    assert capsys.readouterr().err.count("a step was not recorded") == 1


@pytest.mark.parametrize(("module", "expected"), [("torch.distributed.run", True), ("mine", False)])
def test_a_module_of_a_library_is_a_launcher_while_its_package_is_imported(
    monkeypatch: pytest.MonkeyPatch, module: str, *, expected: bool
) -> None:
    """``python -m torch.distributed.run`` imports torch before ``sys.argv`` names the module."""
    monkeypatch.setattr("sys.argv", ["-m", "train.py"])
    monkeypatch.setattr("sys.orig_argv", ["python", "-u", "-m", module, "train.py"])
    monkeypatch.delattr("__main__.__file__", raising=False)
    assert has_loop() is expected


# --- trials ---------------------------------------------------------------------------------------


@pytest.fixture
def tried(held: Reference, monkeypatch: pytest.MonkeyPatch) -> Reference:
    monkeypatch.setattr(TRIAL, "is_active", True)
    monkeypatch.setattr(TRIAL, "limit_ns", 60 * SECOND_NS)
    held.wanted, held.is_asked = 20, True
    return held


class Clock:
    """A clock that steps, not time, set forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = 0
        monkeypatch.setattr(time, "perf_counter_ns", lambda: self.now_ns)


def _done(reference: Reference) -> bool:
    return (Path(reference.folder) / f"done.{os.getpid()}").exists()


def _steps(reference: Reference, clock: Clock, end: Callable[[], None], step_ns: int) -> int:
    """Run steps until the timing is done; returns their number."""
    count = 0
    while not _done(reference):
        clock.now_ns += step_ns
        end()
        count += 1
        assert count < 10_000
    return count


def test_trial_times_its_steps_for_a_second_and_begins_nothing(
    tried: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    optimizer, clock = torch.optim.SGD([torch.zeros(1, requires_grad=True)]), Clock(monkeypatch)
    _steps(tried, clock, lambda: tried.step(optimizer), 10_000_000)
    (path,) = Path(tried.folder).glob("steps.*.json")
    found = json.loads(path.read_text())["bare"]["host_ns"]
    assert set(found) == {10_000_000}
    assert len(found) == 100
    assert list(Path(tried.folder).glob("start.*")) == []
    tried.step(optimizer)  # The program goes on until it is ended.


def test_trial_of_slow_steps_ends_with_its_time(
    tried: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried.wanted = 200
    optimizer, clock = torch.optim.SGD([torch.zeros(1, requires_grad=True)]), Clock(monkeypatch)
    assert _steps(tried, clock, lambda: tried.step(optimizer), 5 * SECOND_NS) < 20


def test_trial_of_steps_that_are_never_even_ends(
    tried: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    optimizer, clock = torch.optim.SGD([torch.zeros(1, requires_grad=True)]), Clock(monkeypatch)
    chance = random.Random(1)

    def end() -> None:
        clock.now_ns += chance.choice([0, SECOND_NS // 10, SECOND_NS])
        tried.step(optimizer)

    assert _steps(tried, clock, end, 1_000_000) < 200


def test_replayed_graph_is_the_step_if_nothing_else_ends_one(
    tried: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Graph:
        pass

    optimizer, clock = torch.optim.SGD([torch.zeros(1, requires_grad=True)]), Clock(monkeypatch)
    graph = Graph()
    for _ in range(30):  # A part of the step is a graph.
        clock.now_ns += 1_000_000
        tried.end_replay(graph)
        tried.end_replay(graph)
        tried.step(optimizer)
    assert (tried.clock, len(tried.ticks)) == ("optimizer", 30)
    _steps(tried, clock, lambda: tried.end_replay(graph), 10_000_000)
    assert tried.clock == "compiled"
    assert set(tried.unprofiled["host_ns"]) == {10_000_000}
