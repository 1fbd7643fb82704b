"""Markers in a few steps only, on a CPU build of PyTorch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import dlprof_nvtx  # noqa: E402 - needs PyTorch
from dlprof_nvtx import modules  # noqa: E402
from dlprof_nvtx.baseline_timing import REFERENCE  # noqa: E402
from dlprof_nvtx.marker_sampling import DETAIL_VARIABLE, LIGHT, MOST_RESUMED  # noqa: E402
from dlprof_nvtx.names import Names  # noqa: E402
from dlprof_nvtx.state import STATE  # noqa: E402

NOTES = ("marked_steps", "markers_resumed")


class Recorder:
    """Ranges as NVTX would see them, in order of start."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.texts: list[str] = []
        self.shapes: list[bool] = []  # Of each time that PyTorch was asked for ranges of its ops.

    def start(self, text: str) -> int:
        return 1

    def end(self, handle: int) -> None:
        assert handle

    def push(self, text: str) -> None:
        self.open.append(text)
        self.texts.append(text)

    def pop(self) -> None:
        self.open.pop()

    def enable_ops(self, *, shapes: bool) -> bool:
        self.shapes.append(shapes)
        return True

    def disable_ops(self) -> None:
        pass

    def notes(self) -> list[tuple[str, int]]:
        found = [
            json.loads(text)["model_config"]
            for text in self.texts
            if text.startswith('{"model_config"')
        ]
        return [(key, config[key]) for config in found for key in NOTES if key in config]


Begin = Callable[[str], Recorder]


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    """Begin with markers after bare steps, which are not repeated here."""
    recorder = Recorder()

    def enable(detail: str) -> Recorder:
        monkeypatch.setenv(DETAIL_VARIABLE, detail)
        assert dlprof_nvtx.init(backend=recorder)
        return recorder

    fresh = type(REFERENCE)()
    fresh.unprofiled, fresh.on_step = {"host_ns": [1]}, LIGHT.step
    before = dict(REFERENCE.__dict__)
    REFERENCE.__dict__.update(fresh.__dict__)
    modules.NAMES.__dict__.update(Names().__dict__)
    yield enable
    dlprof_nvtx.stop()
    STATE.pid = 0
    REFERENCE.__dict__.clear()
    REFERENCE.__dict__.update(before)
    assert recorder.open == []


class Net(torch.nn.Module):  # type: ignore[name-defined] # torch is optional
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.two(self.one(x))


def train(recorder: Recorder, sizes: list[int]) -> list[list[str]]:
    """Train with batches of these sizes; returns the ranges of each step without their details."""
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = []
    for size in sizes:
        first = len(recorder.texts)
        model(torch.ones(size, 4)).sum().backward()
        optimizer.step()
        steps.append([text.partition(" (")[0] for text in recorder.texts[first:]])
    return steps


MODULES = ["torch.nn: Net", "torch.nn: one", "torch.nn: two"]
LIGHT_STEP = ["torch.nn: Net", "Optimizer.step#SGD.step"]


@pytest.mark.parametrize(("detail", "marked"), [("normal", 3), ("low", 1), ("high", 8)])
def test_markers_end_after_some_steps(begin: Begin, detail: str, marked: int) -> None:
    recorder = begin(detail)
    steps = train(recorder, [2] * 8)
    with_all = [[text for text in step if text in MODULES] == MODULES for step in steps]
    assert with_all == [number < marked for number in range(8)]
    if detail == "high":
        assert recorder.notes() == []
        return
    assert all(step == LIGHT_STEP for step in steps[marked:])
    assert recorder.notes() == [("marked_steps", marked)]
    # THEN the first step has shapes, if the detail has any
    assert recorder.shapes[0] is (detail == "normal")
    assert recorder.shapes[1:] == ([False] if detail == "normal" else [])
    times = REFERENCE._profiled_ns(with_markers=False)
    assert len(times["host_ns"]) == 8 - marked
    assert len(REFERENCE._profiled_ns(with_markers=True)["host_ns"]) == marked - 1


