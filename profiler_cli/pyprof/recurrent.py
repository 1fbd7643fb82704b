"""Kernels of LSTM and GRU cells that PyTorch runs as products and a pointwise part."""

from __future__ import annotations

import re
from typing import NamedTuple

from profiler_cli.pyprof.calls import (
    Args,
    Kernel,
    OpCost,
    item_size,
    parameters,
    require_consistent,
)

GATES = {"LSTMCell": 4, "GRUCell": 3, "RNNCell": 1}
_TILE = re.compile(r"_(\d+)x(\d+)_")


class _Product(NamedTuple):
    """A product of a cell, with the layer's input or with the state."""

    what: str
    m: int
    n: int
    k: int


def cost(cell: str, args: Args, kernel: Kernel) -> OpCost:
    """Return a kernel of a cell that runs as several kernels."""
    (batch, inputs), (again, hidden) = args[0]["shape"], args[1]["shape"]
    require_consistent(fits=batch == again)
    dtype = args[0]["dtype"]
    tc = str(kernel.tensor_cores) if "gemm" in kernel.name else "-"
    rows = GATES[cell] * hidden
    if kernel.is_forward and kernel.sub % 3 == 2:
        part: _Product | int | None = 2 * rows * batch + 3 * hidden * batch
    elif kernel.is_forward:
        what, inner = ("layer", inputs) if kernel.sub % 3 == 0 else ("recur", hidden)
        part = _Product(what, rows, batch, inner)
    else:
        part = _backward_product(kernel, {hidden: "recur", inputs: "layer"}, rows, batch)
    if isinstance(part, _Product):
        names = {"gemm": part.what, "M": part.m, "N": part.n, "K": part.k, "type": dtype}
        moved = (part.m * part.k + part.k * part.n + part.m * part.n) * item_size(dtype)
        return OpCost("forward", parameters(names), tc, 2 * part.m * part.n * part.k, moved)
    shown = {"cell": cell, "X": inputs, "H": hidden, "B": batch, "type": dtype}
    if part is None:
        return OpCost("forward", parameters(shown), tc, None, None)
    moved = part * item_size(dtype)
    return OpCost("forward", parameters(shown), tc, 9 * hidden * batch, moved)


def _backward_product(
    kernel: Kernel, names: dict[int, str], rows: int, batch: int
) -> _Product | None:
    """Find a product by its rows, which follow from its tile and grid, among the four.

    ``names`` are those of the products by the rows, ``rows`` those of the weight matrices.
    """
    tile = _TILE.search(kernel.name)
    if "gemm" not in kernel.name or tile is None:
        return None
    blocks = [int(number) for number in kernel.grid.split(",")]
    m, n = int(tile[1]) * blocks[0], int(tile[2]) * blocks[1]
    what = names.get(m)
    if what is not None and kernel.name.endswith("_nn"):  # gradient of the state or of the input
        return _Product(what, m, batch if what == "recur" else n, rows)
    return _Product(what, m, n, batch) if what and kernel.name.endswith("_nt") else None
