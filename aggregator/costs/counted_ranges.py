"""The ranges of operators that are counted: those with a formula around each piece of work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aggregator.correlate.range_tree import RangeTree
from aggregator.costs.formulas.attention import NO_LENGTHS
from aggregator.costs.formulas.call import Argument, OpCall, sizes_of
from aggregator.costs.formulas.registry import (
    count,
    is_collective,
    is_counted,
    is_sharing,
    product_family,
)
from aggregator.costs.formulas.serving import kind_of
from aggregator.frameworks.meaning import RangeKind, RangeMeaning
from aggregator.frameworks.serving import read_lengths
from aggregator.profile.arrays import (
    NO_ROW,
    Bool,
    Int32,
    Int64,
    Integers,
    dense_codes,
    ordered,
    row_codes,
)
from aggregator.profile.profile import Profile, Ranges
from aggregator.system.untrusted_json import read_list, read_object


@dataclass(frozen=True)
class NestedRanges:
    """Nested ranges, sorted, and the innermost one of each API call.

    Those of a profile may be followed by those of the captures of its CUDA graphs.
    """

    parent: Integers  # Position of the enclosing range, or ``NO_ROW``.
    unit: Integers  # Position of the unit that each range belongs to, or ``NO_ROW``.
    name: Integers  # Code into ``Profile.range_names``.
    shapes: Integers  # Code into ``Profile.shape_texts``, or ``NO_ROW``.
    of_call: Integers  # Position of the innermost range of each API call, or ``NO_ROW``.

    @classmethod
    def of(cls, tree: RangeTree, ranges: Ranges, of_call: Int32) -> NestedRanges:
        """Those of one profile; of its ranges only names and sizes are needed."""
        shapes = tree.nesting.in_order(ranges.shapes)
        return cls(tree.nesting.parent, tree.unit, tree.name, shapes, of_call)

    @classmethod
    def joined(cls, parts: Sequence[NestedRanges]) -> NestedRanges:
        """Ranges and calls of all parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        first = np.cumsum([0, *(len(part.name) for part in parts)])[:-1]

        def moved(name: str) -> Int64:
            columns = [getattr(part, name).astype(np.int64) for part in parts]
            pairs = zip(columns, first, strict=True)
            return np.concatenate([np.where(own >= 0, own + start, -1) for own, start in pairs])

        name = np.concatenate([part.name for part in parts])
        shapes = np.concatenate([part.shapes for part in parts])
        return cls(moved("parent"), moved("unit"), name, shapes, moved("of_call"))


def counted_ranges(
    profile: Profile, meaning: RangeMeaning, nested: NestedRanges, position: Integers
) -> Int64:
    """The counted range around each innermost range; -1: no range with a formula."""
    names = _countable_names(profile, meaning)
    unique, inverse = dense_codes(position)
    result = np.full(len(unique), NO_ROW, dtype=np.int64)
    fallback = result.copy()
    # Ranges around another one of their family of products, and that one.
    calling = [(result[:0], result[:0])]
    rows = np.flatnonzero(unique >= 0)
    current = unique[rows]
    unit = nested.unit[current]
    while len(rows):
        name = nested.name[current]
        takes = names.counted[name] & ((result[rows] < 0) | ~names.shares[name])
        fits = ~names.is_serving[name] | _fits(profile, names, nested, current)
        fallback[rows[takes & ~fits]] = current[takes & ~fits]
        takes &= fits
        is_outer = names.is_serving[name] & (names.family[name] > 0) & (result[rows] >= 0)
        inner = result[rows[is_outer]]
        same = names.family[nested.name[inner]] == names.family[name[is_outer]]
        calling.append((current[is_outer][same], inner[same]))
        result[rows[takes]] = current[takes]
        current = nested.parent[current].astype(np.int64)
        inside = (current >= 0) & (nested.unit[np.maximum(current, 0)] == unit)
        rows, current, unit = rows[inside], current[inside], unit[inside]
    return _inside(np.where(result < 0, fallback, result), calling)[inverse]


def _inside(counted: Int64, calling: list[tuple[Int64, Int64]]) -> Int64:
    """Count the other work of a range that only calls a product of its family with that product."""
    outer, inner = (np.concatenate(part) for part in zip(*calling, strict=True))
    order = ordered(outer)
    outer, inner = outer[order], inner[order]
    at = np.minimum(np.searchsorted(outer, counted), max(len(outer) - 1, 0))
    calls = (outer[at] == counted) if len(outer) else np.zeros(len(counted), dtype=bool)
    return np.where(calls, inner[at] if len(outer) else counted, counted)


