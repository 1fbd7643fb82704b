"""What dlprof runs in a step without markers: some calls a step, none for each module or kernel."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import dlprof_nvtx  # noqa: E402 - needs PyTorch
from dlprof_nvtx import modules, reference  # noqa: E402
from dlprof_nvtx.light import DETAIL_VARIABLE, LIGHT, LOOKED_FOR_MODELS  # noqa: E402
from dlprof_nvtx.names import Names  # noqa: E402
from dlprof_nvtx.patches import CALLS, PATCHES  # noqa: E402
from dlprof_nvtx.reference import FOUND_STEPS, MOST_SEARCHED, REFERENCE  # noqa: E402
from dlprof_nvtx.state import STATE  # noqa: E402

PACKAGE = str(Path(dlprof_nvtx.__file__).parent)
MOST_BARE, MOST_LIGHT = 20, 60
"""Calls of Python functions a step that are dlprof's, or made by them."""
MODULE_CALL = torch.nn.Module.__call__


class Ranges:
    """Ranges, which are not recorded."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.open = 0

    def push(self, text: str) -> None:
        self.texts.append(text)
        self.open += 1

    def pop(self) -> None:
        self.open -= 1

    def start(self, text: str) -> int:
        return 1

    def end(self, handle: int) -> None:
        pass

    def enable_ops(self, *, shapes: bool) -> bool:
        return True

    def disable_ops(self) -> None:
        pass


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Ranges]:
    """Time steps without profiling, in a process that nothing has been timed in."""
    before = dict(REFERENCE.__dict__)
    fresh = type(REFERENCE)()
    fresh.folder = str(tmp_path)
    kept = {"on_step": LIGHT.step, "on_found": modules.begin_timing}
    REFERENCE.__dict__.update({**fresh.__dict__, **kept})
    monkeypatch.setattr(modules, "NAMES", Names())
    monkeypatch.setattr(CALLS, "models", set())
    monkeypatch.setattr(reference, "WAIT_S", 0.0)
    monkeypatch.setenv(reference.STEPS_VARIABLE, "100000")
    monkeypatch.setenv(DETAIL_VARIABLE, "normal")
    dlprof_nvtx.stop()
    STATE.pid = 0
    found = Ranges()
    assert dlprof_nvtx.init(backend=found)
    assert STATE.is_held
    yield found
    STATE.is_held = False
    dlprof_nvtx.stop()
    STATE.pid = 0
    PATCHES.put_back()
    CALLS.see_all()
    REFERENCE.__dict__.clear()
    REFERENCE.__dict__.update(before)


class Net(torch.nn.Module):  # type: ignore[name-defined] # torch is optional
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(layers)))

    def forward(self, x: Any) -> Any:
        return self.layers(x)


class Other(Net):
    """A model of another class."""


def training(layers: int) -> Callable[[], None]:
    model = Net(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(torch.ones(2, 4)).float().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def inference(layers: int) -> Callable[[], None]:
    model = Net(layers).eval()

    def step() -> None:
        with torch.no_grad():
            model(torch.ones(2, 4))

    return step


Make = Callable[[int], Callable[[], None]]
KINDS = pytest.mark.parametrize("make", [training, inference])


def calls_of_dlprof(step: Callable[[], None]) -> int:
    """Number of Python calls that are dlprof's, and of those that these make themselves."""
    found: list[str] = []

    def see(frame: Any, event: str, _: object) -> None:
        if event == "call":
            around = (frame, frame.f_back)
            if any(one is not None and PACKAGE in one.f_code.co_filename for one in around):
                found.append(frame.f_code.co_name)

    sys.setprofile(see)
    try:
        step()
    finally:
        sys.setprofile(None)
    return len(found)


def run_until_found(step: Callable[[], None]) -> None:
    for _ in range(MOST_SEARCHED + 2):
        step()
        if REFERENCE.found:
            break
    assert STATE.is_held
    step()


@KINDS
def test_a_step_without_profiling_makes_as_many_calls_whatever_the_number_of_modules(
    ranges: Ranges, make: Make
) -> None:
    step = make(4)
    before = calls_of_dlprof(step)
    run_until_found(step)
    counts = [calls_of_dlprof(step)]
    # WHEN the program is timed anew, with a model of many modules
    REFERENCE.__dict__.update({**type(REFERENCE)().__dict__, "folder": REFERENCE.folder})
    REFERENCE.is_held, REFERENCE.is_asked, REFERENCE.wanted = True, True, 100_000
    REFERENCE.on_found = modules.begin_timing
    step = make(40)
    run_until_found(step)
    counts.append(calls_of_dlprof(step))
    # THEN no call is one of a module
    assert counts[0] == counts[1] <= MOST_BARE
    assert before > counts[0] + 4
    assert torch.nn.Module.__call__ is not CALLS._wrapped
    assert ranges.texts == []


