"""Collectives: bytes of the message, as ``torch.distributed`` was given it.

The size is the one that NCCL's own tests divide by time for the *algorithm bandwidth*: the buffer
of a reduction or broadcast, the whole result of an all-gather, the whole input of a
reduce-scatter. How many bytes cross which link, and how many additions a GPU makes, depends on the
number of ranks and on NCCL's choice, which a profile of one of them does not tell: unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aggregator.flops.cost import UNKNOWN, Cost, OpCall, elements

if TYPE_CHECKING:
    from collections.abc import Callable


def _largest(call: OpCall) -> Cost:
    """The larger side: ``_allgather_base_(all, own)``, ``_reduce_scatter_base_(own, all)``."""
    if not call.tensors:
        return UNKNOWN
    return Cost(None, call.traffic(max(map(elements, call.tensors)), 0))


def _all(call: OpCall) -> Cost:
    """Lists of buffers that are sent in place: ``allreduce_([a, b, ...])``."""
    if not call.tensors:
        return UNKNOWN
    return Cost(None, call.traffic(sum(map(elements, call.tensors)), 0))


def _gathered(call: OpCall) -> Cost:
    """``allgather_([[of rank 0, of rank 1, ...]], [own])``: the parts, without the own one."""
    parts = call.tensors[:-1]
    if not parts:
        return UNKNOWN
    return Cost(None, call.traffic(sum(map(elements, parts)), 0))


def _scattered(call: OpCall) -> Cost:
    """``reduce_scatter_([own], [[for rank 0, for rank 1, ...]])``."""
    parts = call.tensors[1:]
    if not parts:
        return UNKNOWN
    return Cost(None, call.traffic(sum(map(elements, parts)), 0))


FORMULAS: dict[str, Callable[[OpCall], Cost]] = {
    **dict.fromkeys(
        ("allreduce", "broadcast", "reduce", "send", "recv", "allreduce_coalesced", "all_reduce"),
        _all,
    ),
    **dict.fromkeys(("_allgather_base", "_reduce_scatter_base", "alltoall_base"), _largest),
    **dict.fromkeys(
        ("all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single"), _largest
    ),
    "allgather": _gathered,
    "reduce_scatter": _scattered,
}
"""By name without namespace and trailing underscore: ``c10d`` and ``_c10d_functional``."""
