"""Collectives: bytes of the message passed to ``torch.distributed``.

The size is the one that NCCL's own tests divide by time for the *algorithm bandwidth*: the buffer
of a reduction or broadcast, the whole result of an all-gather, the whole input of a
reduce-scatter. The bytes on each link and the additions of each GPU depend on the number of ranks
and on the algorithm that NCCL selects, which a profile of one rank does not record: unknown.
"""

from __future__ import annotations

from collections.abc import Callable

from aggregator.costs.formulas.call import UNKNOWN, Cost, Formula, OpCall, elements, named


def _message(sizes: Callable[[list[int]], list[int]]) -> Formula:
    """Bytes of the tensors whose elements ``sizes`` selects."""

    def count(call: OpCall) -> Cost:
        chosen = sizes([elements(shape) for shape in call.tensors])
        return Cost(None, call.traffic(sum(chosen), 0)) if chosen else UNKNOWN

    return count


_ALL = _message(lambda sizes: sizes)
"""Lists of buffers that are sent in place: ``allreduce_([a, b, ...])``."""
_LARGEST = _message(lambda sizes: [max(sizes)] if sizes else [])
"""The larger side: ``_allgather_base_(all, own)``, ``_reduce_scatter_base_(own, all)``."""

FORMULAS: dict[str, Formula] = {
    **named("allreduce broadcast reduce send recv allreduce_coalesced all_reduce", _ALL),
    **named("_allgather_base _reduce_scatter_base alltoall_base", _LARGEST),
    **named("all_gather_into_tensor reduce_scatter_tensor all_to_all_single", _LARGEST),
    # ``allgather_([[of rank 0, of rank 1, ...]], [own])``: without the own tensor.
    "allgather": _message(lambda sizes: sizes[:-1]),
    # ``reduce_scatter_([own], [[for rank 0, for rank 1, ...]])``.
    "reduce_scatter": _message(lambda sizes: sizes[1:]),
}
"""By name without namespace and trailing underscore: ``c10d`` and ``_c10d_functional``."""
