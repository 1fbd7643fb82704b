"""Modules that a model makes anew in every step, so that each step's are not modules of their own.

A trace tells instances apart, ``CrossEntropyLoss_0`` from ``CrossEntropyLoss_1``. Where a module's
every call meets other instances of a class than all calls before it, they stand in one place of the
model: the first call's names are everyone's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from aggregator.correlate.ranges import Nesting
    from aggregator.profile import Bool, Int32, Int64, Integers

_INSTANCE: Final = re.compile(r"^(.*)_\d+ \(\w+\)$")
MIN_CALLS: Final = 3
"""Two calls with other instances may be two branches."""


def join_remade(nesting: Nesting, is_module: Bool, name: Int32, names: list[str]) -> Int32:
    """Name code of each range, with one name for modules that are made anew.

    Args:
        nesting: The nested ranges.
        is_module: Whether each is a module's call.
        name: Name code of each.
        names: What the codes index.
    """
    rows = np.flatnonzero(is_module)
    if not len(rows):
        return name
    own = name[rows].astype(np.int64)
    above, call = _calls_around(nesting, is_module, rows, own)
    parent = np.where(above >= 0, name[np.maximum(above, 0)], -1)
    place = np.unique(np.stack([parent, _classes(own, names)]), axis=1, return_inverse=True)[1]
    remade = _remade(place.ravel(), call, own)
    result = name.copy()
    for number in np.flatnonzero(remade).tolist():
        chosen = np.flatnonzero(place.ravel() == number)
        result[rows[chosen]] = _names_of_first(call[chosen], own[chosen])
    return result


def _calls_around(
    nesting: Nesting, is_module: Bool, rows: Int64, own: Int64
) -> tuple[Int64, Int64]:
    """Position of the module around each call of one (-1: none), and a number for that call."""
    position = np.arange(len(is_module), dtype=np.int32)
    innermost = nesting.inherit_innermost(np.where(is_module, position, np.int32(-1)))
    outside = nesting.parent[rows]
    above = np.where(outside >= 0, innermost[np.maximum(outside, 0)], -1).astype(np.int64)
    call = above.copy()
    roots = np.flatnonzero(above < 0)
    if len(roots):
        # Beside the model: its calls are counted instead.
        values, counts = np.unique(own[roots], return_counts=True)
        model = roots[own[roots] == values[counts.argmax()]]
        starts = np.sort(nesting.start_ns[rows[model]])
        call[roots] = -2 - np.searchsorted(starts, nesting.start_ns[rows[roots]], side="right")
    return above, call


def _classes(own: Int64, names: list[str]) -> Int64:
    """A number for the class of each module."""
    codes, inverse = np.unique(own, return_inverse=True)
    class_of: dict[str, int] = {}
    numbers = []
    for code in codes.tolist():
        found = _INSTANCE.match(names[code])
        numbers.append(class_of.setdefault(found[1] if found else names[code], len(class_of)))
    result: Int64 = np.array(numbers, dtype=np.int64)[inverse.ravel()]
    return result


def _remade(place: Integers, call: Int64, own: Int64) -> Bool:
    """Whether the modules in each place are made anew in every call."""
    count = int(place.max()) + 1
    used = np.unique(np.stack([place, own, call]), axis=1)
    instances = np.unique(used[:2], axis=1)
    per_call, sizes = np.unique(used[[0, 2]], axis=1, return_counts=True)
    num_instances = np.bincount(instances[0], minlength=count)
    num_calls = np.bincount(per_call[0], minlength=count)
    # As many pairs as instances: none of them is in two calls.
    once = np.bincount(used[0], minlength=count) == num_instances
    largest = np.zeros(count, dtype=np.int64)
    np.maximum.at(largest, per_call[0], sizes)
    result: Bool = once & (largest * num_calls == num_instances) & (num_calls >= MIN_CALLS)
    return result


def _names_of_first(call: Int64, own: Int64) -> Int64:
    """The first call's names for all, by the order in which a call uses its instances."""
    rank = np.zeros(len(own), dtype=np.int64)
    first: Int64 = np.empty(0, dtype=np.int64)
    for number in dict.fromkeys(call.tolist()):
        rows = np.flatnonzero(call == number)
        order = {code: place for place, code in enumerate(dict.fromkeys(own[rows].tolist()))}
        rank[rows] = [order[code] for code in own[rows].tolist()]
        if not len(first):
            first = np.array(list(order), dtype=np.int64)
    result: Int64 = first[rank]
    return result
