"""Optimizers' work on whole lists of tensors: ``_foreach_*`` and ``_fused_*``.

The sizes of all lists are recorded one after another: ``_foreach_add_(a, b)`` has twice as many as
``_foreach_add_(a, 2)``. PyProf knew only apex's FusedAdam and counted no operations for it.
"""

from __future__ import annotations

from aggregator.costs.formulas.call import UNKNOWN, Cost, Formula, OpCall, elements
from aggregator.costs.formulas.pointwise import SERIES

_ONE_LIST = frozenset(
    {"neg", "abs", "sign", "reciprocal", "ceil", "floor", "round", "sqrt", "rsqrt", "exp", "log"}
    | {"tanh", "sigmoid", "expm1", "log1p", "norm", "max", "zero"}
)
_LISTS = {"addcmul": (3,), "addcdiv": (3,), "copy": (2,), "lerp": (3, 2)}
_FUSED_LISTS = {"adam": (4, 5), "adamw": (4, 5), "sgd": (3, 2), "adagrad": (3,)}
"""Possible numbers of lists of an operator; the first that fits the sizes is used."""


def _lists(call: OpCall) -> tuple[int, int]:
    """Elements of one list, and the number of lists that are read.

    Models have many parameters of one size, so sizes alone do not separate the lists: the kernels'
    names contain the number of lists, including the one that is written if it is another.
    """
    tensors = call.tensors
    if not tensors:
        return sum(1 for _ in call.shapes), 1
    for count in _possible(call):
        length, rest = divmod(len(tensors), count)
        if not rest and length and tensors == tensors[:length] * count:
            return sum(map(elements, tensors[:length])), count
    return sum(map(elements, tensors)), 1


def _possible(call: OpCall) -> tuple[int, ...]:
    name = call.name
    kind = name.removesuffix("_").removeprefix("_foreach_").removeprefix("_fused_")
    if call.lists:
        in_place = name.endswith("_") or kind in ("norm", "max") or name.startswith("_fused")
        return (call.lists if in_place else max(call.lists - 1, 1),)
    if name.startswith("_fused"):
        return _FUSED_LISTS.get(kind, (1,))
    if kind in _ONE_LIST:
        return (1,)
    scalars = sum(1 for shape in call.shapes if not shape)
    # A second list replaces the scalar; "add" and "sub" have a factor as well.
    return _LISTS.get(kind, (2, 1) if kind in ("add", "sub") or not scalars else (1,))


def _foreach(operations: int, read: int = 1, written: int = 1) -> Formula:
    """Operations per element of a list; ``read`` or ``written`` is 0 for no element at all."""

    def count(call: OpCall) -> Cost:
        size, lists = _lists(call)
        return Cost(operations * size, call.traffic(read * lists * size, written * size))

    return count


def _foreach_copy(call: OpCall) -> Cost:
    """Two lists, destination and source."""
    size, lists = _lists(call)
    return Cost(0, call.traffic((lists - 1) * size, size)) if lists > 1 else UNKNOWN


def _fused(operations: int, read: int, kept: int) -> Formula:
    """A fused optimizer: ``read`` lists are read; parameters and ``kept`` moments are written."""

    def count(call: OpCall) -> Cost:
        size, lists = _lists(call)
        if lists < read:
            return UNKNOWN
        return Cost(operations * size, call.traffic(lists * size, (1 + kept + lists - read) * size))

    return count


_ONE = (
    "add sub mul div neg abs sign maximum minimum clamp_max clamp_min reciprocal ceil floor round"
)
_SERIES = "sqrt rsqrt exp log pow tanh sigmoid expm1 log1p"
# Two moments: weight decay 2, first moment 3, second 4, bias corrections 4, update 3, and a root.
_ADAM = _fused(16 + SERIES, read=4, kept=2)

FORMULAS: dict[str, Formula] = {
    **{f"_foreach_{name}": _foreach(1) for name in _ONE.split()},
    **{f"_foreach_{name}": _foreach(SERIES) for name in _SERIES.split()},
    **{f"_foreach_{name}": _foreach(3) for name in ("addcmul", "addcdiv", "lerp")},
    "_foreach_norm": _foreach(2, written=0),
    "_foreach_max": _foreach(1, written=0),
    "_foreach_copy": _foreach_copy,
    "_foreach_zero": _foreach(0, read=0),
    "_fused_adam": _ADAM,
    "_fused_adamw": _ADAM,
    "_fused_sgd": _fused(6, read=2, kept=0),
    "_fused_adagrad": _fused(6 + SERIES, read=3, kept=1),
    "_amp_foreach_non_finite_check_and_unscale": _foreach(2),
    "_amp_update_scale": lambda call: Cost(3, 12),
}
"""By name without a trailing underscore."""
