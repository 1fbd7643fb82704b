"""Windows of the own collector: it records some steps of each loop, and leaves the process."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import dlprof_nvtx  # noqa: E402 - needs PyTorch
from dlprof_nvtx import agreement, baseline_timing, collector, control, modules, windows  # noqa: E402
from dlprof_nvtx.baseline_timing import REFERENCE, STARTED, Reference  # noqa: E402
from dlprof_nvtx.marker_sampling import DETAIL_VARIABLE, LIGHT  # noqa: E402
from dlprof_nvtx.names import Names  # noqa: E402
from dlprof_nvtx.patches import CALLS, PATCHES  # noqa: E402
from dlprof_nvtx.standby import STANDBY  # noqa: E402
from dlprof_nvtx.state import STATE  # noqa: E402
from dlprof_nvtx.windows import UNPROFILED_STEPS, WINDOW_STEPS, WINDOWS, Windows  # noqa: E402


class Collector:
    """The collector, and the ranges that the markers write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls: list[str] = []
        self.texts: list[tuple[bool, str]] = []  # Whether it recorded, and the text of a range.
        self.open = 0
        self.started = 0
        self.ended: list[int] = []  # While it recorded.
        self.is_held = False  # Whether another profiler uses CUPTI.

    @property
    def is_recording(self) -> bool:
        return self.calls[-1:] == ["begin"]

    def begin(self) -> bool:
        if not self.is_held:
            self.calls.append("begin")
        return not self.is_held

    def detach(self) -> bool:
        self.calls.append("detach")
        return True

    def push(self, text: str) -> None:
        self.texts.append((self.is_recording, text.partition(" {")[0]))
        self.open += 1

    def pop(self) -> None:
        self.open -= 1

    def start(self, text: str) -> int:
        self.started += 1
        return self.started

    def end(self, handle: int) -> None:
        if self.is_recording:
            self.ended.append(handle)

    def enable_ops(self, *, shapes: bool) -> bool:
        return True

    def disable_ops(self) -> None:
        pass

    def written(self) -> dict[str, Any]:
        REFERENCE.write()
        found: dict[str, Any] = json.loads((self.folder / f"steps.{os.getpid()}.json").read_text())
        return found

    def count(self, text: str) -> int:
        """Number of recorded ranges whose text begins so."""
        return sum(is_recorded and found.startswith(text) for is_recorded, found in self.texts)


Start = Callable[..., Collector]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Start]:
    """A function that begins a capture with windows in a process that has done nothing yet."""
    before = {one: dict(vars(one)) for one in (REFERENCE, WINDOWS, LIGHT)}
    found = Collector(tmp_path)

    def begin(steps: str = "", bare: str = "3") -> Collector:
        fresh = type(REFERENCE)()
        fresh.folder = str(tmp_path)
        kept = {"on_step": LIGHT.step, "on_found": modules.begin_timing}
        kept["on_resume"] = control.resume
        REFERENCE.__dict__.update({**vars(fresh), **kept})
        hooks = {
            "on_attach": control.enter_window,
            "on_detach": control.leave_window,
            "on_timed": control.watch_for_loops,
        }
        WINDOWS.__dict__.update({**vars(Windows()), **hooks})
        monkeypatch.setattr(modules, "NAMES", Names())
        monkeypatch.setenv(baseline_timing.STEPS_VARIABLE, bare)
        monkeypatch.setenv(windows.STEPS_VARIABLE, steps)
        monkeypatch.setenv(DETAIL_VARIABLE, "normal")
        for name, value in (("begin", found.begin), ("detach", found.detach)):
            monkeypatch.setattr(collector, name, value)
        monkeypatch.setattr(collector, "is_loaded", lambda: True)
        # Steps take microseconds here, and not always as long.
        for name in ("WINDOW_NS", "UNPROFILED_NS"):
            monkeypatch.setattr(windows, name, 0)
        monkeypatch.setattr(baseline_timing, "LEAST_NS", 0)
        monkeypatch.setattr(baseline_timing, "has_loop", lambda: True)
        monkeypatch.setattr(baseline_timing, "FOUND_TOLERANCE", 1e9)
        monkeypatch.setattr(baseline_timing, "FASTER", 0.0)
        dlprof_nvtx.stop()
        STATE.pid = 0
        assert dlprof_nvtx.init(backend=found)
        assert STATE.is_held
        assert WINDOWS.is_active is (steps != windows.ALL)
        return found

    yield begin
    STATE.is_held = False
    dlprof_nvtx.stop()
    STATE.pid = 0
    PATCHES.put_back()
    CALLS.put_back()
    # The thread that watches an open window would watch the next test's.
    WINDOWS._is_over.set()
    for one, values in before.items():
        one.__dict__.clear()
        one.__dict__.update(values)
    assert found.open == 0


