"""The formula of each operator."""

from __future__ import annotations

from aggregator.costs.formulas import (
    attention,
    collectives,
    convolution,
    layers,
    matrix,
    movement,
    optimizers,
    pointwise,
    serving,
)
from aggregator.costs.formulas.call import UNKNOWN, Cost, Formula, OpCall

_FORMULAS: dict[str, Formula] = {
    **collectives.FORMULAS,
    **movement.FORMULAS,
    **pointwise.FORMULAS,
    **layers.FORMULAS,
    **optimizers.FORMULAS,
    **matrix.FORMULAS,
    **attention.FORMULAS,
    **convolution.FORMULAS,
}

# Functions that only call other operators, which are counted instead of them.
_COMPOSITE = frozenset(
    {"linear", "matmul", "__matmul__", "bilinear", "repeat_interleave", "stack", "hstack", "vstack"}
    | {"clone", "ones", "zeros", "full", "full_like", "argsort", "take_along_dim", "multinomial"}
    | {"norm", "std", "std_mean", "unique", "round_", "dist", "linear_backward"}
)

# Operators that have work of their own besides the fills and copies that they call.
_SHARING = frozenset(
    {"embedding_dense_backward", "nll_loss_backward", "nll_loss2d_backward"}
    | {"_index_put_impl", "index_put", "_embedding_bag_backward", "_embedding_bag_dense_backward"}
)


def formula_of(name: str, full_name: str = "") -> Formula | None:
    """Formula of an operator by its name without namespace; None: no formula.

    Operators of other libraries than PyTorch may have one by the kind that ``full_name`` says.
    """
    found = _FORMULAS.get(name) or _FORMULAS.get(name.removesuffix("_"))
    if found is None and (kind := serving.kind_of(full_name)) is not None:
        return kind.formula
    return found


def is_counted(name: str) -> bool:
    """Whether an operator's range is counted as a whole, including the operators it calls."""
    return name.removesuffix("_") not in _COMPOSITE and formula_of(name) is not None


def is_sharing(name: str) -> bool:
    """Whether operators called by a counted operator may be counted as well."""
    return name.removesuffix("_") in _SHARING


def is_collective(name: str, full_name: str = "") -> bool:
    """Whether an operator moves data between GPUs."""
    kind = serving.kind_of(full_name)
    return name.removesuffix("_") in collectives.FORMULAS or bool(kind and kind.is_collective)


_FAMILIES = {
    **dict.fromkeys(matrix.FORMULAS, serving.GEMM),
    **dict.fromkeys(attention.FORMULAS, serving.ATTENTION),
    **dict.fromkeys(("_grouped_mm", "_scaled_grouped_mm"), serving.EXPERTS),
}


def product_family(name: str, full_name: str) -> str:
    """Family of an operator's products; of nested operators of one the inner is counted."""
    kind = serving.kind_of(full_name)
    return kind.family if kind is not None else _FAMILIES.get(name.removesuffix("_"), "")


def count(call: OpCall) -> Cost:
    """Cost of a call; unknown without a formula or for sizes that do not fit it."""
    formula = formula_of(call.name, call.full_name)
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
"""Operators whose output's sizes do not follow from those of their arguments."""