@KINDS
def test_steps_that_need_no_markers_make_few_calls(ranges: Ranges, make: Make) -> None:
    step = make(40)
    run_until_found(step)
    REFERENCE.finish()
    for _ in range(FOUND_STEPS + 3):
        step()
    assert STATE.is_light
    counts = []
    for _ in range(LOOKED_FOR_MODELS):
        step()
        counts.append(calls_of_dlprof(step))
    counts.sort()
    # One step in some sees the calls of all modules.
    assert counts[len(counts) // 2] <= MOST_LIGHT
    assert counts[-1] > counts[0] + 40


def test_a_model_of_another_class_gets_markers_while_others_have_none(ranges: Ranges) -> None:
    step, other = training(4), Other(3).eval()
    run_until_found(step)
    REFERENCE.finish()
    for _ in range(6):
        step()
    assert STATE.is_light
    del ranges.texts[:]
    for _ in range(4 * LOOKED_FOR_MODELS):
        step()
        if LIGHT.steps % 4 == 0:  # A step in four: not one of its own can be seen at once.
            other(torch.ones(2, 4))
    names = [text.partition(" (")[0] for text in ranges.texts]
    assert "torch.nn: Other" in names
    assert "torch.nn: 2" in names


def test_markers_begin_as_if_nothing_had_been_taken_out(ranges: Ranges) -> None:
    step = training(2)
    run_until_found(step)
    assert PATCHES._all
    assert all(getattr(owner, name) is not wrapped for owner, name, _, wrapped in PATCHES._all)
    assert "__call__" not in vars(Net)
    REFERENCE.finish()
    assert all(getattr(owner, name) is wrapped for owner, name, _, wrapped in PATCHES._all)
    step()
    names = [text.partition(" (")[0] for text in ranges.texts]
    expected = ["torch.nn: Net", "torch.nn: layers", "torch.nn: 0", "torch.nn: 1"]
    assert [name for name in names if name.startswith("torch.nn")] == expected


class Calling(Net):
    """A model with a method of its own for calls."""

    def __call__(self, x: Any) -> Any:
        return super().__call__(x + 1)


@pytest.mark.parametrize("kind", [Net, Calling])
def test_a_model_that_is_called_ends_steps_and_keeps_its_class(ranges: Ranges, kind: Any) -> None:
    model, own = kind(2).eval(), vars(kind).get("__call__")
    result = model(torch.ones(1, 4))
    run_until_found(lambda: model(torch.ones(1, 4)))
    before = len(REFERENCE.ticks)
    assert vars(kind).get("__call__") is not own
    assert torch.equal(model(torch.ones(1, 4)), result)
    assert len(REFERENCE.ticks) == before + 1
    REFERENCE.finish()
    assert vars(kind).get("__call__") is own
    model(torch.ones(1, 4))
    names = [text.partition(" (")[0] for text in ranges.texts if text.startswith("torch.nn")]
    assert names == [f"torch.nn: {kind.__name__}", *(f"torch.nn: {n}" for n in NAMES_OF_TWO)]


NAMES_OF_TWO = ("layers", "0", "1")


def test_what_another_package_put_over_the_wrapper_stays(
    ranges: Ranges, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, seen = torch.nn.Module.__call__, []

    def theirs(self: Any, *args: Any) -> Any:
        seen.append(type(self).__name__)
        return ours(self, *args)

    monkeypatch.setattr(torch.nn.Module, "__call__", theirs)
    run_until_found(training(2))
    assert torch.nn.Module.__call__ is theirs
    assert CALLS.sees_all
    assert seen[:2] == ["Net", "Sequential"]


@pytest.mark.parametrize("is_found", [False, True])
def test_a_graph_that_is_captured_in_a_model_begins_the_markers(
    ranges: Ranges, *, is_found: bool
) -> None:
    class Capturing(Net):
        """A model that captures its modules."""

        captures = False

        def forward(self, x: Any) -> Any:
            if self.captures:
                modules.begin_before_capture()
            x = self.layers(x)
            modules.end_after_capture()
            return x

    model = Capturing(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()

    if is_found:
        run_until_found(step)
    model.captures, REFERENCE.is_asked = True, False
    model(torch.ones(2, 4))
    assert REFERENCE.reason == "graph_capture"
    names = [text.partition(" (")[0] for text in ranges.texts if text.startswith("torch.nn")]
    assert names == ["torch.nn: Capturing", "torch.nn: layers", "torch.nn: 0"]
    assert ranges.open == 0
