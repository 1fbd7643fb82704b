"""Sizes of an optimizer's lists of tensors, which PyTorch leaves out of a trace if they are long.

An optimizer updates the parameters that have gradients, and each ``AccumulateGrad`` before it has
the sizes of one. They are checked with the call's kernels: ``multi_tensor_apply_kernel`` runs one
block for each 65,536 elements of each tensor, so the number of blocks of the call must be that of
the sizes. Otherwise the sizes stay unknown.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from aggregator.profile.arrays import rows_of

if TYPE_CHECKING:
    from aggregator.profile.arrays import Int64
    from aggregator.sources.kineto.arguments import Shapes
    from aggregator.sources.kineto.events import Columns, TraceEvents

CHUNK_ELEMENTS: Final = 65536
"""``kChunkSize`` of PyTorch's ``ForeachFunctors.cuh`` and of its fused optimizers."""
_KERNEL: Final = "multi_tensor_apply_kernel"
_GRADIENT: Final = "AccumulateGrad"
_MAX_PERIODS: Final = 64

Sizes = list[list[int]]


@dataclass(frozen=True)
class _Batch:
    """Gradients of one backward pass, in the order of the parameters."""

    sizes: Sizes
    key: bytes

    def choices(self) -> list[Sizes]:
        """Return all parameters, matrices only, or the others only: the usual parameter groups."""
        matrices = [size for size in self.sizes if len(size) > 1]
        others = [size for size in self.sizes if len(size) <= 1]
        return [self.sizes, matrices, others]


def complete_lists(events: TraceEvents, shapes: list[Shapes]) -> list[Shapes]:
    """Append shapes with the sizes of lists; the ranges get the codes of these shapes."""
    ranges = events.tables["ranges"]
    left_out = np.array([bool(shape.lists) for shape in shapes], dtype=bool)
    if not left_out.any():
        return shapes
    rows = np.flatnonzero(left_out[ranges["shapes"]])
    rows = rows[np.argsort(ranges["start"][rows], kind="stable")]
    batches = _Batches(events, shapes, ranges["start"][rows])
    blocks = _blocks(events, ranges, rows)
    known = list(shapes)
    code_of: dict[tuple[int, bytes, int], int] = {}
    for number, (row, count) in enumerate(zip(rows.tolist(), blocks.tolist(), strict=True)):
        batch = batches.before(number) if count else None
        if batch is None:
            continue
        code = int(ranges["shapes"][row])
        key = (code, batch.key, count)
        if key not in code_of:
            filled = _filled(shapes[code], batch, count)
            code_of[key] = len(known) if filled else code
            known += [filled] if filled else []
        ranges["shapes"][row] = code_of[key]
    return known


def _filled(shape: Shapes, batch: _Batch, blocks: int) -> Shapes | None:
    """Return shapes with the lists that need exactly this number of blocks; None: no such lists."""
    for sizes in batch.choices():
        if sizes and sum(-(-prod(size) // CHUNK_ELEMENTS) for size in sizes) == blocks:
            parts = [sizes if part is None else part for part in shape.lists]
            text = json.dumps([size for part in parts for size in part])
            return shape._replace(text=text, element_types="", lists=())
    return None


class _Batches:
    """Gradients between calls with lists of tensors, whose starts are given in order."""

    def __init__(self, events: TraceEvents, shapes: list[Shapes], call_starts: Int64) -> None:
        ranges = events.tables["ranges"]
        names = events.names.values()
        is_gradient = np.array([name.endswith(f"::{_GRADIENT}") for name in names], dtype=bool)
        has_sizes = np.array([bool(shape.text) for shape in shapes], dtype=bool)
        rows = np.flatnonzero(is_gradient[ranges["name"]] & has_sizes[ranges["shapes"]])
        rows = rows[np.argsort(ranges["start"][rows], kind="stable")]
        self._shapes = shapes
        self._codes = ranges["shapes"][rows].astype(np.int64)
        self._group = np.searchsorted(call_starts, ranges["start"][rows])
        self._groups = np.unique(self._group)
        self._batches: dict[int, _Batch] = {}

    def before(self, number: int) -> _Batch | None:
        """The last gradients before a call, or the first of all; None: no gradients."""
        if not len(self._groups):
            return None
        at = max(int(np.searchsorted(self._groups, number, side="right")) - 1, 0)
        group = int(self._groups[at])
        if group not in self._batches:
            self._batches[group] = self._batch(self._codes[self._group == group])
        return self._batches[group]

    def _batch(self, codes: Int64) -> _Batch:
        codes = _once(codes)[::-1]
        sizes = [size for code in codes.tolist() for size in json.loads(self._shapes[code].text)]
        return _Batch(sizes, codes.tobytes())


def _once(codes: Int64) -> Int64:
    """Return the gradients of one backward pass, if they were accumulated over several."""
    for passes in range(min(_MAX_PERIODS, len(codes)), 1, -1):
        length, rest = divmod(len(codes), passes)
        if not rest and np.array_equal(codes, np.tile(codes[:length], passes)):
            # Two parameters of the same size are not two passes over one parameter.
            return codes[:length] if length > 1 else codes
    return codes


def _blocks(events: TraceEvents, ranges: Columns, rows: Int64) -> Int64:
    """Return the blocks of the ``multi_tensor_apply_kernel`` kernels that each call launched."""
    api, kernels = events.tables["api"], events.tables["kernels"]
    names = events.work_names.values()
    chosen = np.flatnonzero(np.array([_KERNEL in name for name in names])[kernels["name"]])
    if not len(chosen) or not len(api["start"]):
        return np.zeros(len(rows), dtype=np.int64)
    call = rows_of(api["correlation"], kernels["correlation"][chosen])
    grid = kernels["grid"][chosen[call >= 0], 0].astype(np.int64)
    call = call[call >= 0]
    first = int(min(api["start"].min(), ranges["start"].min()))
    width = int(max(api["start"].max(), ranges["end"].max())) - first + 1
    key = api["lane"][call].astype(np.int64) * width + (api["start"][call] - first)
    order = np.argsort(key, kind="stable")
    total = np.concatenate([[0], np.cumsum(grid[order])])
    lane = ranges["lane"][rows].astype(np.int64) * width - first
    stops = np.searchsorted(key[order], lane + ranges["end"][rows])
    result: Int64 = total[stops] - total[np.searchsorted(key[order], lane + ranges["start"][rows])]
    return result
