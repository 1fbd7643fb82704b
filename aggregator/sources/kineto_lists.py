"""Sizes of an optimizer's lists of tensors, which PyTorch leaves out of a trace when they are long.

An optimizer works on the parameters that got gradients, and every ``AccumulateGrad`` before it
tells the sizes of one. Whether that holds for a call is checked with its kernels: a
``multi_tensor_apply_kernel`` takes a block for each 65,536 elements of each tensor, and the blocks
of a call have to be exactly those of the sizes. Otherwise they stay unknown.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from aggregator.profile import Int64
    from aggregator.sources.kineto_arguments import Shapes
    from aggregator.sources.kineto_events import Columns, TraceEvents

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
        """All parameters, matrices, the rest: how parameters are usually grouped."""
        matrices = [size for size in self.sizes if len(size) > 1]
        rest = [size for size in self.sizes if len(size) <= 1]
        return [self.sizes, matrices, rest]


def complete_lists(events: TraceEvents, shapes: list[Shapes]) -> list[Shapes]:
    """Shapes with those of the lists behind them; the column of the ranges gets their codes.

    Args:
        events: The events; codes of ``shapes`` in their ranges are changed.
        shapes: What ``shapes`` of the ranges index.
    """
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
    """The shapes with the lists that need exactly so many blocks; None: there are none."""
    for sizes in batch.choices():
        if sizes and sum(-(-prod(size) // CHUNK_ELEMENTS) for size in sizes) == blocks:
            parts = [sizes if part is None else part for part in shape.lists]
            text = json.dumps([size for part in parts for size in part])
            return shape._replace(text=text, lists=())
    return None


class _Batches:
    """Gradients between the calls that take lists.

    Args:
        events: The events.
        shapes: What ``shapes`` of the ranges index.
        call_starts: Starts of the calls, in order.
    """

    def __init__(self, events: TraceEvents, shapes: list[Shapes], call_starts: Int64) -> None:
        ranges = events.tables["ranges"]
        names = events.names.values()
        is_gradient = np.array([name.endswith(f"::{_GRADIENT}") for name in names], dtype=bool)
        told = np.array([bool(shape.text) for shape in shapes], dtype=bool)
        rows = np.flatnonzero(is_gradient[ranges["name"]] & told[ranges["shapes"]])
        rows = rows[np.argsort(ranges["start"][rows], kind="stable")]
        self._shapes = shapes
        self._codes = ranges["shapes"][rows].astype(np.int64)
        self._group = np.searchsorted(call_starts, ranges["start"][rows])
        self._groups = np.unique(self._group)
        self._batches: dict[int, _Batch] = {}

    def before(self, number: int) -> _Batch | None:
        """The gradients last told before a call, or the first of all; None: there are none."""
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
    """Of gradients added up over several backward passes, those of one."""
    for passes in range(min(_MAX_PERIODS, len(codes)), 1, -1):
        length, rest = divmod(len(codes), passes)
        if not rest and np.array_equal(codes, np.tile(codes[:length], passes)):
            # Two parameters of one size are no two passes over one.
            return codes[:length] if length > 1 else codes
    return codes


def _blocks(events: TraceEvents, ranges: Columns, rows: Int64) -> Int64:
    """Blocks of the kernels over lists that each call launched."""
    api, kernels = events.tables["api"], events.tables["kernels"]
    names = events.work_names.values()
    chosen = np.flatnonzero(np.array([_KERNEL in name for name in names])[kernels["name"]])
    if not len(chosen) or not len(api["start"]):
        return np.zeros(len(rows), dtype=np.int64)
    order = np.argsort(api["correlation"], kind="stable")
    wanted = kernels["correlation"][chosen]
    at = np.minimum(np.searchsorted(api["correlation"][order], wanted), len(order) - 1)
    call = order[at]
    matched = api["correlation"][call] == wanted
    call, grid = call[matched], kernels["grid"][chosen[matched], 0].astype(np.int64)
    first = int(min(api["start"].min(), ranges["start"].min()))
    width = int(max(api["start"].max(), ranges["end"].max())) - first + 1
    key = api["lane"][call].astype(np.int64) * width + (api["start"][call] - first)
    order = np.argsort(key, kind="stable")
    total = np.concatenate([[0], np.cumsum(grid[order])])
    lane = ranges["lane"][rows].astype(np.int64) * width - first
    stops = np.searchsorted(key[order], lane + ranges["end"][rows])
    result: Int64 = total[stops] - total[np.searchsorted(key[order], lane + ranges["start"][rows])]
    return result
