"""Predict the peak with another configuration from the recorded allocations.

Each change alters sizes or lifetimes of allocations; the counts are replayed with them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from aggregator.errors import UsageError
from aggregator.metrics.memory.analysis import DeviceMemory
from aggregator.metrics.memory.kinds import Bool, Evidence, Kind
from aggregator.metrics.memory.model import Int64
from aggregator.metrics.memory.phases import Phase
from aggregator.metrics.memory.replay import NEVER
from aggregator.texts import say

_OF_LIST: Final = re.compile(r"(\w+(?:\.[A-Za-z_]\w*)*)\.(\d+)(?:\.|$)")
_SMALLEST_STATE: Final = 1024
"""Counters of steps are states too, and keep their data type. Unit: bytes."""


@dataclass(frozen=True)
class WhatIf:
    """A change and the peak with it."""

    change: str  # As it was requested.
    peak_allocated_bytes: int
    saved_bytes: int  # Compared with the recorded peak; negative if it grows.


def what_if(memory: DeviceMemory, change: str) -> WhatIf:
    """Predict the peak of a device with a change.

    Args:
        memory: The recording.
        change: ``checkpoint:MODULE`` (an asterisk stands for one part of a path), ``batch:FACTOR``,
            ``bf16-states``, or ``shard:N`` (``shard:N:gradients`` and ``shard:N:parameters`` too).

    Raises:
        UsageError: The change is unknown or fits nothing that was recorded.
    """
    name, _, value = change.partition(":")
    known = _CHANGES.get(name)
    if known is None:
        raise UsageError(
            say("There is no change '{change}'.", change=change),
            hint=say("There are: checkpoint:MODULE, batch:FACTOR, bf16-states and shard:N."),
        )
    delta = known(memory, value)
    counts = memory.counts.allocated
    start = memory.counts.start_allocated + int(delta[0])
    peak = max(int((counts + np.cumsum(delta)[1:]).max(initial=0)), start)
    return WhatIf(change, peak, memory.counts.peak_allocated - peak)


def usual_changes(memory: DeviceMemory) -> list[WhatIf]:
    """Return changes that are usual against a full memory and lower the peak, the best first."""
    changes = ["batch:0.5", "bf16-states", "shard:2"]
    if pattern := repeated_modules(memory):
        changes.append(f"checkpoint:{pattern}")
    found = [what_if(memory, change) for change in changes]
    lower = [outcome for outcome in found if outcome.saved_bytes > 0]
    return sorted(lower, key=lambda item: (item.peak_allocated_bytes, item.change))


def repeated_modules(memory: DeviceMemory) -> str:
    """Pattern of the outermost modules of a list that hold most activations; empty: none."""
    whose, rows = memory.whose, memory.rows
    own = memory.at_peak & (whose.kind == Kind.ACTIVATION)
    held = np.bincount(whose.module[own], weights=rows.size[own], minlength=len(whose.names))
    sums: dict[str, float] = {}
    numbers: dict[str, set[str]] = {}
    for code in np.flatnonzero(held).tolist():
        if match := _OF_LIST.match(whose.names[code]):
            sums[match[1]] = sums.get(match[1], 0.0) + held[code]
            numbers.setdefault(match[1], set()).add(match[2])
    lists = [name for name in sums if len(numbers[name]) > 1]
    return f"{max(lists, key=lambda name: sums[name])}.*" if lists else ""


def _scaled(memory: DeviceMemory, where: Int64, factor: float) -> Int64:
    """Change of the counts at each event, the first before all, if some sizes are scaled."""
    rows = memory.rows
    delta = np.zeros(memory.num_events + 2, dtype=np.int64)
    change = np.rint(rows.size[where] * (factor - 1)).astype(np.int64)
    np.add.at(delta, rows.alloc_event[where] + 1, change)
    free = rows.free_event[where]
    np.subtract.at(delta, np.where(free == NEVER, len(delta) - 1, free + 1), change)
    return delta[:-1]


def _batch(memory: DeviceMemory, value: str) -> Int64:
    factor = _number(value, "batch:0.5", above=0)
    whose, size = memory.whose, memory.rows.size
    kind, phase = whose.kind, whose.phase
    in_pass = (phase == Phase.FORWARD) | (phase == Phase.BACKWARD) | (phase == Phase.OTHER)
    scales = ((kind == Kind.ACTIVATION) | (kind == Kind.TEMPORARY)) & in_pass
    weights = np.unique(size[(kind == Kind.PARAMETER) | (kind == Kind.GRADIENT)])
    # Gradients of weights before they are added, and copies of weights in half precision.
    like_weight = (phase == Phase.BACKWARD) & (kind == Kind.TEMPORARY) & np.isin(size, weights)
    like_weight |= (phase == Phase.FORWARD) & np.isin(size * 2, weights) & _is_cast(memory)
    return _scaled(memory, np.flatnonzero(scales & ~like_weight), factor)


def _is_cast(memory: DeviceMemory) -> Bool:
    """Return which allocations are of a module whose weight in half precision has their size."""
    whose, rows = memory.whose, memory.rows
    weights: dict[int, set[int]] = {}
    codes = {name: code for code, name in enumerate(whose.names)}
    for row in np.flatnonzero(whose.kind == Kind.PARAMETER).tolist():
        owner = whose.names[whose.module[row]].rpartition(".")[0]
        if owner in codes:
            weights.setdefault(codes[owner], set()).add(int(rows.size[row]) // 2)
    found = np.zeros(len(rows), dtype=np.bool_)
    for module, sizes in weights.items():
        found |= (whose.module == module) & np.isin(rows.size, list(sizes))
    return found


def _bf16_states(memory: DeviceMemory, value: str) -> Int64:
    states = (memory.whose.kind == Kind.OPTIMIZER_STATE) & (memory.rows.size >= _SMALLEST_STATE)
    return _scaled(memory, np.flatnonzero(states), 0.5)


def _shard(memory: DeviceMemory, value: str) -> Int64:
    count, _, part = value.partition(":")
    shards = _number(count, "shard:8", above=1)
    kinds = [Kind.OPTIMIZER_STATE]
    if part in ("gradients", "parameters"):
        kinds.append(Kind.GRADIENT)
    if part == "parameters":
        kinds.append(Kind.PARAMETER)
    where = np.isin(memory.whose.kind, [int(kind) for kind in kinds])
    where &= (memory.rows.size >= _SMALLEST_STATE) & ~memory.rows.is_rounding
    return _scaled(memory, np.flatnonzero(where), 1 / shards)


def _checkpoint(memory: DeviceMemory, value: str) -> Int64:
    whose, rows = memory.whose, memory.rows
    pattern = re.compile("(" + re.escape(value).replace(r"\*", r"[^.]+") + r")(?:\.|$)")
    names: dict[str, int] = {}
    calls = np.full(len(whose.names), -1, dtype=np.int64)
    for code, name in enumerate(whose.names):
        if match := pattern.match(name):
            calls[code] = names.setdefault(match[1], len(names))
    call = calls[whose.module]
    call[(whose.evidence == Evidence.RECORDED) | rows.is_rounding] = -1
    if not ((call >= 0) & (whose.kind == Kind.ACTIVATION)).any():
        raise UsageError(
            say("No module '{module}' has activations in the recording.", module=value),
            hint=say("The table of owners at the peak has the paths of modules."),
        )
    delta = np.zeros(memory.num_events + 2, dtype=np.int64)
    for step in np.unique(whose.step[call >= 0]).tolist():
        for module in range(len(names)):
            own = np.flatnonzero((call == module) & (whose.step == step))
            _recompute(memory, own, delta)
    return delta[:-1]


def _recompute(memory: DeviceMemory, own: Int64, delta: Int64) -> None:
    """Release the activations of a module's call after it, until its backward pass begins."""
    whose, rows = memory.whose, memory.rows
    forward = own[(whose.phase[own] == Phase.FORWARD) & (rows.alloc_event[own] != NEVER)]
    backward = own[whose.phase[own] == Phase.BACKWARD]
    activations = forward[whose.kind[forward] == Kind.ACTIVATION]
    if len(activations) < 2:
        return
    # The last is the output, which the next module keeps as its input.
    kept = activations[np.argsort(rows.alloc_event[activations], kind="stable")[:-1]]
    left = int(rows.alloc_event[forward].max()) + 1
    free = rows.free_event[kept]
    used = [int(row) for row in free[free != NEVER].tolist()]
    used += rows.alloc_event[backward].tolist()
    # Without a backward pass (the memory was exhausted before it) they stay released.
    again = min((event for event in used if event > left), default=len(delta) - 2)
    size = rows.size[kept]
    end = np.where(free == NEVER, len(delta) - 2, free)
    np.subtract.at(delta, np.minimum(end, left) + 1, size)
    np.add.at(delta, np.minimum(end, again) + 1, size)


def _number(value: str, example: str, *, above: float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = above
    if not above < number < 1e6:
        raise UsageError(
            say("The change '{value}' needs a number above {above}.", value=value, above=above),
            hint=say("Example: {example}", example=example),
        )
    return number


_CHANGES: Final[dict[str, Callable[[DeviceMemory, str], Int64]]] = {
    "batch": _batch,
    "bf16-states": _bf16_states,
    "checkpoint": _checkpoint,
    "shard": _shard,
}
