"""Ranges of a Kineto trace: ops and annotations, modules, and the Python stack of each op.

Every call of a Python function is an event, about thirty per op. Only calls that directly contain
an op are kept as ranges, with the call stack as their name like DLProf's ``traceMarker``; the
others appear in the stacks only.

Modules that a model creates again in every step get the same name in every step. A trace numbers
instances: ``CrossEntropyLoss_0``, ``CrossEntropyLoss_1``. If each call of a module contains other
instances of a class than all calls before it, these instances have one position in the model, and
all get the names of those in the first call.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import numpy as np

from aggregator.correlate.ranges import nest
from aggregator.profile.arrays import NO_ROW
from aggregator.profile.profile import Ranges
from aggregator.sources.kineto.names import MODULE_PREFIX, module_range

if TYPE_CHECKING:
    from aggregator.correlate.ranges import Nesting
    from aggregator.profile.arrays import Bool, Int32, Int64, Integers
    from aggregator.sources.kineto.arguments import Shapes
    from aggregator.sources.kineto.events import Columns, TraceEvents

_FILE_AND_LINE: Final = re.compile(r"^.+\(\d+\): ")
"""A function of a file; Python's built-in functions have no line number."""
_INSTANCE: Final = re.compile(r"^(.*)_\d+ \(\w+\)$")
MIN_CALLS: Final = 3
"""With only two calls, different instances may be two branches."""


def build_ranges(
    events: TraceEvents, thread_of_lane: Int32, shapes: list[Shapes]
) -> tuple[Ranges, tuple[str, ...]]:
    """Return the ranges, and the names that they index.

    Args:
        events: The events, times shifted; the columns of ranges are changed.
        thread_of_lane: Row of the profile's threads by lane.
        shapes: The shapes that ``shapes`` of the ranges index.
    """
    ops, python = events.tables["ranges"], events.tables["python"]
    _use_inner_types(ops, shapes)
    names = [
        module_range(name) if name.startswith(MODULE_PREFIX) else name
        for name in events.names.values()
    ]
    columns = _joined(ops, python, thread_of_lane)
    recorded = _recorded_stacks(events, names)
    if recorded is not None:
        columns = _with_recorded_stacks(columns, recorded[ops["stack"]])
    if len(python["start"]):
        columns = _with_stacks(columns, python["module"], names)
    return columns, tuple(names)


def _joined(ops: Columns, python: Columns, thread_of_lane: Int32) -> Ranges:
    nothing = np.full(len(python["start"]), NO_ROW, dtype=np.int32)

    def joined(name: str) -> Int64:
        return np.concatenate([ops[name], python[name]])

    return Ranges(
        start_ns=joined("start"),
        end_ns=joined("end"),
        thread=thread_of_lane[joined("lane")],
        domain=np.zeros(len(ops["start"]) + len(nothing), dtype=np.int32),
        name=joined("name").astype(np.int32),
        seq=np.concatenate([ops["seq"], nothing]),
        shapes=np.concatenate([ops["shapes"], nothing]).astype(np.int32),
    )


def _use_inner_types(ops: Columns, shapes: list[Shapes]) -> None:
    """Use the types that an op computes in: under autocast it calls itself again with them."""
    kinds: dict[str, set[str]] = {}
    for shape in shapes:
        kinds.setdefault(shape.text, set()).add(shape.data_type)
    # Without autocast hardly any sizes occur with several types.
    mixed = np.array([bool(kind.text) and len(kinds[kind.text]) > 1 for kind in shapes], dtype=bool)
    rows = np.flatnonzero(mixed[ops["shapes"]]) if len(mixed) else np.empty(0, dtype=np.int64)
    text_of: dict[str, int] = {}
    text = np.array([text_of.setdefault(kind.text, len(text_of)) for kind in shapes] or [0])
    keys = (ops["name"], ops["lane"], text[ops["shapes"]]) if len(shapes) else ()
    order = rows[np.lexsort((-ops["end"][rows], ops["start"][rows], *(k[rows] for k in keys)))]
    outer, inner = order[:-1], order[1:]
    nested = ops["end"][inner] <= ops["end"][outer]
    for key in keys:
        nested &= key[inner] == key[outer]
    # From the innermost out, so that three levels agree.
    for row in np.flatnonzero(nested)[::-1].tolist():
        ops["shapes"][outer[row]] = ops["shapes"][inner[row]]


