"""Kernels of LSTM and GRU cells that PyTorch runs as products and a pointwise part."""

from __future__ import annotations

import re
from dataclasses import dataclass

GATES = {"LSTMCell": 4, "GRUCell": 3, "RNNCell": 1}
_TILE = re.compile(r"_(\d+)x(\d+)_")


@dataclass(frozen=True)
class CellSizes:
    """Sizes of a cell."""

    cell: str
    inputs: int
    hidden: int
    batch: int

    @property
    def gate_rows(self) -> int:
        """Rows of its weight matrices."""
        return GATES[self.cell] * self.hidden


@dataclass(frozen=True)
class Product:
    """A product of a cell: of the layer's input or of the state."""

    what: str
    m: int
    n: int
    k: int


def part_of(
    sizes: CellSizes, name: str, grid: str, sub: int, *, forward: bool
) -> Product | int | None:
    """What a kernel computes: a product, so many elements moved, or unknown.

    Forward the three kernels of a cell follow one another. Backward only a product's tile and grid
    tell its rows, and so which of the four it is.
    """
    if forward:
        return _forward_part(sizes, sub)
    tile = _TILE.search(name)
    if "gemm" not in name or tile is None:
        return None
    blocks = [int(number) for number in grid.split(",")]
    m, n = int(tile[1]) * blocks[0], int(tile[2]) * blocks[1]
    what = {sizes.hidden: "recur", sizes.inputs: "layer"}.get(m)
    if what is not None and name.endswith("_nn"):  # gradient of the state or of the input
        return Product(what, m, sizes.batch if what == "recur" else n, sizes.gate_rows)
    return Product(what, m, n, sizes.batch) if what and name.endswith("_nt") else None


def _forward_part(sizes: CellSizes, sub: int) -> Product | int:
    rows = sizes.gate_rows
    if sub % 3 == 2:
        return 2 * rows * sizes.batch + 3 * sizes.hidden * sizes.batch
    what, inner = ("layer", sizes.inputs) if sub % 3 == 0 else ("recur", sizes.hidden)
    return Product(what, rows, sizes.batch, inner)
