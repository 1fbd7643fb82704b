"""Record windows of the program's loops, and time their steps without profiling after each.

CUPTI costs time in each call of CUDA, so dlprof's own collector records the first steps of a loop
and leaves the process again. A loop is what ends its steps: an optimizer, a model that is called
without training, a compiled function. Each has a window of its own and steps without profiling: of
the first loop also those before the window. What runs outside the windows is counted.

Nsight Systems cannot leave a process: with it all is recorded, and nothing here is active.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dlprof_nvtx import agreement, collector
from dlprof_nvtx.guard import ById, report
from dlprof_nvtx.standby import KEPT_STEPS, LEAST_KEPT, STANDBY

STEPS_VARIABLE = "DLPROF_PROFILE_STEPS"
"""Steps of a window, or ``all``; not set: the default."""
ALL = "all"
WINDOW_STEPS, WINDOW_NS, LONGEST_NS = 40, 2_000_000_000, 60_000_000_000
"""A window has so many steps and takes so long; one of slow steps ends after the longest time."""
LEAST_STEPS, MANY_STEPS = 3, 200
"""Fewer steps are no window of slow ones; so many short ones suffice, however little time they
take: a program of some hundred steps would be over before it ran one without profiling."""
UNPROFILED_STEPS, UNPROFILED_NS, MOST_UNPROFILED, SLOW_NS = 20, 1_000_000_000, 200, 10_000_000_000
"""So many steps without profiling are timed, for at least so long, and no more than the third; few
of slow steps suffice."""
IDLE_NS, IDLE_STEPS, IDLE_CHECK_S = 20_000_000_000, 5, 2.0
"""A window ends when no step has ended for so long, and for so many of its steps."""
EACH_STEP, SOME_STEPS, MOST_ASKED, RANKS_APART = 64, 10, 500, 3
"""Ranks decide together after each of the first steps, later after one of some; about another
window until so many steps have passed since the last one. They begin to record not so far apart."""
MOST_WINDOWS, MOST_WINDOWS_IN_ALL = 4, 12
"""Windows of a loop, and of the process."""
MOST_LOOPS, OTHERS = 16, ("", 0)
"""So many loops have a count of their own; further ones are counted together, and get no window."""
SWITCHED = 4
"""Another loop runs when so many of its steps end, and none of the one before."""
MOST_INTERRUPTED = 3
"""What runs so often between two steps of a loop is a part of these."""
MOST_STORED = 8_000
NAMED_SHARE = 0.95
"""A loop of which less time can be named gets another window."""


class Loop:
    """A loop of the program, and what is known of its steps."""

    def __init__(self, name: str, clock: str, index: int) -> None:
        self.name, self.clock = name, clock
        self.index = index  # Of the loops of this process.
        self.number = 0  # Of its step that ended last: equal in all ranks.
        self.left = 0  # The same when a window ended last.
        self.until = 0  # The same of the last step of the window, if ranks have agreed on it.
        self.last_ns = 0  # End of its last step; 0: what comes is no step that was seen whole.
        self.steps = self.recorded_ns = self.named_ns = 0  # Of its windows.
        self.windows = 0
        self.steps_before = 0  # Those before the window that is open.
        self.was_complete = False  # Whether it had enough steps before the window that is open.
        self.outside_steps = self.outside_ns = 0
        self.profiled: list[tuple[int, int, bool]] = []  # Length, end, and whether it has markers.
        self.unprofiled: list[tuple[int, int]] = []  # Length and end of steps without profiling.
        self.unprofiled_phases: list[str] = []
        self.events: list[Any] = []  # A CUDA event at the begin and the end of each of these.
        self.is_timed = False  # Whether the events are of all these steps.
        self.unprofiled_before = 0  # Of the steps without profiling those before the window.
        self.ticks = 0  # Steps since it runs.
        self.interruptions = 0

    @property
    def has_unprofiled(self) -> bool:
        """Whether enough steps without profiling were timed."""
        count, passed_ns = len(self.unprofiled), sum(length for length, _ in self.unprofiled)
        if count >= MOST_UNPROFILED or (count >= LEAST_STEPS and passed_ns >= SLOW_NS):
            return True
        return count >= UNPROFILED_STEPS and passed_ns >= UNPROFILED_NS

    @property
    def is_named(self) -> bool:
        """Whether nearly all of its recorded time can be named."""
        return self.named_ns >= NAMED_SHARE * self.recorded_ns


def _no_event() -> None:
    """Record no event: PyTorch is not there yet."""


class Windows:
    """Decides when dlprof's own collector records."""

    def __init__(self) -> None:
        self.is_active = False
        self.is_attached = False
        self.must_detach = False  # As soon as no range of the markers is open.
        self.is_giving_way = False  # Whether another profiler of the program records.
        self.must_take_back = False  # Whether that has ended, and still holds CUPTI.
        self.wanted: int | None = None  # Steps of a window; None: the default.
        self.loops: dict[tuple[str, int], Loop] = {}
        self.current: Loop | None = None
        self.done: list[dict[str, Any]] = []  # Windows that ended.
        self.on_attach: Callable[[], None] | None = None
        self.on_detach: Callable[[], None] | None = None
        self.on_give_way: Callable[[], None] | None = None
        self.on_timed: Callable[[], None] | None = None  # The steps without profiling are timed.
        self.on_settled: Callable[[], None] | None = None  # Only the optimizer ends steps.
        self.on_window: Callable[[], None] | None = None  # A window that was asked for has ended.
        self.record_event: Callable[[], Any] = _no_event
        self.is_unnamed = False  # Whether the step that runs has work that gets no name.
        self._numbers = ById()
        self._last_number = 0
        self._nested: set[tuple[str, int]] = set()
        self._optimizer_steps: dict[tuple[str, int], int] = {}  # Of loops that do not run yet.
        self._waiting: tuple[tuple[str, int], int] | None = None  # Another loop, and its steps.
        self._begin_ns = 0
        self._opener: Loop | None = None
        self._has_ranks = False
        self._left_utc_ns = 0  # When the collector left because no step ended; 0: it did not.
        self._is_over = threading.Event()  # Set when the window that is open ends.

    def prepare(self) -> None:
        """Find out whether windows are recorded; the collection has not begun yet."""
        text = os.environ.get(STEPS_VARIABLE, "")
        self.wanted = int(text) if text.isdigit() and int(text) else None
        self.is_active = text != ALL and collector.is_loaded()

    def begin(self, clock: str = "", owner: int = 0, name: str = "", steps: int = 0) -> None:
        """Note that a window begins: the collector records since now.

        Args:
            clock: What ends the steps of the loop that runs; empty: none runs.
            owner: The ``number`` of that.
            name: Name of the loop.
            steps: Steps of the loop that have ended.
        """
        if self.is_active and not self.is_attached:
            self.is_attached, self._begin_ns = True, time.perf_counter_ns()
            self._has_ranks, self._left_utc_ns = agreement.has_ranks(), 0
            for loop in self.loops.values():
                loop.was_complete, loop.steps_before = self._has_enough(loop), loop.steps
                loop.until = 0
            if clock:
                self._enter((clock, owner), name).number = steps
            self._is_over = threading.Event()
            watch = threading.Thread(target=self._watch, args=(self._is_over,), daemon=True)
            with suppress(RuntimeError):  # The limit of threads: the program goes on.
                watch.start()

    def _watch(self, is_over: threading.Event) -> None:
        try:
            self._leave_idle_loop(is_over)
        except Exception as error:  # noqa: BLE001 - a thread must not write a traceback
            report(error)

    def _leave_idle_loop(self, is_over: threading.Event) -> None:
        """Leave the process when its loop seems to have ended: no step says so."""
        while not is_over.wait(IDLE_CHECK_S):
            current = self.current
            if current is None or not current.last_ns:
                continue
            longest_ns = max((length for length, *_ in current.profiled[-MANY_STEPS:]), default=0)
            idle_ns = time.perf_counter_ns() - current.last_ns
            if longest_ns and idle_ns > max(IDLE_NS, IDLE_STEPS * longest_ns):
                self._left_utc_ns = time.time_ns()
                collector.detach()
                self.must_detach = True  # The markers leave with the next step.
                return

    def number(self, owner: Any) -> int:
        """Return a number of an object that no other one gets after it, as may happen to ids."""
        found: int | None = self._numbers.get(owner)
        if found is None:
            self._last_number += 1
            found = self._last_number
            self._numbers.put(owner, found)
        return found

    # --- which loop runs --------------------------------------------------------------------------

    def end_step(
        self, clock: str, owner: int, name: str, *, phase: str = "", is_marked: bool = True
    ) -> bool:
        """Note the end of a step of a loop, or of what may be one; returns whether it is one.

        Args:
            clock: What ends it: ``optimizer``, ``call`` or ``compiled``.
            owner: The ``number`` of that.
            name: Name of the loop.
            phase: Phase of the program.
            is_marked: Whether markers were written in it.
        """
        if self.is_giving_way and not (self.must_take_back and self.take_back()):
            return False
        now_ns = time.perf_counter_ns()
        loop = self._follow((clock, owner), name)
        if loop is None:
            return False
        loop.ticks += 1
        loop.number += 1
        gap_ns = now_ns - loop.last_ns if loop.last_ns else 0
        loop.last_ns = now_ns
        if self.is_attached:
            self._note_recorded(loop, gap_ns, now_ns, is_marked=is_marked)
        else:
            self._note_outside(loop, gap_ns, now_ns, phase)
        return True

    def _follow(self, key: tuple[str, int], name: str) -> Loop | None:
        """Return the loop whose step ends; None if it is a part of one that runs."""
        if key not in self.loops and len(self.loops) >= MOST_LOOPS:
            key, name = OTHERS, "other loops"
        loop, current = self.loops.get(key), self.current
        if loop is not None and loop is current:
            self._waiting = None
            return loop
        if key in self._nested:
            return None
        if current is not None:
            count = self._waiting[1] + 1 if self._waiting and self._waiting[0] == key else 1
            self._waiting = key, count
            if (count < SWITCHED and not self._is_sure(key, current)) or self._is_part(
                current, key
            ):
                return None
            current.last_ns = 0
            current.events, current.is_timed = [], False
        return self._enter(key, name)

    def _is_sure(self, key: tuple[str, int], current: Loop) -> bool:
        """Whether a single step shows that another loop runs.

        The loop of an optimizer goes on where it was left, or it is one whose steps all contain
        calls of models. Such calls are rather steps than those of compiled functions beside them.
        """
        if key[0] == "optimizer" and current.clock != "optimizer":
            self._optimizer_steps[key] = self._optimizer_steps.get(key, 0) + 1
            return key in self.loops or self._optimizer_steps[key] >= MOST_INTERRUPTED
        return current.clock == "compiled" and key[0] == "call"

    def _is_part(self, loop: Loop, key: tuple[str, int]) -> bool:
        """Whether what runs now is a part of each step of an optimizer."""
        if loop.clock != "optimizer" or loop.ticks >= 2:
            return False
        loop.interruptions += 1
        if loop.interruptions >= MOST_INTERRUPTED:
            self._nested.add(key)
        return key in self._nested

    def _enter(self, key: tuple[str, int], name: str) -> Loop:
        loop = self.loops.get(key)
        if loop is None:
            loop = self.loops[key] = Loop(self._name(name), key[0], len(self.loops))
        self._waiting, self.current = None, loop
        loop.ticks = loop.last_ns = 0
        return loop

    def _name(self, name: str) -> str:
        names = {loop.name for loop in self.loops.values()}
        found, number = name, 1
        while found in names:
            number += 1
            found = f"{name}[{number}]"
        return found

    # --- windows ----------------------------------------------------------------------------------

    def _note_recorded(self, loop: Loop, gap_ns: int, now_ns: int, *, is_marked: bool) -> None:
        if self._opener is None:
            self._opener = loop
        if gap_ns:
            loop.steps += 1
            loop.recorded_ns += gap_ns
            loop.named_ns += 0 if self.is_unnamed else gap_ns
            if loop.steps <= MOST_STORED:
                loop.profiled.append((gap_ns, now_ns, is_marked))
        self.is_unnamed = False
        if self._must_end(loop, now_ns):
            self.must_detach = True

    def _must_end(self, loop: Loop, now_ns: int) -> bool:
        """Whether the window ends after this step: in a job of ranks, in all of them."""
        if STANDBY.is_active:
            return loop is self._opener and STANDBY.is_over(loop.number, now_ns, self._begin_ns)
        is_complete = self._is_complete(loop, now_ns)
        if not self._has_ranks:
            return is_complete
        if self.wanted is None:
            is_asked = loop.number <= EACH_STEP or not loop.number % SOME_STEPS
            return is_asked and self._is_agreed("end", loop, is_wanted=is_complete)
        if self._is_of_other(loop):
            return False
        if not loop.until:
            place, own = f"until.{loop.index}.{len(self.done)}", loop.number + self.wanted
            found = agreement.agree(place, str(own))
            loop.until = int(found) if found.isdecimal() else own
        return loop.number >= loop.until

    def _is_agreed(self, question: str, loop: Loop, *, is_wanted: bool) -> bool:
        place = f"{question}.{loop.index}.{len(self.done)}.{loop.number}"
        return agreement.agree(place, str(int(is_wanted))) == "1"

    def _is_of_other(self, loop: Loop) -> bool:
        return loop.was_complete and loop is not self._opener

    def _is_complete(self, loop: Loop, now_ns: int) -> bool:
        passed_ns = now_ns - self._begin_ns
        if self.wanted is None and passed_ns >= LONGEST_NS and loop.steps >= LEAST_STEPS:
            return True
        if self._is_of_other(loop):
            return False
        if self.wanted is not None:
            return loop.steps >= self.wanted
        # A further window is one for names, or completes the one before.
        steps = WINDOW_STEPS * max(1, loop.windows if not loop.is_named else 1)
        is_long = passed_ns >= WINDOW_NS or loop.steps - loop.steps_before >= MANY_STEPS
        return loop.steps >= steps and is_long

    def _has_enough(self, loop: Loop) -> bool:
        least = self.wanted if self.wanted is not None else WINDOW_STEPS
        return loop.steps >= least - (RANKS_APART if self._has_ranks else 0)

    def _wants_window(self, loop: Loop) -> bool:
        is_over = loop.windows >= MOST_WINDOWS or len(self.done) >= MOST_WINDOWS_IN_ALL
        if is_over or loop is self.loops.get(OTHERS):
            return False
        return not self._has_enough(loop) or not loop.is_named

    def _note_outside(self, loop: Loop, gap_ns: int, now_ns: int, phase: str) -> None:
        if gap_ns:
            loop.outside_steps += 1
            loop.outside_ns += gap_ns
        if STANDBY.is_active:
            self._stand_by(loop, gap_ns, now_ns, phase)
            return
        is_wanted = loop.has_unprofiled and self._wants_window(loop)
        if not loop.has_unprofiled:
            self._time(loop, gap_ns, now_ns, phase)
        if self._has_ranks:
            is_asked = loop.number - loop.left <= MOST_ASKED and not loop.number % SOME_STEPS
            is_wanted = is_asked and self._is_agreed("begin", loop, is_wanted=is_wanted)
        if is_wanted:
            self.attach(loop)

    def _stand_by(self, loop: Loop, gap_ns: int, now_ns: int, phase: str) -> None:
        """Keep the times of the last steps, and begin a window if one is asked for."""
        if gap_ns:
            loop.unprofiled.append((gap_ns, now_ns))
            loop.unprofiled_phases.append(phase)
            if len(loop.unprofiled) >= 2 * KEPT_STEPS:
                del loop.unprofiled[:-KEPT_STEPS], loop.unprofiled_phases[:-KEPT_STEPS]
            if loop.clock == "optimizer" and loop.ticks == SWITCHED and self.on_settled is not None:
                self.on_settled()
            STANDBY.minutes.add(STANDBY.folder, loop.name, gap_ns, now_ns)
        has_ranks = agreement.has_ranks()
        if STANDBY.is_due(loop.index, loop.number, loop.unprofiled, now_ns, has_ranks=has_ranks):
            last_ns = now_ns - STANDBY.minutes.line_ns
            recent = sum(end_ns - length_ns >= last_ns for length_ns, end_ns in loop.unprofiled)
            kept = min(max(recent, LEAST_KEPT), KEPT_STEPS)
            del loop.unprofiled[:-kept], loop.unprofiled_phases[:-kept]
            loop.unprofiled_before = len(loop.unprofiled)
            self.attach(loop)
            if not self.is_attached:
                STANDBY.answer("another profiler of the program uses CUPTI")

    def forget_window(self) -> None:
        """Drop what is known of a window that was asked for: the next one is another profile."""
        self.done = []
        for loop in self.loops.values():
            loop.profiled = []
            loop.steps = loop.recorded_ns = loop.named_ns = loop.steps_before = 0
            loop.windows = loop.unprofiled_before = 0

    def _time(self, loop: Loop, gap_ns: int, now_ns: int, phase: str) -> None:
        if gap_ns:
            loop.unprofiled.append((gap_ns, now_ns))
            loop.unprofiled_phases.append(phase)
        elif not loop.unprofiled:
            loop.is_timed = True
        if loop.is_timed:
            loop.events.append(self.record_event())
        if loop.has_unprofiled and self.on_timed is not None:
            self.on_timed()

    @property
    def may_attach(self) -> bool:
        """Whether another window may begin."""
        is_free = self.is_active and not self.is_attached and not STANDBY.is_active
        return is_free and len(self.done) < MOST_WINDOWS_IN_ALL

    def attach(self, loop: Loop | None = None) -> None:
        """Begin a window."""
        if not collector.begin():
            return  # Another profiler may hold CUPTI: it is tried again at the next step.
        self.begin()
        self._opener = loop
        if loop is not None:
            loop.windows += 1
            loop.last_ns = 0
        if self.on_attach is not None:
            self.on_attach()

    def detach(self, ended_by: str = "detach") -> None:
        """End the window."""
        self.must_detach = False
        if not self.is_attached:
            return
        self.done.append(self._window(ended_by))
        if self._opener is not None:
            self._opener.windows = max(1, self._opener.windows)
        for loop in self.loops.values():
            loop.left = loop.number
        self._end()
        if self.on_detach is not None:
            self.on_detach()
        collector.detach()
        self._forget_steps()
        if STANDBY.is_active and self.on_window is not None:
            self.on_window()

    def give_way(self) -> None:
        """Note that the collector was detached for another profiler of the program."""
        if self.is_attached:
            self.done.append(self._window("profiler"))
            if STANDBY.is_active and self.on_window is not None:
                self.on_window()
        self._end()
        self.is_giving_way = True
        self._forget_steps()

    def take_back(self) -> bool:
        """Record again after another profiler; returns whether the collector does."""
        self._forget_steps()
        if STANDBY.is_active:
            self.is_giving_way = False
            return False
        self.must_take_back = not collector.begin()
        if self.must_take_back:
            return False
        self.is_giving_way = False
        self.begin()
        return True

    def _end(self) -> None:
        self.is_attached = False
        self._is_over.set()

    def _forget_steps(self) -> None:
        """Time no step that something else interrupted."""
        for loop in self.loops.values():
            loop.last_ns = 0

    def _window(self, ended_by: str) -> dict[str, Any]:
        """Describe the window that is open, by the loop that has most steps in it."""
        offset_ns = time.time_ns() - time.perf_counter_ns()
        steps = {loop.name: loop.steps - loop.steps_before for loop in self.loops.values()}
        return {
            "begin_utc_ns": self._begin_ns + offset_ns,
            "end_utc_ns": self._left_utc_ns or time.time_ns(),
            "loop": max(steps, key=lambda name: steps[name], default=""),
            "steps": sum(steps.values()),
            "ended_by": "detach" if self._left_utc_ns else ended_by,
        }

    def windows(self) -> list[dict[str, Any]]:
        """Return the windows, the last of which may not have ended."""
        return [*self.done, self._window("end")] if self.is_attached else list(self.done)

    def outside(self) -> list[dict[str, Any]]:
        """Return steps and their time outside the windows, by loop."""
        return [
            {"loop": loop.name, "steps": loop.outside_steps, "ns": loop.outside_ns}
            for loop in self.loops.values()
            if loop.outside_steps
        ]


WINDOWS = Windows()
