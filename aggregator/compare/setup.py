"""What else differs between two sides: it explains most differences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from aggregator.compare.captures import CaptureData
from aggregator.compare.matching import Op
from aggregator.compare.result import CompareSetting

_SIZE: Final = re.compile(r"(?<![\w.])(?:[A-Z]:)?(\d{1,9})(?![\w.])")
_MOST_SAMPLES: Final = 1 << 40
_LEAST_BATCHED: Final = 4
"""One in so many ops at least has the batch as its first size."""
_MOST_SHAPES: Final = 3
"""Ops whose shapes or parameters differ that are listed."""


def differences(
    base: Sequence[CaptureData], new: Sequence[CaptureData]
) -> tuple[CompareSetting, ...]:
    """The facts that differ, in the order in which they matter: hardware, software, settings."""
    found = []
    keys = dict.fromkeys(key for data in (*base, *new) for key in data.facts)
    for key in keys:
        values = [_joined(data.facts.get(key, "") for data in side) for side in (base, new)]
        if values[0] != values[1] and not _is_less_exact(*values):
            found.append(CompareSetting(key, *values))
    return (*found, *_of_ops(base[0], new[0], "shapes"), *_of_ops(base[0], new[0], "parameters"))


def _is_less_exact(base: str, new: str) -> bool:
    """Whether one side names a program without the version that the other side has."""
    return bool(base and new) and (new.startswith(f"{base} ") or base.startswith(f"{new} "))


def _joined(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(value for value in values if value))


def _of_ops(base: CaptureData, new: CaptureData, what: str) -> list[CompareSetting]:
    """The first ops that run with other shapes or parameters."""
    before = {op.key: getattr(op, what) for op in _with_time(base)}
    found = [
        CompareSetting(f"{what} of {op.name}", before[op.key], getattr(op, what))
        for op in _with_time(new)
        if before.get(op.key) and getattr(op, what) not in ("", before[op.key])
    ]
    if len(found) <= _MOST_SHAPES:
        return found
    rest = CompareSetting(f"{what} of {len(found) - _MOST_SHAPES} more ops", "...", "...")
    return [*found[:_MOST_SHAPES], rest]


def batch_sizes(base: Sequence[CaptureData], new: Sequence[CaptureData]) -> tuple[int, int] | None:
    """Return the samples of a step on all ranks of both sides; None: unknown, or the same.

    They follow from the recorded setting, else from the ops whose shapes differ in the first size
    only, by the same ratio.
    """
    sizes = [_recorded_batch(side) for side in (base, new)]
    if None in sizes:
        found = _batches_of_shapes(base[0], new[0])
        if found is None:
            return None
        sizes = list(found)
    ranks = [max(len(side[0].ranks), 1) for side in (base, new)]
    before, after = ((size or 0) * count for size, count in zip(sizes, ranks, strict=True))
    return None if before == after else (before, after)


def _recorded_batch(side: Sequence[CaptureData]) -> int | None:
    found = {data.facts.get("batch_size", "") for data in side}
    text = next(iter(found)) if len(found) == 1 else ""
    return int(text) if text.isdecimal() and 0 < int(text) < _MOST_SAMPLES else None


def _batches_of_shapes(base: CaptureData, new: CaptureData) -> tuple[int, int] | None:
    before = {op.key: op.shapes for op in _with_time(base)}
    both = [(before.get(op.key, ""), op.shapes) for op in _with_time(new)]
    known = [pair for pair in both if all(pair)]
    pairs = [pair for pair in known if pair[0] != pair[1]]
    firsts = Counter(_first_sizes(*pair) for pair in pairs)
    (sizes, count), *_ = firsts.most_common(1) or [(None, 0)]
    # A single op of another size is no other batch: all layers have that, optimizers do not.
    is_batch = 2 * count > len(pairs) and _LEAST_BATCHED * count >= len(known)
    return sizes if sizes is not None and is_batch else None


def _first_sizes(base: str, new: str) -> tuple[int, int] | None:
    """Return the first sizes of shapes that differ in nothing else, or in multiples of them."""
    sizes = [[int(size) for size in _SIZE.findall(text)] for text in (base, new)]
    if len(sizes[0]) != len(sizes[1]) or not sizes[0] or not min(sizes[0][0], sizes[1][0]):
        return None
    before, after = sizes[0][0], sizes[1][0]
    fits = all(
        size == other or size * after == other * before for size, other in zip(*sizes, strict=True)
    )
    return (before, after) if before != after and fits else None


def _with_time(data: CaptureData) -> list[Op]:
    """Ops that own time of the iterations, in order; others ran before the loop."""
    owned = data.ownership.op[data.ownership.owned_ns.any(axis=0)]
    return [data.ops[op] for op in sorted(set(owned.tolist()) - {-1})]