def test_a_program_without_bare_steps_has_markers_until_it_is_warm(begin: Begin) -> None:
    REFERENCE.unprofiled = {}
    steps = train(begin("normal"), [2] * 8)
    assert ["torch.nn: one" in step for step in steps] == [True] * 5 + [False] * 3


def test_few_batches_have_markers_in_all_steps(begin: Begin) -> None:
    REFERENCE.reason = "few_batches"
    steps = train(begin("normal"), [2] * 6)
    assert all("torch.nn: one" in step for step in steps)


def test_inputs_of_a_new_shape_get_markers(begin: Begin) -> None:
    recorder = begin("normal")
    steps = train(recorder, [2, 2, 2, 2, 3, 3, 2, 5])
    found = ["torch.nn: one" in step for step in steps]
    assert found == [True, True, True, False, True, False, False, True]
    expected = [("marked_steps", 3), ("markers_resumed", 1), ("marked_steps", 4)]
    assert recorder.notes() == [*expected, ("markers_resumed", 2), ("marked_steps", 5)]


def test_endless_new_shapes_do_not_bring_back_all_markers(begin: Begin) -> None:
    steps = train(begin("normal"), [2] * 3 + list(range(3, 40)))
    resumed = sum("torch.nn: one" in step for step in steps[3:])
    assert MOST_RESUMED <= resumed <= MOST_RESUMED + 40 // 16 + 1


def test_calls_of_a_model_are_steps_without_an_optimizer(begin: Begin) -> None:
    recorder = begin("normal")
    model = Net().eval()
    calls = []
    with torch.no_grad():
        for size in [7, 1, 1, 1, 1, 7, 1, 9, 1, 1]:
            first = len(recorder.texts)
            model(torch.ones(size, 4))
            calls.append("torch.nn: one" in [t.partition(" (")[0] for t in recorder.texts[first:]])
    # A call begins a step: the markers end where the fourth one begins, and resume for nine rows.
    assert calls == [True, True, True, False, False, False, False, True, False, False]
    assert len(REFERENCE.profiled) == 10
    assert len(REFERENCE._profiled_ns(with_markers=True)["host_ns"]) == 4


def test_a_failing_model_leaves_no_range_open(begin: Begin) -> None:
    class Fails(torch.nn.Module):  # type: ignore[name-defined] # torch is optional
        def forward(self, x: Any) -> Any:
            raise KeyError("user code")

    recorder = begin("normal")
    train(recorder, [2] * 4)
    with pytest.raises(KeyError):
        Fails()(torch.ones(1))
    assert recorder.open == []
    assert not modules._STACK.is_quiet


def test_a_compiled_call_of_a_model_is_a_call_of_the_model(begin: Begin) -> None:
    """``torch.compile(model.__call__)``, as in ``generate()``, calls no module."""
    recorder = begin("normal")
    graphs = []

    def backend(graph: Any, _: Any) -> Any:
        def run(*inputs: Any) -> Any:
            graphs.append(graph)
            return graph.forward(*inputs)

        return run

    model = Net().eval()
    call = torch.compile(model.__call__, backend=backend)
    assert call.__wrapped__ is not None
    with torch.no_grad():
        expected = model(torch.ones(2, 4))
        first = len(recorder.texts)
        results = [call(torch.ones(2, 4)) for _ in range(6)]
    # THEN compiled code runs each time, also where markers end and when inputs have new shapes
    assert all(torch.equal(result, expected) for result in results)
    assert len(graphs) == 6
    seen = [text.partition(" (")[0] for text in recorder.texts[first:]]
    assert [text for text in seen if text in MODULES] == ["torch.nn: Net"] * 6
    assert ("marked_steps", 4) in recorder.notes()  # A call begins a step: one more.
    with torch.no_grad():
        call(torch.ones(3, 4))
    assert len(graphs) == 7
    assert recorder.notes()[-1][0] == "markers_resumed"