@dataclass(frozen=True)
class _CountableNames:
    """What is counted, by the name of a range."""

    counted: Bool  # Whether an operator of the name has a formula.
    shares: Bool  # Whether operators that it calls may be counted instead.
    is_serving: Bool  # Whether the formula is that of a kind of operators of other libraries.
    family: Int64  # Number of the family of its products; 0: none.
    labels: tuple[str, ...]  # Name without namespace.


def _countable_names(profile: Profile, meaning: RangeMeaning) -> _CountableNames:
    names, label = profile.range_names, meaning.label
    is_op = meaning.kind == RangeKind.OP
    is_op[[*meaning.texts]] = False
    counted = np.array([is_counted(text) for text in meaning.labels], dtype=bool)[label] & is_op
    shares = np.array([is_sharing(text) for text in meaning.labels], dtype=bool)[label]
    is_serving = np.zeros(len(is_op), dtype=bool)
    family = np.zeros(len(is_op), dtype=np.int64)
    codes: dict[str, int] = {"": 0}
    for row in np.flatnonzero(is_op).tolist():
        is_serving[row] = not counted[row] and kind_of(names[row]) is not None
        text = product_family(meaning.labels[label[row]], names[row])
        family[row] = codes.setdefault(text, len(codes))
    labels = tuple(meaning.labels[code] for code in label.tolist())
    return _CountableNames(counted | is_serving, shares | is_serving, is_serving, family, labels)


def _fits(profile: Profile, names: _CountableNames, nested: NestedRanges, position: Int64) -> Bool:
    """Whether the sizes of ranges are those of a call of their kind."""
    result = np.ones(len(position), dtype=bool)
    rows = np.flatnonzero(names.is_serving[nested.name[position]])
    name, shapes = (column[position[rows]] for column in (nested.name, nested.shapes))
    first, inverse = row_codes(name, shapes)
    found = [
        _is_known(recorded_call(profile, names.labels[code], code, shape))
        for code, shape in zip(name[first].tolist(), shapes[first].tolist(), strict=True)
    ]
    result[rows] = np.array(found, dtype=bool)[inverse]
    return result


def _is_known(call: OpCall) -> bool:
    cost = count(call)
    return cost.flops is not None or cost.reason == NO_LENGTHS or is_collective("", call.full_name)


def recorded_call(profile: Profile, label: str, name: int, shapes: int) -> OpCall:
    """A call as the source recorded it: sizes, types and parameters of its arguments.

    Args:
        profile: The profile.
        label: Name of the operator without namespace.
        name: Code of the full name.
        shapes: Code of the sizes; -1: not recorded.
    """

    def text_of(texts: Sequence[str]) -> str:
        return texts[shapes] if 0 <= shapes < len(texts) else ""

    types = read_list(text_of(profile.shape_element_types))
    return OpCall(
        label,
        sizes_of(text_of(profile.shape_texts)),
        full_name=profile.range_names[name] if name >= 0 else "",
        types=tuple(kind if isinstance(kind, str) else "" for kind in types),
        parameters=tuple(read_object(text_of(profile.shape_parameters)).items()),
    )


def steps_around(profile: Profile, nested: NestedRanges | None, position: Integers) -> Integers:
    """Code of the name of the range with lengths around each range, or ``NO_ROW``."""
    has = np.array([read_lengths(name) is not None for name in profile.range_names], dtype=bool)
    result = np.full(len(position), NO_ROW, dtype=np.int64)
    if nested is None or not has.any():
        return result
    unique, inverse = dense_codes(position)
    found = np.full(len(unique), NO_ROW, dtype=np.int64)
    rows = np.flatnonzero(unique >= 0)
    current = unique[rows].astype(np.int64)
    while len(rows):
        takes = has[nested.name[current]]
        found[rows[takes]] = nested.name[current[takes]]
        current = nested.parent[current].astype(np.int64)
        goes_on = ~takes & (current >= 0)
        rows, current = rows[goes_on], current[goes_on]
    return found[inverse]


def inner_tensors(profile: Profile, nested: NestedRanges, position: int) -> tuple[Argument, ...]:
    """Distinct tensors of the ranges inside one, which follow it up to the next outside."""
    stop = _end_of(nested, position)
    codes = np.unique(nested.shapes[position + 1 : stop])
    calls = (recorded_call(profile, "", -1, code) for code in codes[codes >= 0].tolist())
    return tuple(dict.fromkeys(tensor for call in calls for tensor in call.arguments))


def _end_of(nested: NestedRanges, position: int) -> int:
    """The first range after one that is not inside it."""
    low, step = position + 1, _FIRST_STEP
    while low < len(nested.parent):
        after = np.flatnonzero(nested.parent[low : low + step] < position)
        if len(after):
            return low + int(after[0])
        low, step = low + step, 4 * step
    return len(nested.parent)


_FIRST_STEP = 256
"""A layer of experts calls some dozens of operators."""
