"""Time steps without markers and collection first, so that a profile can say what it costs.

``dlprof`` starts Nsight Systems without collecting, and gives the application a folder. The first
steps of its loop are timed there: by the host's clock where a step ends, and by a CUDA event, which
is never waited for. Then this process asks for the collection, waits until it has begun, and
enables the markers. Whatever is unexpected begins the collection earlier, never later.

A step ends at the first optimizer's ``step``; without optimizers, where a model is called again.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dlprof_nvtx import agreement, collector
from dlprof_nvtx.agreement import FOLDER_VARIABLE
from dlprof_nvtx.guard import ById, fields, guarded, has_parameters, say
from dlprof_nvtx.program import has_loop
from dlprof_nvtx.standby import STANDBY
from dlprof_nvtx.trial import TRIAL
from dlprof_nvtx.windows import WINDOWS, Loop

STEPS_VARIABLE = "DLPROF_BARE_STEPS"
STARTED = "started"
"""Name of the file that ``dlprof`` writes when the collection has begun."""
DEFAULT_STEPS = 10
LEAST_NS, MOST_NS = 1_000_000_000, 5_000_000_000
"""The steps without markers take at least this long, and no further step begins after that long."""
FASTER = 0.95
"""While the later half of the unprofiled steps is faster than this, the program is warming up."""
FOUND_STEPS, FOUND_TOLERANCE = 3, 0.25
"""The loop is found when so many steps take about the same time."""
MOST_SEARCHED, LEAST_STEPS = 40, 3
"""After so many steps the loop counts as found; fewer unprofiled steps are no reference."""
ASKED_STEPS = 4
"""Ranks ask each other after every so many steps: between machines an answer takes 0.1 ms."""
SHORT_LOOP = 8
"""A data loader of at most so many batches is collected from the first one."""
UNKNOWN_LOOP_SEARCHED, UNKNOWN_LOOP_STEPS = 8, 5
"""The same of a loop of unknown length, and its unprofiled steps: it may end soon, and steps that
have passed are not profiled. ``--bare_steps`` asks for more."""
UNKNOWN_LOOP_NS, UNKNOWN_LOOP_MOST = 500_000_000, 14
"""While less time has passed, more even steps are taken, but no more than so many in all."""
CALLS_PER_STEP = 64
"""A model may be called so often for one step of an optimizer."""
MOST_STORED, WRITE_S, WAIT_S = 8_000, 2.0, 2.0
TRIAL_WARM_UP, MOST_WARM_UP = 10, 20
"""A tenth of a trial's steps, or of its time, is warm-up, but no more steps than the second."""
DONE = "done"
"""Begin of the name of the file that says that the steps of a trial are timed."""
LOOP = "loop"
"""Begin of the name of the file that says that a process has a loop."""
_NO_ANSWER = (
    f"dlprof_nvtx: dlprof did not answer within {WAIT_S:.0f} s; the program goes on, and what is "
    "recorded may begin later"
)


