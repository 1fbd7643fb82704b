"""The formula of an operator, and which operators stand for what they call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aggregator.flops import (
    attention,
    collectives,
    convolution,
    layers,
    matrix,
    movement,
    optimizers,
    pointwise,
    recurrent,
)
from aggregator.flops.cost import UNKNOWN, Cost, OpCall

if TYPE_CHECKING:
    from collections.abc import Callable

_FORMULAS: dict[str, Callable[[OpCall], Cost]] = {
    **collectives.FORMULAS,
    **movement.FORMULAS,
    **pointwise.FORMULAS,
    **layers.FORMULAS,
    **optimizers.FORMULAS,
    **matrix.FORMULAS,
    **recurrent.FORMULAS,
    **attention.FORMULAS,
    **convolution.FORMULAS,
}

# Public functions that only call others: those are counted, casts and copies beside them too.
_COMPOSITE = frozenset(
    {"linear", "matmul", "__matmul__", "bilinear", "repeat_interleave", "stack", "hstack", "vstack"}
    | {"clone", "ones", "zeros", "full", "full_like", "argsort", "take_along_dim", "multinomial"}
    | {"norm", "std", "std_mean", "unique", "round_", "dist", "linear_backward"}
)

# Operators whose own work lies beside that of the fills and copies that they call.
SHARING = frozenset(
    {"embedding_dense_backward", "nll_loss_backward", "nll_loss2d_backward"}
    | {"_index_put_impl", "index_put", "_embedding_bag_backward", "_embedding_bag_dense_backward"}
)


def formula_of(name: str) -> Callable[[OpCall], Cost] | None:
    """Formula of an operator by its name without namespace; None: there is none."""
    return _FORMULAS.get(name) or _FORMULAS.get(name.removesuffix("_"))


def is_counted(name: str) -> bool:
    """Whether an operator's range is counted as a whole, with what it calls."""
    return name.removesuffix("_") not in _COMPOSITE and formula_of(name) is not None


def is_sharing(name: str) -> bool:
    """Whether what a counted operator calls may be counted beside it."""
    return name.removesuffix("_") in SHARING


def is_collective(name: str) -> bool:
    """Whether an operator moves data between GPUs."""
    return name.removesuffix("_") in collectives.FORMULAS


def count(call: OpCall) -> Cost:
    """Cost of a call; what its shapes do not tell is unknown."""
    formula = formula_of(call.name)
    if formula is None:
        return UNKNOWN
    try:
        return formula(call)
    except (IndexError, ValueError, ZeroDivisionError):  # sizes that no such call can have
        return UNKNOWN


NEEDS_OUTPUT = frozenset(
    {*convolution.FORWARD, "max_pool2d_with_indices", "max_pool3d_with_indices"}
    | {"adaptive_max_pool2d", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d"}
    | {"_adaptive_avg_pool3d", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"}
    | {"upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d", "index_select"}
)
"""Operators whose output's sizes are not in those of their arguments."""
