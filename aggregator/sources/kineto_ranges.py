"""Ranges of a Kineto trace: ops and annotations, modules, and the Python stack of each op.

Every call of a Python function is an event of its own, thirty for one op. Of them only those are
kept as ranges that an op lies directly in, under a name that tells the stack as DLProf's
``traceMarker`` does; the rest is in the stacks.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import numpy as np

from aggregator.correlate.ranges import nest
from aggregator.profile import Ranges
from aggregator.sources.kineto_modules import join_remade
from aggregator.sources.kineto_names import MODULE_PREFIX, module_range

if TYPE_CHECKING:
    from aggregator.correlate.ranges import Nesting
    from aggregator.profile import Bool, Int32, Int64
    from aggregator.sources.kineto_arguments import Shapes
    from aggregator.sources.kineto_events import Columns, TraceEvents

_PLACE: Final = re.compile(r"^.+\(\d+\): ")
"""A function of a file; what Python has built in has no place."""


def build_ranges(
    events: TraceEvents, thread_of_lane: Int32, shapes: list[Shapes]
) -> tuple[Ranges, tuple[str, ...]]:
    """Ranges, and what their names index.

    Args:
        events: The events, times shifted; the columns of ranges are used up.
        thread_of_lane: Row of the profile's threads by lane.
        shapes: What ``shapes`` of the ranges index.
    """
    ops, python = events.tables["ranges"], events.tables["python"]
    _take_inner_types(ops, shapes)
    names = [
        module_range(name) if name.startswith(MODULE_PREFIX) else name
        for name in events.names.values()
    ]
    columns = _joined(ops, python, thread_of_lane)
    told = _told_stacks(events, names)
    if told is not None:
        columns, names = _with_told(columns, ops["stack"], told, names)
    if len(python["start"]):
        columns = _with_stacks(columns, python["module"], names)
    return columns, tuple(names)


def _joined(ops: Columns, python: Columns, thread_of_lane: Int32) -> Ranges:
    nothing = np.full(len(python["start"]), -1, dtype=np.int32)

    def both(name: str) -> Int64:
        return np.concatenate([ops[name], python[name]])

    return Ranges(
        start_ns=both("start"),
        end_ns=both("end"),
        thread=thread_of_lane[both("lane")],
        domain=np.zeros(len(ops["start"]) + len(nothing), dtype=np.int32),
        name=both("name").astype(np.int32),
        seq=np.concatenate([ops["seq"], nothing]),
        shapes=np.concatenate([ops["shapes"], nothing]).astype(np.int32),
    )


def _take_inner_types(ops: Columns, shapes: list[Shapes]) -> None:
    """Under autocast an op is called twice, once more with what it computes in: that counts."""
    kinds: dict[str, set[str]] = {}
    for shape in shapes:
        kinds.setdefault(shape.text, set()).add(shape.data_type)
    # Without autocast hardly any sizes come with several types.
    mixed = np.array([bool(one.text) and len(kinds[one.text]) > 1 for one in shapes], dtype=bool)
    rows = np.flatnonzero(mixed[ops["shapes"]]) if len(mixed) else np.empty(0, dtype=np.int64)
    text_of: dict[str, int] = {}
    text = np.array([text_of.setdefault(one.text, len(text_of)) for one in shapes] or [0])
    keys = (ops["name"], ops["lane"], text[ops["shapes"]]) if len(shapes) else ()
    order = rows[np.lexsort((-ops["end"][rows], ops["start"][rows], *(k[rows] for k in keys)))]
    outer, inner = order[:-1], order[1:]
    nested = ops["end"][inner] <= ops["end"][outer]
    for key in keys:
        nested &= key[inner] == key[outer]
    # From the innermost out, so that three levels agree.
    for row in np.flatnonzero(nested)[::-1].tolist():
        ops["shapes"][outer[row]] = ops["shapes"][inner[row]]


def _told_stacks(events: TraceEvents, names: list[str]) -> Int32 | None:
    """Name code by code of a ``Call stack`` text (older traces); None: there are none."""
    texts = events.stacks.values()
    if not any(texts):
        return None
    codes = np.full(len(texts), -1, dtype=np.int32)
    for row, text in enumerate(texts):
        if text:
            # Kineto begins with the innermost call.
            codes[row] = len(names)
            names.append(_marker([frame.strip() for frame in text.split(";")][::-1]))
    return codes


def _with_told(
    columns: Ranges, stack: Int32, told: Int32, names: list[str]
) -> tuple[Ranges, list[str]]:
    """A range that tells the stack around each op that has one."""
    code = told[stack]
    rows = np.flatnonzero(code >= 0)
    around = _taken(columns, rows)
    around.name = code[rows]
    around.seq = np.full(len(rows), -1, dtype=np.int64)
    around.shapes = np.full(len(rows), -1, dtype=np.int32)
    return _concatenated(around, columns), names


def _with_stacks(columns: Ranges, is_module: Int32, names: list[str]) -> Ranges:
    """Keep of the Python functions the modules, and what tells the stack of an op."""
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
    columns.name[row] = join_remade(nesting, module, nesting.in_order(columns.name), names)
    columns.name[row[used]] = code[used]
    kept = np.sort(row[~is_python | module | used])
    return _taken(columns, kept)


def _stack_codes(
    nesting: Nesting, name: Int32, frames: Bool, used: Bool, names: list[str]
) -> Int32:
    """Code of the name that tells the stack at each used position."""
    has_place = np.array([bool(_PLACE.match(text)) for text in names], dtype=bool)
    frames = frames & has_place[name]
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
    code_of = np.full(len(chains), -1, dtype=np.int32)
    texts = list(names)
    for chain in np.unique(stack[used]).tolist():
        code_of[chain] = len(names)
        names.append(_marker(_frames(chains, texts, chain)))
    return code_of[stack]


def _frames(chains: list[tuple[int, int]], names: list[str], chain: int) -> list[str]:
    """The outermost call first, as Python prints them."""
    frames = []
    while chain > 0:
        chain, name = chains[chain]
        frames.append(names[name])
    return frames[::-1]


def _marker(frames: list[str]) -> str:
    return json.dumps({"traceMarker": frames})


def _taken(columns: Ranges, rows: Int64) -> Ranges:
    return Ranges(**{name: values[rows] for name, values in vars(columns).items()})


def _concatenated(first: Ranges, second: Ranges) -> Ranges:
    own = vars(second)
    return Ranges(**{n: np.concatenate([values, own[n]]) for n, values in vars(first).items()})