def _recorded_stacks(events: TraceEvents, names: list[str]) -> Int32 | None:
    """Name code by code of a ``Call stack`` text (older traces); None: no such texts."""
    texts = events.stacks.values()
    if not any(texts):
        return None
    codes = np.full(len(texts), NO_ROW, dtype=np.int32)
    for row, text in enumerate(texts):
        if text:
            # Kineto writes the innermost call first.
            codes[row] = len(names)
            names.append(_marker([frame.strip() for frame in text.split(";")][::-1]))
    return codes


def _with_recorded_stacks(columns: Ranges, code: Int32) -> Ranges:
    """Add a range with the call stack as its name around each op that has one."""
    rows = np.flatnonzero(code >= 0)
    around = columns.selected(rows)
    around.name = code[rows]
    around.seq = np.full(len(rows), -1, dtype=np.int64)
    around.shapes = np.full(len(rows), NO_ROW, dtype=np.int32)
    return around.joined(columns)


def _with_stacks(columns: Ranges, is_module: Int32, names: list[str]) -> Ranges:
    """Keep of the Python calls the modules, and those whose name becomes the stack of an op."""
    count = len(columns)
    first_python = count - len(is_module)
    nesting = nest(columns)
    row = nesting.rows(np.arange(count))
    is_python = row >= first_python
    module = np.zeros(count, dtype=bool)
    module[is_python] = is_module[row[is_python] - first_python] != 0
    parent = nesting.parent
    inside = ~is_python & (parent >= 0)
    used = np.zeros(count, dtype=bool)
    used[parent[inside]] = True
    used &= is_python & ~module
    frames = is_python & ~module
    code = _stack_codes(nesting, nesting.in_order(columns.name), frames, used, names)
    columns.name[row] = _join_recreated(nesting, module, nesting.in_order(columns.name), names)
    columns.name[row[used]] = code[used]
    kept = np.sort(row[~is_python | module | used])
    return columns.selected(kept)


def _stack_codes(
    nesting: Nesting, name: Int32, frames: Bool, used: Bool, names: list[str]
) -> Int32:
    has_line = np.array([bool(_FILE_AND_LINE.match(text)) for text in names], dtype=bool)
    frames = frames & has_line[name]
    stack = np.zeros(len(name), dtype=np.int32)
    chains: list[tuple[int, int]] = [(-1, -1)]
    for depth, positions in enumerate(nesting.by_depth):
        parent = nesting.parent[positions]
        above = np.where(parent >= 0, stack[np.maximum(parent, 0)], 0) if depth else 0 * positions
        stack[positions] = above
        own = frames[positions]
        key = above[own].astype(np.int64) * len(names) + name[positions[own]]
        unique, inverse = np.unique(key, return_inverse=True)
        stack[positions[own]] = (inverse.ravel() + len(chains)).astype(np.int32)
        chains += [divmod(value, len(names)) for value in unique.tolist()]
    code_of = np.full(len(chains), NO_ROW, dtype=np.int32)
    texts = list(names)
    for chain in np.unique(stack[used]).tolist():
        code_of[chain] = len(names)
        names.append(_marker(_frames(chains, texts, chain)))
    return code_of[stack]


def _frames(chains: list[tuple[int, int]], names: list[str], chain: int) -> list[str]:
    """Return the calls of a chain, the outermost first."""
    frames = []
    while chain > 0:
        chain, name = chains[chain]
        frames.append(names[name])
    return frames[::-1]


