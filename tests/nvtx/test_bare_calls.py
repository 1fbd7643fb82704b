"""dlprof makes a few calls in a step without markers, and none for each module or kernel."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import dlprof_nvtx  # noqa: E402 - needs PyTorch
from dlprof_nvtx import baseline_timing, control, modules, settings  # noqa: E402
from dlprof_nvtx.baseline_timing import FOUND_STEPS, MOST_SEARCHED, REFERENCE  # noqa: E402
from dlprof_nvtx.marker_sampling import DETAIL_VARIABLE, LIGHT  # noqa: E402
from dlprof_nvtx.names import Names  # noqa: E402
from dlprof_nvtx.patches import CALLS, PATCHES  # noqa: E402
from dlprof_nvtx.state import STATE  # noqa: E402

REPOSITORY = Path(__file__).resolve().parents[2]
MOST_BARE, MOST_LIGHT = 20, 90
"""Python calls a step that it does not make without dlprof."""
MOST_OF_MODULE = 1
"""The same of each module where the calls of models are seen."""
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


@pytest.fixture(autouse=True)
def nothing_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine what is written every few seconds would fall into a counted step."""
    monkeypatch.setattr(baseline_timing, "WRITE_S", math.inf)
    monkeypatch.setattr(settings, "REPEAT_S", math.inf)


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Ranges]:
    """Time steps without profiling, in a process that nothing has been timed in."""
    before = dict(REFERENCE.__dict__)
    fresh = type(REFERENCE)()
    fresh.folder = str(tmp_path)
    kept = {"on_step": LIGHT.step, "on_found": modules.begin_timing}
    kept["on_resume"] = control.resume
    REFERENCE.__dict__.update({**fresh.__dict__, **kept})
    monkeypatch.setattr(modules, "NAMES", Names())
    monkeypatch.setattr(baseline_timing, "WAIT_S", 0.0)
    # A step that ends 2 s after the last one that did writes times and settings again.
    monkeypatch.setattr(baseline_timing, "WRITE_S", float("inf"))
    monkeypatch.setattr(settings, "REPEAT_S", float("inf"))
    monkeypatch.setenv(baseline_timing.STEPS_VARIABLE, "100000")
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
    CALLS.put_back()
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


def python_calls(step: Callable[[], None]) -> int:
    """Number of Python calls of a step."""
    found = [0]

    def see(_: Any, event: str, __: object) -> None:
        found[0] += event == "call"

    sys.setprofile(see)
    try:
        step()
    finally:
        sys.setprofile(None)
    return found[0]


@pytest.fixture(scope="module")
def without() -> Callable[[Make, int], int]:
    """A function that counts the Python calls of a step in a process without dlprof."""

    def count(make: Make, layers: int) -> int:
        code = (
            f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})\n"
            "from tests.nvtx.test_bare_calls import *\n"
            f"step = {make.__name__}({layers})\n"
            "for _ in range(3): step()\n"
            "assert 'dlprof_nvtx.modules' in sys.modules and not STATE.patched\n"
            "print(python_calls(step))"
        )
        words = [sys.executable, "-c", code]
        return int(subprocess.run(words, capture_output=True, check=True).stdout)

    return count


def run_until_found(step: Callable[[], None]) -> None:
    for _ in range(MOST_SEARCHED + 2):
        step()
        if REFERENCE.found:
            break
    assert STATE.is_held
    step()


@KINDS
def test_a_step_without_profiling_costs_no_more_calls_with_more_modules(
    ranges: Ranges, without: Callable[[Make, int], int], make: Make
) -> None:
    step = make(40)
    run_until_found(step)
    more = python_calls(step) - without(make, 40)
    of_modules = MOST_OF_MODULE * 41 if make is inference else 0
    assert 0 < more <= MOST_BARE + of_modules
    assert (torch.nn.Module.__call__ is CALLS._wrapped) is (make is inference)
    assert ranges.texts == []


@KINDS
def test_steps_that_need_no_markers_make_few_calls(
    ranges: Ranges, without: Callable[[Make, int], int], make: Make
) -> None:
    step = make(40)
    run_until_found(step)
    REFERENCE.finish()
    marked = python_calls(step)
    for _ in range(FOUND_STEPS + 3):
        step()
    assert STATE.is_light
    more = python_calls(step) - without(make, 40)
    assert 0 < more <= MOST_LIGHT + MOST_OF_MODULE * 41
    assert marked > more + 10 * 41


def test_a_model_of_another_class_gets_markers_while_others_have_none(ranges: Ranges) -> None:
    step, other = training(4), Other(3).eval()
    run_until_found(step)
    REFERENCE.finish()
    for _ in range(6):
        step()
    assert STATE.is_light
    del ranges.texts[:]
    step()
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
    assert vars(kind).get("__call__") is own
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