class Net(torch.nn.Module):  # type: ignore[name-defined] # torch is optional
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.two(self.one(x))


class Training:
    """A model and its optimizer."""

    def __init__(self) -> None:
        self.model = Net()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self, steps: int, rows: Callable[[int], int] = lambda _: 2) -> None:
        self.model.train()
        for at in range(steps):
            self.model(torch.ones(rows(at), 4)).sum().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()

    def evaluate(self, steps: int, rows: int = 3) -> None:
        self.model.eval()
        with torch.no_grad():
            for _ in range(steps):
                self.model(torch.ones(rows, 4))


BEFORE = 8
"""Steps until the loop is found and three are timed."""


def test_window_of_a_training_ends_and_steps_after_it_are_timed(start: Start) -> None:
    found, steps = start(), BEFORE + WINDOW_STEPS + UNPROFILED_STEPS + 30
    Training().train(steps)
    assert found.calls == ["begin", "detach"]
    written = found.written()
    (window,) = written["windows"]
    assert window["loop"] == "SGD"
    assert window["ended_by"] == "detach"
    assert window["steps"] == WINDOW_STEPS
    assert 0 < window["begin_utc_ns"] < window["end_utc_ns"]
    recorded = len(written["profiled"]["host_ns"]) + len(written["marked"]["host_ns"])
    assert recorded == WINDOW_STEPS
    assert len(written["bare"]["host_ns"]) == written["bare_before"] + UNPROFILED_STEPS
    assert len(written["bare"]["end_utc_ns"]) == len(written["bare"]["host_ns"])
    (outside,) = written["outside"]
    assert outside["loop"] == "SGD"
    # The first step has no begin, nor has the one that follows each change.
    assert steps - 4 <= outside["steps"] + window["steps"] < steps
    # THEN nothing is marked outside
    assert found.count("torch.nn: Net") == WINDOW_STEPS + 1
    assert not any(text.startswith("torch.nn") for is_on, text in found.texts if not is_on)


