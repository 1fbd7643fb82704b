"""Read the records of ``dlprof --memory`` beside the allocator's events.

The recorder writes the part of the step in the text that PyTorch stores with each event (``F`` for
forward, ``B`` for backward, ``O`` for the optimizer, then the module's path), and the addresses of
parameters, gradients and states of the optimizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aggregator.metrics.memory.kinds import Evidence, Kind
from aggregator.metrics.memory.model import Action, DeviceTrace, Int64, MemoryTrace
from aggregator.metrics.memory.phases import Phase, StackMeaning
from aggregator.metrics.memory.replay import NEVER, Allocations

Int8 = npt.NDArray[np.int8]
Int32 = npt.NDArray[np.int32]
_PHASES: Final = {
    "F": Phase.FORWARD,
    "B": Phase.BACKWARD,
    "O": Phase.OPTIMIZER,
    "X": Phase.OTHER,
}
_SEPARATOR: Final = "|"
_ENGINE_SHARE: Final = 0.1


class Names:
    """Distinct names; 0 is the empty one."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {"": 0}

    def code(self, text: str) -> int:
        """Return the number of a name."""
        return self._codes.setdefault(text, len(self._codes))

    def codes(self, texts: Iterable[str]) -> Int32:
        """Return the numbers of names."""
        return np.array([self.code(text) for text in texts], dtype=np.int32)

    def texts(self) -> tuple[str, ...]:
        """Return all names."""
        return tuple(self._codes)


class RecordedRun:
    """The recorded facts about one device; empty if there are none."""

    def __init__(self, memory: MemoryTrace, trace: DeviceTrace) -> None:
        self._trace = trace
        self._run = memory.run
        self._notes = memory.notes
        self.step_ends_ns = np.array(
            [
                int(step["end_us"]) * 1000
                for step in _list(self._run.get("steps"))
                if isinstance(step, dict) and isinstance(step.get("end_us"), int)
            ],
            dtype=np.int64,
        )

    def event_phases(self, meanings: tuple[StackMeaning, ...]) -> Int8:
        """Return the phase of each event: recorded, from its stack, or that of the event before."""
        events = self._trace.events
        by_stack = np.array([meaning.phase for meaning in meanings], dtype=np.int8)
        phase = by_stack[events.stack]
        is_python = np.array([meaning.is_python for meaning in meanings], dtype=np.bool_)
        is_alloc = events.action == Action.ALLOC
        bare = is_alloc & (events.stack == 0)
        has_stack = is_alloc & is_python[events.stack]
        if has_stack.sum() > _ENGINE_SHARE * is_alloc.sum():
            # The autograd engine's threads have no frames of Python; all others have.
            phase[bare] = Phase.BACKWARD
        by_note = np.array([_phase(text) for text in self._notes], dtype=np.int8)
        noted = by_note[events.note]
        phase = np.where(noted > 0, noted, phase)
        if not len(phase):
            return phase
        # Each unknown one has the phase of the last known one before it.
        last = np.arange(len(phase), dtype=np.int32 if len(phase) < 1 << 31 else np.int64)
        last[phase == 0] = 0
        np.maximum.accumulate(last, out=last)
        return np.asarray(phase[last])

    def modules(self, rows: Allocations, module: Int32, names: Names) -> Int32:
        """Return the paths of modules: the recorded ones, else those of the stacks."""
        paths = names.codes(text.partition(_SEPARATOR)[2] for text in self._notes)
        is_new = rows.alloc_event != NEVER
        noted = np.zeros(len(rows), dtype=np.int32)
        noted[is_new] = paths[self._trace.events.note[rows.alloc_event[is_new]]]
        return np.where(noted > 0, noted, module).astype(np.int32)

    def _event_at(self, time_us: object) -> int:
        """Return the last event before a time."""
        times = self._trace.events.time_ns
        if not isinstance(time_us, int):
            return len(times)
        return int(np.searchsorted(times, time_us * 1000, side="right")) - 1

    def apply(
        self, rows: Allocations, kind: Int8, evidence: Int8, module: Int32, names: Names
    ) -> None:
        """Set kind and module of what the run recorded with its address."""
        end = self._event_at(self._run.get("addresses_at_us"))
        items = [(Kind.OPTIMIZER_STATE, item, end) for item in _list(self._run.get("states"))]
        items += [(Kind.PARAMETER, item, end) for item in _list(self._run.get("parameters"))]
        for step in _list(self._run.get("steps")):
            if isinstance(step, dict) and isinstance(step.get("start_us"), int):
                at = self._event_at(step["start_us"])
                items += [(Kind.GRADIENT, item, at) for item in _list(step.get("gradients"))]
        known = [
            (which, item[0], int(item[1]), at)
            for which, item, at in items
            if _is_tensor(item) and item[3] == self._trace.device
        ]
        if not known:
            return
        addresses = np.array([address for _, _, address, _ in known], dtype=np.int64)
        events = np.array([at for *_, at in known], dtype=np.int64)
        found = _find(rows, addresses, events)
        hit = np.flatnonzero(found >= 0)
        kinds = np.array([which for which, *_ in known], dtype=np.int8)
        kind[found[hit]] = kinds[hit]
        evidence[found[hit]] = Evidence.RECORDED
        module[found[hit]] = names.codes(known[place][1] for place in hit.tolist())


def _find(rows: Allocations, address: Int64, event: Int64) -> Int64:
    """Return the allocation that holds each address after an event, or -1 if there is none."""
    order = np.lexsort((rows.alloc_event, rows.address))
    order = order[~rows.is_rounding[order]]
    places, code = np.unique(rows.address[order], return_inverse=True)
    if not len(places):
        return np.full(len(address), -1, dtype=np.int64)
    width = int(max(rows.alloc_event.max(), event.max())) + 3
    keys = code * width + rows.alloc_event[order] + 1
    at = np.searchsorted(places, address, side="right") - 1
    found = np.searchsorted(keys, at * width + event + 1, side="right") - 1
    row = order[np.maximum(found, 0)]
    inside = (at >= 0) & (found >= 0)
    inside &= (rows.address[row] <= address) & (address < rows.address[row] + rows.size[row])
    freed = rows.free_event[row]
    inside &= (freed == NEVER) | (freed > event)
    return np.where(inside, row, -1)


def _phase(text: str) -> int:
    letter, bar, _ = text.partition(_SEPARATOR)
    return int(_PHASES.get(letter, Phase.UNKNOWN)) if bar else 0


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else []


def _is_tensor(item: object) -> bool:
    """Return whether it is [name, address, bytes, device]."""
    return (
        isinstance(item, list | tuple)
        and len(item) == 4
        and isinstance(item[0], str)
        and all(isinstance(number, int) and 0 <= number < 1 << 63 for number in item[1:])
    )