class Reference:
    """Measures the unprofiled steps of this process, then lets the collection begin."""

    def __init__(self) -> None:
        self.folder = os.environ.get(FOLDER_VARIABLE, "")
        self.is_held = False  # Whether neither markers nor collection are active yet.
        self.clock = ""  # What ends a step: ``optimizer``, ``call`` or ``compiled``.
        self.wanted = DEFAULT_STEPS
        self.is_asked = False  # Whether the user named the number of steps.
        self.name, self.number = "", 0  # Of the loop.
        self.owner: int | None = None  # ``id`` of the optimizer or model that ends a step.
        self.calls = 0  # Of the model that ends a step.
        self.training_calls = 0  # Of these in training.
        self.ended = 0  # Steps of the loop that have ended.
        self.follows = 0  # Loops that were followed.
        self.has_ranks = False  # Whether this process is one of several that train together.
        self.replays: dict[int, int] = {}  # Of CUDA graphs by ``id``, since a step has ended.
        self.ticks: list[tuple[int, Any, str]] = []  # Time, CUDA event, name of a phase.
        self.phase = ""  # Name of the phase that began last: ``decode``; empty: none.
        self.found = 0  # Number of ticks when the loop was found; 0: not yet.
        self.first_found = 0  # The same before steps of the warm-up were left out.
        self.fetched = 0  # Batches of the iterator over a data loader that was asked last.
        self.batches: int | None = None  # Of that; None: unknown.
        self._loaders = ById()  # Numbers of fetched batches and of all of them.
        self.unprofiled: dict[str, list[int]] = {}
        self.unprofiled_phases: list[str] = []  # Phase of each unprofiled step.
        self.unprofiled_loop = ("", 0)  # What ended these steps.
        self.before = (0, 0)  # All steps before the collection began, and their time.
        # Ends of steps while profiling: numbers, not objects, for there may be many.
        self.profiled = array("q")
        self.is_marked = True  # Whether markers have been written since the last of them.
        self.with_markers = array("b")  # The same of each step that ends there.
        self.is_repeated = False  # Whether the next call is one that has ended a step already.
        self.on_step: Callable[[], None] | None = None  # Called where a profiled step ends.
        self.on_found: Callable[[], None] | None = None  # Called where the loop is found.
        self.on_resume: Callable[[], None] | None = None  # Called after the unprofiled steps.
        self.reason = ""
        self.pid = 0
        self.has_loop = False  # Whether this process has begun a loop.
        self._written_s = 0.0
        self._ticking = threading.Lock()  # Never waited for: another thread may hold it at a fork.

    def hold(self) -> bool:
        """Wait with the markers, if ``dlprof`` waits with the collection and a loop may come."""
        self.pid = os.getpid()
        if self.folder:
            WINDOWS.prepare()
        if STANDBY.prepare():
            return False
        text = os.environ.get(STEPS_VARIABLE, "")
        self.is_asked = text.isdigit()
        self.wanted = int(text) if self.is_asked else DEFAULT_STEPS
        if not self.folder or not self.wanted or self._path(STARTED).exists():
            return False
        if not text and not has_loop():
            self.reason = "no_loop"
            if not self._has_holding_ancestor():
                self._begin()
            return False
        self.is_held = self._write_file(f"hold.{self.pid}", "")
        return self.is_held

    def give_up(self, reason: str) -> None:
        """Begin the collection at once: this process cannot have markers."""
        self.pid, self.reason = os.getpid(), reason
        if self.folder and not self._path(STARTED).exists():
            if not self._has_holding_ancestor():
                self._begin()
            self.write()

    def begin_in_child(self) -> None:
        """Let a forked process, which has no markers, begin the collection if it uses CUDA.

        It does not if the process that forked it has a loop, whose steps are timed.
        """
        if self.is_held and self.pid != os.getpid():
            self.is_held = False
            torch: Any = sys.modules["torch"]
            torch.cuda._lazy_call(guarded(self._begin))

    def is_inside_loop(self) -> bool:
        """Whether a process that started this one has a loop, or will: it decides for itself."""
        return bool(self.folder) and (self._has_holding_ancestor() or self._has_looping_ancestor())

    def _has_holding_ancestor(self) -> bool:
        """Whether a process that started this one times its steps, or will: it decides."""
        try:
            held = {int(path.suffix[1:]) for path in Path(self.folder).glob("hold.*")}
        except (OSError, ValueError):
            return False
        return not held.isdisjoint(_ancestors())

    def _has_looping_ancestor(self) -> bool:
        return any(self._path(f"{LOOP}.{pid}").exists() for pid in _ancestors())

    def _note_loop(self) -> None:
        """Say, to processes that this one starts, that it has a loop."""
        if self.folder and not self.has_loop:
            self.has_loop = True
            self._write_file(f"{LOOP}.{self.pid}", "")

    def fetch(self, loader: Any) -> None:
        """Count a batch; a data loader with few batches is collected from its first one.

        Each iterator over a loader has counts of its own: Lightning looks at some batches of the
        validation first, and an epoch may be short.
        """
        self._note_loop()
        known = self._loaders.get(loader)
        if known is None:
            known = [0, _length(loader)]
            self._loaders.put(loader, known)
        self.batches = known[1]
        is_short = self.batches is not None and self.batches <= SHORT_LOOP
        if is_short and not known[0] and not TRIAL.is_active:
            # Where the collection can end, what follows is timed afterwards.
            self.reason = "few_batches"
            self.finish()
        known[0] += 1
        self.fetched = known[0]

    def step(self, optimizer: Any) -> None:
        """End a step, after a step of an optimizer."""
        self.training_calls = 0
        if WINDOWS.is_active and not self.is_held:  # The loops are recorded in windows.
            self._end_step("optimizer", optimizer)
            return
        if self.owner is None or self.clock != "optimizer":
            self._follow("optimizer", optimizer)
        if self.owner == id(optimizer):
            self._tick(self.ticks)

    def _follow(self, clock: str, owner: Any) -> None:
        self.clock, self.owner, self.ticks, self.found = clock, id(owner), [], 0
        self.ended, self.follows = 0, self.follows + 1
        self.has_ranks = agreement.has_ranks()
        self.replays = {}
        self.name, self.number = _name_of(clock, owner), WINDOWS.number(owner)

    def end_compiled(self, function: Any) -> None:
        """End a step where a compiled function returns, if only such functions are called.

        Optimizers' steps in it, and calls of models in it, are compiled too. A model that is called
        in training beside it is of the same step; in inference the calls of the model are steps.
        """
        if WINDOWS.is_active and not self.is_held:  # The loops are recorded in windows.
            current = WINDOWS.current
            if current is None or current.clock != "optimizer":
                self._end_step("compiled", function)
            return
        is_of_step = self.clock == "call" and self.training_calls == self.calls
        if self.owner is None or is_of_step:
            self._follow("compiled", function)
        if self.clock == "compiled" and self.owner == id(function):
            self._tick(self.ticks)

    def end_replay(self, graph: Any) -> None:
        """End a step of a trial where a CUDA graph was replayed, if such a graph is the step.

        It is where nothing else has ended a step while the graph ran again and again; in a step of
        gradient accumulation it may do so some times.
        """
        if self.clock == "compiled" and self.owner == id(graph):
            self._tick(self.ticks)
            return
        count = self.replays[id(graph)] = self.replays.get(id(graph), 0) + 1
        if count > (FOUND_STEPS if self.owner is None else CALLS_PER_STEP):
            self._follow("compiled", graph)

    def call(self, model: Any, *, is_training: bool) -> None:
        """End a step if there is no optimizer: the model is called again."""
        if WINDOWS.is_active and not self.is_held and not self.is_repeated:
            self.training_calls += is_training
            is_step = not is_training or self.training_calls > CALLS_PER_STEP
            is_known = ("call", WINDOWS.number(model)) in WINDOWS.loops
            if is_step and (is_known or has_parameters(model)):
                self._end_step("call", model)
            return
        if self.is_repeated or self.clock == "optimizer":
            self.is_repeated = False
            return
        if self.owner is None or (self.clock == "compiled" and not is_training):
            if not has_parameters(model):
                return
            self._follow("call", model)
        if self.owner != id(model):
            return
        self.calls += 1
        self.training_calls += is_training
        if not is_training or self.training_calls > CALLS_PER_STEP:
            self._tick(self.ticks)

    def _end_step(self, clock: str, owner: Any) -> None:
        """End a step where the collection may end and begin again."""
        if _is_capturing() or not self._ticking.acquire(blocking=False):
            return
        try:
            if WINDOWS.must_detach:
                WINDOWS.detach()
            was_attached = WINDOWS.is_attached
            name = _name_of(clock, owner)
            is_step = WINDOWS.end_step(
                clock, WINDOWS.number(owner), name, phase=self.phase, is_marked=self.is_marked
            )
            if is_step and was_attached and self.on_step is not None:
                self.clock = clock
                self.on_step()
            if WINDOWS.must_detach and clock != "optimizer":
                WINDOWS.detach()  # No range is open; that of an optimizer's step is.
            if self._is_time_to_write():
                self.write()
        finally:
            self._ticking.release()

    def _tick(self, ticks: list[tuple[int, Any, str]]) -> None:
        if not _is_capturing() and self._ticking.acquire(blocking=False):
            try:
                self._tick_once(ticks)
            finally:
                self._ticking.release()

    def _tick_once(self, ticks: list[tuple[int, Any, str]]) -> None:
        if not self.has_loop:  # A call less in each step.
            self._note_loop()
        self.ended += 1
        if TRIAL.is_active:
            self._tick_trial(ticks)
        elif self.is_held:
            # Another process may have begun the collection.
            is_late = os.access(f"{self.folder}/{STARTED}", os.F_OK)
            if not is_late:
                ticks.append((time.perf_counter_ns(), record_event(), self.phase))
            was_found = self.found
            is_wanted = is_late or self._is_enough(ticks)
            if self._is_agreed(is_wanted=is_wanted) if self.has_ranks else is_wanted:
                self.finish()
            elif self.found and not was_found and self.on_found is not None:
                self.on_found()
        else:
            self._end_profiled()

    def _is_agreed(self, *, is_wanted: bool) -> bool:
        """Whether the recording begins after this step in all ranks of the job."""
        if self.ended % ASKED_STEPS:
            return False
        question = f"first.{self.follows}.{self.ended}"
        return agreement.agree(question, str(int(is_wanted))) == "1"

    def _tick_trial(self, ticks: list[tuple[int, Any, str]]) -> None:
        if not self.is_held:
            return
        ticks.append((time.perf_counter_ns(), record_event(), self.phase))
        TRIAL.end_step()
        self.replays.clear()
        count, run_ns = len(ticks), ticks[-1][0] - ticks[0][0]
        if not self.found:
            least = min(self.wanted // TRIAL_WARM_UP, MOST_WARM_UP)
            is_warm = count > least or run_ns >= TRIAL.limit_ns // TRIAL_WARM_UP
            is_over = count > MOST_SEARCHED or run_ns >= TRIAL.limit_ns
            if not (is_warm and _is_even(ticks)) and not is_over:
                return
            self.found = self.first_found = count
            if self.on_found is not None:
                self.on_found()
        steps, all_ns = count - self.found, ticks[-1][0] - ticks[self.first_found - 1][0]
        passed_ns = ticks[-1][0] - ticks[self.found - 1][0]
        is_long = steps >= self.wanted and passed_ns >= LEAST_NS
        is_late = all_ns >= TRIAL.limit_ns and steps >= LEAST_STEPS
        if is_late or count >= MOST_STORED or (is_long and self._is_warm(ticks)):
            self.finish()

    def _end_profiled(self) -> None:
        if WINDOWS.must_take_back:
            WINDOWS.take_back()
        if len(self.profiled) < MOST_STORED:
            self.profiled.append(time.perf_counter_ns())
            self.with_markers.append(self.is_marked)
            if self.folder and time.monotonic() - self._written_s > WRITE_S:
                self.write()
        if self.on_step is not None:
            self.on_step()

    def _is_enough(self, ticks: list[tuple[int, Any, str]]) -> bool:
        """Whether the unprofiled steps suffice, or the loop would end before many more."""
        count = len(ticks)
        may_end_soon = self.batches is None and not self.is_asked
        most_searched = UNKNOWN_LOOP_SEARCHED if may_end_soon else MOST_SEARCHED
        if not self.found and (_is_even(ticks) or count > most_searched):
            self.found = self.first_found = count
        if self.batches is not None and self.fetched >= self.batches // 2:
            self.found = self.found or max(2, count - LEAST_STEPS)
            return True
        if not self.found:
            return False
        passed_ns = ticks[-1][0] - ticks[self.found - 1][0]
        steps = count - self.found
        all_ns = ticks[-1][0] - ticks[self.first_found - 1][0]
        if steps >= LEAST_STEPS and all_ns >= MOST_NS:
            return True
        if may_end_soon:
            # More are timed after the window: a loop of a dozen steps shall be recorded at all.
            most = LEAST_STEPS if WINDOWS.is_active else UNKNOWN_LOOP_STEPS
            if passed_ns < UNKNOWN_LOOP_NS and not WINDOWS.is_active:
                most = max(most, UNKNOWN_LOOP_MOST - self.found)
            return steps >= min(self.wanted, most)
        if steps < self.wanted or passed_ns < LEAST_NS:
            return False
        return self._is_warm(ticks)

    def _is_warm(self, ticks: list[tuple[int, Any, str]]) -> bool:
        """Whether the steps are no faster at the end; if they are, the first ones are left out."""
        lengths = _gaps([tick[0] for tick in ticks[self.found - 1 :]])
        middle = len(lengths) // 2
        early, late = (
            statistics.median(lengths[:middle] or lengths),
            statistics.median(lengths[middle:]),
        )
        if late > FASTER * early:
            return True
        self.found += middle
        return False

    def finish(self) -> None:
        """Keep the unprofiled steps, begin the collection, and enable the markers."""
        self.is_held = False
        if TRIAL.is_active:
            self._keep()
            self.write()
            self._write_file(f"{DONE}.{self.pid}", "")
            return
        self._begin()
        WINDOWS.begin(self.clock, self.number, self.name, self.ended)
        self._keep()
        self.profiled, self.with_markers, self.is_marked = array("q"), array("b"), True
        if self.on_resume is not None:
            self.on_resume()
        self.write()

    def _begin(self) -> None:
        """Ask for the collection, and wait a little until it has begun."""
        if TRIAL.is_active or self._has_looping_ancestor():
            return
        if not self._write_file(f"start.{os.getpid()}", ""):
            return
        if collector.begin():
            return
        deadline = time.monotonic() + WAIT_S
        while not self._path(STARTED).exists():
            if time.monotonic() > deadline:
                say(_NO_ANSWER)
                return
            time.sleep(0.005)

    def _is_time_to_write(self) -> bool:
        """Whether ``dlprof`` may read the times: of a job that stands by only in a window."""
        if not self.folder or time.monotonic() - self._written_s <= WRITE_S:
            return False
        return WINDOWS.is_attached or not STANDBY.is_active

    def _keep(self) -> None:
        """Keep the times of the steps since the loop was found.

        The GPU is waited for at the end of a trial only.
        """
        if TRIAL.is_active and self.ticks and self.ticks[-1][1] is not None:
            self.ticks[-1][1].synchronize()
        ticks = self.ticks[self.found - 1 :] if self.found else []
        times = [tick[0] for tick in ticks]
        self.unprofiled_loop = (self.clock, self.number)
        all_times = [tick[0] for tick in self.ticks]
        self.before = len(all_times) - 1, all_times[-1] - all_times[0] if all_times else 0
        self.unprofiled = {"host_ns": _gaps(times), "end_utc_ns": _since_1970(times[1:])}
        # A call begins a step, a step of an optimizer ends it.
        named = ticks[:-1] if self.clock == "call" else ticks[1:]
        self.unprofiled_phases = [tick[2] for tick in named]
        gpu_ns = _gpu_gaps([tick[1] for tick in ticks])
        if gpu_ns:
            self.unprofiled["gpu_ns"] = gpu_ns
        self.ticks = []

    def write(self, *_: Any) -> None:
        """Write the times for ``dlprof``; at the end of the process the last time."""
        if not self.folder or self.pid != os.getpid():
            return
        self._written_s = time.monotonic()
        if self.is_held:
            self._keep_unfinished()
        content: dict[str, Any] = {
            "pid": self.pid,
            "rank": os.environ.get("RANK", ""),
            "clock": self.clock,
            "bare": self.unprofiled,
            "bare_phases": self.unprofiled_phases,
            "profiled": self._profiled_ns(with_markers=False),
            "marked": self._profiled_ns(with_markers=True),
            "reason": self.reason,
            # Python sets it before its exit handlers run.
            "error": getattr(getattr(sys, "last_type", None), "__name__", ""),
        }
        content.update(TRIAL.content())
        if WINDOWS.is_active and not self.is_held:
            content.update(self._of_windows())
        self._write_file(f"steps.{self.pid}.json", json.dumps(content))

    def _of_windows(self) -> dict[str, Any]:
        loops = WINDOWS.loops
        if not loops:
            return {}
        first = loops.get(self.unprofiled_loop)
        if first is not None and self.before[0] > 0:
            first.outside_steps += self.before[0]
            first.outside_ns += self.before[1]
            self.before = (0, 0)
        found: dict[str, Any] = {"windows": WINDOWS.windows(), "outside": WINDOWS.outside()}
        found["loops"] = [self._of_loop(key, loop) for key, loop in loops.items()]
        key = max(loops, key=lambda item: (loops[item].recorded_ns, loops[item].outside_ns))
        found.update(self._of_loop(key, loops[key]))
        if len(found["bare"]["host_ns"]) >= LEAST_STEPS:
            found["reason"] = ""  # Why the first steps could not be timed matters no more.
        return found

    def _of_loop(self, key: tuple[str, int], loop: Loop) -> dict[str, Any]:
        """The steps of a loop; of the first one also those before the collection began."""
        after = {
            "host_ns": [length for length, _ in loop.unprofiled],
            "end_utc_ns": _since_1970([end for _, end in loop.unprofiled]),
        }
        gpu_ns = _gpu_gaps(loop.events)
        if len(gpu_ns) == len(loop.unprofiled) > 0:
            after["gpu_ns"] = gpu_ns
        is_first = self.unprofiled_loop == key and self.unprofiled.get("host_ns")
        unprofiled, phases = after, list(loop.unprofiled_phases)
        if is_first:
            names = set(self.unprofiled) & set(after) if loop.unprofiled else set(self.unprofiled)
            unprofiled = {name: self.unprofiled[name] + (after.get(name) or []) for name in names}
            phases = self.unprofiled_phases + phases
        result: dict[str, Any] = {"loop": loop.name, "clock": loop.clock}
        result.update(
            bare=unprofiled,
            bare_phases=phases,
            bare_before=len(unprofiled["host_ns"]) - len(loop.unprofiled) + loop.unprofiled_before,
        )
        for name, with_markers in (("profiled", False), ("marked", True)):
            steps = [step for step in loop.profiled if step[2] == with_markers]
            ends = _since_1970([step[1] for step in steps])
            result[name] = {"host_ns": [step[0] for step in steps], "end_utc_ns": ends}
        return result

    def _profiled_ns(self, *, with_markers: bool) -> dict[str, list[int]]:
        gaps = _gaps(self.profiled)
        steps = [at for at in range(len(gaps)) if self.with_markers[at + 1] == with_markers]
        ends = [self.profiled[at + 1] for at in steps]
        return {"host_ns": [gaps[at] for at in steps], "end_utc_ns": _since_1970(ends)}

    def _keep_unfinished(self) -> None:
        """The process ends before the collection began: keep what was measured."""
        self.reason = "ended_early" if self.ticks else "no_steps"
        if not self.found or len(self.ticks) - self.found < LEAST_STEPS:
            self.found = 2
        ticks = list(self.ticks)
        self._keep()
        self.ticks = ticks

    def _path(self, name: str) -> Path:
        return Path(self.folder) / name

    def _write_file(self, name: str, text: str) -> bool:
        """Write a file at once or not at all: ``dlprof`` may read it at any time."""
        part = self._path(f"{name}.part")
        try:
            part.write_text(text, encoding="utf-8")
            part.replace(self._path(name))
        except OSError:
            return False
        return True


def _name_of(clock: str, owner: Any) -> str:
    """Name of a loop: that of the class of an optimizer or model, or of a compiled function."""
    return str(getattr(owner if clock == "compiled" else type(owner), "__name__", clock))


def _ancestors() -> set[int]:
    """Processes that started this one, as far as the system knows."""
    found: set[int] = set()
    pid = os.getppid()
    while pid > 1 and pid not in found:
        found.add(pid)
        try:
            # The program's name, in parentheses, may contain anything.
            words = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
            pid = int(words[1])
        except (OSError, ValueError, IndexError):
            break
    return found


def _gaps(times: Sequence[int]) -> list[int]:
    return [times[at + 1] - times[at] for at in range(len(times) - 1)]


def _since_1970(times: list[int]) -> list[int]:
    """Times of the host's clock since 1970."""
    offset_ns = time.time_ns() - time.perf_counter_ns()
    return [time_ns + offset_ns for time_ns in times]


def _gpu_gaps(events: list[Any]) -> list[int]:
    """Times between CUDA events; empty if one is missing, unfinished or of another GPU."""
    try:
        if not all(event is not None and event.query() for event in events):
            return []
        times_ms = map(lambda a, b: a.elapsed_time(b), events[:-1], events[1:])
        return [round(time_ms * 1e6) for time_ms in times_ms]
    except (RuntimeError, ValueError):
        return []


def _length(iterator: Any) -> int | None:
    """Number of batches; None if that is unknown.

    Only samplers of PyTorch are asked. One of the program may draw random numbers to count its
    batches, or keep those for its next iteration.
    """
    try:
        sampler = fields(iterator)["_index_sampler"]
        inner = fields(sampler).get("sampler")
        if all(_counts_as_torch(source) for source in (sampler, inner) if source is not None):
            return len(sampler)
    except Exception:  # noqa: BLE001 - the data of the program may raise anything
        return None
    return None


def _counts_as_torch(sampler: Any) -> bool:
    module = getattr(type(sampler).__len__, "__module__", "")
    return module.startswith("torch.utils.data.")


def _is_even(ticks: list[tuple[int, Any, str]]) -> bool:
    """Whether the last steps took about the same time."""
    times = [tick[0] for tick in ticks[-FOUND_STEPS - 1 :]]
    if len(times) <= FOUND_STEPS:
        return False
    lengths = _gaps(times)
    middle = statistics.median(lengths)
    return all(abs(length - middle) <= FOUND_TOLERANCE * middle for length in lengths)


def _is_capturing() -> bool:
    """Whether a CUDA graph is being captured: what runs then is no step."""
    cuda: Any = sys.modules["torch"].cuda
    return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())


def record_event() -> Any:
    """Record a CUDA event; None if the GPU is unused."""
    torch: Any = sys.modules["torch"]
    if not torch.cuda.is_initialized():
        return None
    try:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
    except RuntimeError:  # An error of the program's own work, which it meets itself.
        return None
    return event


REFERENCE = Reference()