def test_window_of_many_short_steps_ends(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    found = start()
    monkeypatch.setattr(windows, "WINDOW_NS", 10**15)
    monkeypatch.setattr(windows, "MANY_STEPS", 60)
    Training().train(BEFORE + 60 + 10)
    (window,) = found.written()["windows"]
    assert (window["steps"], window["ended_by"]) == (60, "detach")
    assert len(found.written()["bare"]["host_ns"]) > found.written()["bare_before"]


def test_steps_of_a_compiled_model_are_those_of_its_optimizer(start: Start) -> None:
    found, training = start(), Training()
    training.model = torch.compile(training.model, backend="eager")
    training.train(BEFORE + WINDOW_STEPS + UNPROFILED_STEPS)
    assert [loop["loop"] for loop in found.written()["loops"]] == ["SGD"]
    assert found.written()["windows"][0]["loop"] == "SGD"


def test_steps_that_the_user_asks_for_are_recorded(start: Start) -> None:
    found = start(steps="5")
    Training().train(80)
    assert [window["steps"] for window in found.written()["windows"]] == [5]


def test_all_steps_are_recorded_if_the_user_asks_for_them(start: Start) -> None:
    found = start(steps=windows.ALL)
    Training().train(BEFORE + 3 * WINDOW_STEPS)
    assert found.calls == ["begin"]
    written = found.written()
    assert "windows" not in written
    assert len(written["profiled"]["host_ns"]) > 2 * WINDOW_STEPS


def test_evaluation_gets_a_window_and_steps_without_profiling(start: Start) -> None:
    found, training = start(), Training()
    training.train(BEFORE + WINDOW_STEPS + UNPROFILED_STEPS + 5)
    training.evaluate(UNPROFILED_STEPS + WINDOW_STEPS + 30)
    written = found.written()
    assert [window["loop"] for window in written["windows"]] == ["SGD", "Net"]
    by_name = {loop["loop"]: loop for loop in written["loops"]}
    assert len(by_name["Net"]["bare"]["host_ns"]) == UNPROFILED_STEPS
    assert by_name["Net"]["clock"] == "call"
    assert by_name["Net"]["bare_before"] == 0
    assert found.calls == ["begin", "detach"] * 2
    # THEN the window of the evaluation has marked steps of its own
    notes = [text for is_on, text in found.texts if is_on and text.startswith('{"model_config')]
    assert notes


@pytest.mark.parametrize("batches", [9, 12, 20])
def test_short_epochs_with_evaluations_are_known(start: Start, batches: int) -> None:
    found, training = start(), Training()
    for _ in range(14):
        training.train(batches)
        training.evaluate(6)
    by_name = {loop["loop"]: loop for loop in found.written()["loops"]}
    assert len(by_name["SGD"]["bare"]["host_ns"]) >= UNPROFILED_STEPS
    assert max(map(len, (by_name["SGD"]["profiled"]["host_ns"],))) > 20
    assert set(by_name) == {"SGD", "Net"}


def test_calls_of_the_model_within_each_step_are_no_loop(start: Start) -> None:
    found, training = start(), Training()
    for _ in range(60):
        training.train(1)
        training.evaluate(6)
    written = found.written()
    assert written["loop"] == "SGD"
    assert len(written["profiled"]["host_ns"]) > 30


def test_second_optimizer_of_each_step_is_no_loop(start: Start) -> None:
    found, maker, judge = start(), Training(), Training()
    for _ in range(BEFORE + WINDOW_STEPS + UNPROFILED_STEPS):
        maker.train(1)
        judge.train(1)
    assert [loop["loop"] for loop in found.written()["loops"]] == ["SGD"]


def test_another_optimizer_is_another_loop_even_at_the_same_address(start: Start) -> None:
    found = start()
    for _ in range(2):
        Training().train(UNPROFILED_STEPS + WINDOW_STEPS + UNPROFILED_STEPS)
    written = found.written()
    assert [loop["loop"] for loop in written["loops"]] == ["SGD", "SGD[2]"]
    assert [window["loop"] for window in written["windows"]] == ["SGD", "SGD[2]"]


def test_loops_beyond_the_most_are_counted_together(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "MOST_LOOPS", 2)
    found = start()
    kept = [Training() for _ in range(6)]
    for training in kept:
        training.train(30)
    written = found.written()
    assert [loop["loop"] for loop in written["loops"]] == ["SGD", "SGD[2]", "other loops"]
    steps = sum(loop["steps"] for loop in [*written["outside"], *written["windows"]])
    # Some of each change are of no loop yet.
    assert steps > 6 * 30 - 6 * windows.SWITCHED - 4


def test_window_of_a_loop_outlasts_what_has_had_one(start: Start) -> None:
    found, training = start(), Training()
    training.evaluate(BEFORE + WINDOW_STEPS + UNPROFILED_STEPS + 10)
    assert found.calls == ["begin", "detach"]
    for _ in range(20):
        training.train(9)
        training.evaluate(5)
    second = found.written()["windows"][1]
    assert second["loop"] == "SGD"
    assert second["steps"] > WINDOW_STEPS


def test_each_new_shape_in_a_window_is_marked(start: Start) -> None:
    found = start()
    Training().train(BEFORE + WINDOW_STEPS + 5, rows=lambda at: 1 + at)
    assert found.count("torch.nn: one") == found.count("torch.nn: Net")
    assert [loop["loop"] for loop in found.written()["loops"]] == ["SGD"]


def test_calls_without_training_are_steps(start: Start) -> None:
    found = start()
    Training().evaluate(BEFORE + WINDOW_STEPS + UNPROFILED_STEPS + 20)
    written = found.written()
    assert [window["loop"] for window in written["windows"]] == ["Net"]
    assert len(written["bare"]["host_ns"]) == written["bare_before"] + UNPROFILED_STEPS
    assert found.calls == ["begin", "detach"]


def test_program_that_ends_in_a_window_has_one(start: Start) -> None:
    found = start()
    Training().train(BEFORE + 12)
    (window,) = found.written()["windows"]
    assert window["ended_by"] == "end"
    assert 8 <= window["steps"] <= 12
    assert found.calls == ["begin"]


def test_sanity_check_of_few_batches_leaves_the_training_its_bare_steps(start: Start) -> None:
    found, training = start(bare=""), Training()
    loader = torch.utils.data.DataLoader(torch.ones(4, 4), batch_size=2)
    training.model.eval()
    with torch.no_grad():
        for batch in loader:
            training.model(batch)
    assert found.calls == ["begin"]
    training.train(WINDOW_STEPS + UNPROFILED_STEPS + 10)
    written = found.written()
    assert written["loop"] == "SGD"
    assert written["reason"] == ""
    assert len(written["profiled"]["host_ns"]) > WINDOW_STEPS // 2
    assert len(written["bare"]["host_ns"]) == UNPROFILED_STEPS
    assert found.calls == ["begin", "detach"]


def test_slow_steps_end_a_window_after_a_minute(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [10**12]
    found, training = start(), Training()
    monkeypatch.setattr(windows, "WINDOW_NS", 2 * 10**9)
    monkeypatch.setattr(time, "perf_counter_ns", lambda: clock[0])
    for _ in range(BEFORE + 12):
        training.train(1)
        clock[0] += 20 * 10**9
    assert found.calls[:2] == ["begin", "detach"]
    written = found.written()
    assert written["windows"][0]["steps"] == windows.LEAST_STEPS
    assert len(written["bare"]["host_ns"]) >= windows.LEAST_STEPS


def test_no_range_of_the_markers_outlasts_a_window(start: Start) -> None:
    found = start()
    loader = torch.utils.data.DataLoader(range(WINDOW_STEPS + 60))
    training, again = Training(), dlprof_nvtx.phase("epoch")
    with dlprof_nvtx.phase("train"):
        for number, _ in enumerate(loader):
            if number == 20:
                again.__enter__()
            training.train(1)
            if found.calls == ["begin", "detach"]:
                break
        assert found.calls == ["begin", "detach"]
        assert found.open == 0
        assert found.ended == list(range(1, found.started + 1))
        again.__exit__()
    assert found.open == 0


def test_graph_that_is_captured_after_a_window_is_recorded(start: Start) -> None:
    found, training = start(), Training()
    training.train(BEFORE + WINDOW_STEPS + UNPROFILED_STEPS + 5)
    assert not found.is_recording
    modules.begin_before_capture()
    modules.end_after_capture()
    assert found.is_recording


def test_profiler_of_the_script_gets_cupti_while_it_records(
    start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    found, training = start(), Training()
    training.train(BEFORE + 10)
    with torch.profiler.profile():
        assert found.calls == ["begin", "detach"]
        training.train(3)
        assert found.calls == ["begin", "detach"]
    assert found.calls == ["begin", "detach", "begin"]
    training.train(WINDOW_STEPS)
    ended_by = [window["ended_by"] for window in found.written()["windows"]]
    assert ended_by == ["profiler", "detach"]
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("dlprof")]
    assert len(lines) == 2


def test_cupti_that_is_still_held_is_asked_for_again(start: Start) -> None:
    found, training = start(), Training()
    training.train(BEFORE + 10)
    with torch.profiler.profile():
        found.is_held = True
    training.train(3)
    assert found.calls == ["begin", "detach"]
    found.is_held = False
    training.train(2)
    assert found.is_recording


def test_child_of_a_program_with_a_loop_begins_with_the_gpu_only(start: Start) -> None:
    found = start()
    dlprof_nvtx.stop()
    STATE.pid = 0
    (found.folder / baseline_timing.STARTED).touch()
    (found.folder / f"loop.{os.getppid()}").touch()
    before = len(torch.cuda._queued_calls)
    # GIVEN a process that compiles for its parent, which has begun the collection
    assert dlprof_nvtx.init(backend=found)
    Training().train(2)
    # THEN it writes nothing, and has no window
    assert (found.texts, found.calls) == ([], [])
    assert "windows" not in found.written()
    # WHEN it uses the GPU itself
    for call, _ in torch.cuda._queued_calls[before:]:
        call()
    Training().train(2)
    assert found.texts
    assert [window["loop"] for window in found.written()["windows"]] == ["SGD"]


class Rank:
    """The windows of a rank, whose steps take a fixed time by a clock of its own."""

    def __init__(self, bench: Ranks, begin: int, step_ns: int) -> None:
        self.bench, self.begin, self.step_ns = bench, begin, step_ns
        self.windows, self.now_ns, self.number = Windows(), 1, 0
        self.calls: list[tuple[str, int]] = []
        self.windows.is_active, self.windows.wanted = True, bench.wanted

    def step(self) -> None:
        """End a step, as an optimizer does."""
        self.bench.running = self
        self.now_ns += self.step_ns
        self.number += 1
        if self.number == self.begin:
            self.windows.begin("optimizer", 1, "SGD", self.number)
        elif self.number > self.begin:
            self.windows.end_step("optimizer", 1, "SGD")
            if self.windows.must_detach:
                self.windows.detach()


class Ranks:
    """Ranks of a job, in place of the collector and the clock of their process."""

    def __init__(self, wanted: int | None) -> None:
        self.wanted = wanted
        self.running: Any = None
        self.time_ns = self.perf_counter_ns

    def perf_counter_ns(self) -> int:
        return int(self.running.now_ns)

    def begin(self) -> bool:
        self.running.calls.append(("begin", self.running.number))
        return True

    def detach(self) -> bool:
        self.running.calls.append(("detach", self.running.number))
        return True


@pytest.mark.parametrize("step_ms", [4, 60, 700, 20_000])
@pytest.mark.parametrize("wanted", [None, 7])
def test_windows_of_all_ranks_end_with_the_same_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step_ms: int, wanted: int | None
) -> None:
    monkeypatch.setenv(agreement.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(agreement, "has_ranks", lambda: True)
    bench = Ranks(wanted)
    for name, value in (("time", bench), ("collector", bench), ("IDLE_CHECK_S", 60.0)):
        monkeypatch.setattr(windows, name, value)
    # GIVEN ranks that begin at other steps, whose clocks differ, and that run ahead of each other
    step_ns = step_ms * 1_000_000
    ranks = [Rank(bench, 12 + at, step_ns + at * step_ns // 40) for at in range(3)]
    order = random.Random(step_ms)
    while any(rank.number < 700 for rank in ranks):
        last = min(rank.number for rank in ranks)
        order.choice([rank for rank in ranks if rank.number <= last + 3]).step()
    # THEN their windows end alike
    calls = [rank.calls for rank in ranks]
    assert calls == [calls[0]] * 3
    what, end = calls[0][0]
    recorded = end - 13
    assert what == "detach"
    if wanted is not None:
        assert wanted <= recorded <= wanted + 2
    else:
        long = windows.LONGEST_NS // step_ns
        assert min(long, WINDOW_STEPS) - 2 <= recorded <= windows.MANY_STEPS + windows.SOME_STEPS


def test_rank_that_ends_early_keeps_no_other_from_its_window(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(agreement.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(agreement, "has_ranks", lambda: True)
    bench = Ranks(None)
    for name, value in (("time", bench), ("collector", bench), ("IDLE_CHECK_S", 60.0)):
        monkeypatch.setattr(windows, name, value)
    ranks = [Rank(bench, 12, 60_000_000 + at * 500_000) for at in range(3)]
    for number in range(150):
        for rank in ranks[: 2 if number >= 30 else 3]:
            rank.step()
    assert ranks[0].calls == ranks[1].calls
    assert [what for what, _ in ranks[0].calls] == ["detach"]
    bench.running = ranks[2]
    (window,) = ranks[2].windows.windows()
    assert (window["steps"], window["ended_by"]) == (17, "end")


def test_ranks_record_another_window_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(agreement.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(agreement, "has_ranks", lambda: True)
    bench = Ranks(None)
    for name, value in (("time", bench), ("collector", bench), ("IDLE_CHECK_S", 60.0)):
        monkeypatch.setattr(windows, name, value)
    ranks = [Rank(bench, 12 + at, 60_000_000 + at * 500_000) for at in range(2)]
    while any(rank.number < 400 for rank in ranks):
        for rank in ranks:
            rank.windows.is_unnamed = rank is ranks[0] and rank.number < 60
            rank.step()
    # THEN one that lacks names takes the other along, if it is the first to ask
    calls = [[what for what, _ in rank.calls] for rank in ranks]
    assert calls[0][:3] == ["detach", "begin", "detach"]
    assert ranks[0].calls == ranks[1].calls


def test_window_ends_when_its_loop_has_ended(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "IDLE_NS", 0)
    monkeypatch.setattr(windows, "IDLE_STEPS", 0)
    monkeypatch.setattr(windows, "IDLE_CHECK_S", 60.0)
    found, training = start(), Training()
    training.train(BEFORE + WINDOW_STEPS // 2)
    assert found.calls == ["begin"]
    # WHEN no step follows, while the program goes on
    monkeypatch.setattr(windows, "IDLE_CHECK_S", 0.001)
    WINDOWS._watch(threading.Event())
    # THEN the collector has left, before the program ends
    assert found.calls == ["begin", "detach"]
    (window,) = found.written()["windows"]
    assert window["ended_by"] == "detach"
    assert 0 < window["steps"] <= WINDOW_STEPS // 2
    end_ns = window["end_utc_ns"]
    # WHEN steps follow after all
    training.train(3)
    windows_now = found.written()["windows"]
    assert [other["end_utc_ns"] for other in windows_now] == [end_ns]
    assert not WINDOWS.is_attached


def test_fetches_are_counted_for_each_iterator(tmp_path: Path) -> None:
    held = baseline_timing.Reference()
    held.folder, held.is_held = str(tmp_path), True
    first, second = (iter(torch.utils.data.DataLoader(torch.ones(n, 1))) for n in (100, 30))
    for loader in (first, second, first, first):
        held.fetch(loader)
    assert (held.fetched, held.batches) == (3, 100)
    held.fetch(second)
    assert (held.fetched, held.batches) == (2, 30)


def test_windows_of_all_ranks_begin_with_the_same_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(agreement.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(agreement, "has_ranks", lambda: True)
    began: dict[int, int] = {}
    # GIVEN ranks that run up to two steps ahead of each other, and find their loop at other steps
    ranks = []
    for at in range(3):
        rank = Reference()
        rank.folder, rank.pid, rank.is_held = str(tmp_path), os.getpid(), True
        enough = [6, 9, 7][at]
        monkeypatch.setattr(rank, "_is_enough", lambda ticks, enough=enough: len(ticks) >= enough)

        def finish(rank: Reference = rank, at: int = at) -> None:
            began[at], rank.is_held = rank.ended, False
            (tmp_path / STARTED).touch()

        monkeypatch.setattr(rank, "finish", finish)
        ranks.append(rank)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=0.1)
    order = random.Random(3)
    while any(rank.is_held for rank in ranks):
        last = min(rank.ended for rank in ranks)
        order.choice([rank for rank in ranks if rank.ended <= last + 2]).step(optimizer)
    # THEN all begin where the first of them does
    assert len(set(began.values())) == 1
    assert 6 <= began[0] <= 9


@pytest.mark.parametrize(
    ("lengths_s", "kept"), [([1] * 300 + [7] * 40, 8), ([0.1] * 500, 200), ([100] * 5, 3)]
)
def test_window_that_is_asked_for_follows_steps_of_the_last_minute(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lengths_s: list[float], kept: int
) -> None:
    """Steps that have become slower are not to be compared with faster ones before them."""
    found, loop = windows.Windows(), windows.Loop("SGD", "optimizer", 0)
    asked: list[int] = []
    monkeypatch.setattr(STANDBY, "folder", tmp_path)
    monkeypatch.setattr(STANDBY, "is_due", lambda *_, **__: bool(asked))
    monkeypatch.setattr(found, "attach", lambda _: None)
    now_ns = 0
    for number, length_s in enumerate(lengths_s, start=1):
        now_ns += round(length_s * 1e9)
        asked += [number] * (number == len(lengths_s))
        found._stand_by(loop, round(length_s * 1e9), now_ns, "")
    lengths = [length for length, _ in loop.unprofiled]
    assert lengths == [round(length_s * 1e9) for length_s in lengths_s[-kept:]]
    assert loop.unprofiled_before == len(loop.unprofiled_phases) == kept