def _marker(frames: list[str]) -> str:
    return json.dumps({"traceMarker": frames})


def _join_recreated(nesting: Nesting, is_module: Bool, name: Int32, names: list[str]) -> Int32:
    """Name code of each range, with one name for modules that are created again."""
    rows = np.flatnonzero(is_module)
    if not len(rows):
        return name
    own = name[rows].astype(np.int64)
    above, call = _calls_around(nesting, is_module, rows, own)
    parent = np.where(above >= 0, name[np.maximum(above, 0)], -1)
    position = np.unique(np.stack([parent, _classes(own, names)]), axis=1, return_inverse=True)[1]
    recreated = _recreated(position.ravel(), call, own)
    result = name.copy()
    for number in np.flatnonzero(recreated).tolist():
        chosen = np.flatnonzero(position.ravel() == number)
        result[rows[chosen]] = _names_of_first(call[chosen], own[chosen])
    return result


def _calls_around(
    nesting: Nesting, is_module: Bool, rows: Int64, own: Int64
) -> tuple[Int64, Int64]:
    """Position of the module around each module call (or ``NO_ROW``), and a number for its call."""
    position = np.arange(len(is_module), dtype=np.int32)
    innermost = nesting.inherit_innermost(np.where(is_module, position, np.int32(-1)))
    outside = nesting.parent[rows]
    above = np.where(outside >= 0, innermost[np.maximum(outside, 0)], -1).astype(np.int64)
    call = above.copy()
    roots = np.flatnonzero(above < 0)
    if len(roots):
        # Outside the model: numbered by the calls of the model before it.
        values, counts = np.unique(own[roots], return_counts=True)
        model = roots[own[roots] == values[counts.argmax()]]
        starts = np.sort(nesting.start_ns[rows[model]])
        call[roots] = -2 - np.searchsorted(starts, nesting.start_ns[rows[roots]], side="right")
    return above, call


def _classes(own: Int64, names: list[str]) -> Int64:
    codes, inverse = np.unique(own, return_inverse=True)
    class_of: dict[str, int] = {}
    numbers = []
    for code in codes.tolist():
        found = _INSTANCE.match(names[code])
        numbers.append(class_of.setdefault(found[1] if found else names[code], len(class_of)))
    result: Int64 = np.array(numbers, dtype=np.int64)[inverse.ravel()]
    return result


def _recreated(position: Integers, call: Int64, own: Int64) -> Bool:
    """Return whether the modules at each position are created again in every call."""
    count = int(position.max()) + 1
    used = np.unique(np.stack([position, own, call]), axis=1)
    instances = np.unique(used[:2], axis=1)
    per_call, sizes = np.unique(used[[0, 2]], axis=1, return_counts=True)
    num_instances = np.bincount(instances[0], minlength=count)
    num_calls = np.bincount(per_call[0], minlength=count)
    # As many pairs as instances: no instance is in two calls.
    once = np.bincount(used[0], minlength=count) == num_instances
    largest = np.zeros(count, dtype=np.int64)
    np.maximum.at(largest, per_call[0], sizes)
    result: Bool = once & (largest * num_calls == num_instances) & (num_calls >= MIN_CALLS)
    return result


def _names_of_first(call: Int64, own: Int64) -> Int64:
    """Return the names of the first call for all calls, by the order of instances in a call."""
    rank = np.zeros(len(own), dtype=np.int64)
    first: Int64 = np.empty(0, dtype=np.int64)
    for number in dict.fromkeys(call.tolist()):
        rows = np.flatnonzero(call == number)
        order = {code: index for index, code in enumerate(dict.fromkeys(own[rows].tolist()))}
        rank[rows] = [order[code] for code in own[rows].tolist()]
        if not len(first):
            first = np.array(list(order), dtype=np.int64)
    result: Int64 = first[rank]
    return result
