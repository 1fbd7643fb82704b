"""A DLProf database as an imported profile: its own ops, its own verdicts, its own iterations."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from aggregator.correlate.costs import complete_costs, compute_costs
from aggregator.correlate.given import GivenCorrelation, correlate_given_ops
from aggregator.errors import AmbiguousKeyNodeError, KeyNodeNotFoundError, UsageError
from aggregator.given import GivenAggregation, GivenProfile
from aggregator.imported import (
    ImportedProfile,
    KernelNames,
    build_rollup_inputs,
    distinct_kernels,
    memory_launch_order,
)
from aggregator.iterations import (
    KeyNode,
    NamedRanges,
    OpInstancesView,
    boundaries,
    resolve_key_node,
)
from aggregator.options import AggregationRequest, Mode
from aggregator.profile import Int64
from aggregator.progress import Level, Progress
from aggregator.texts import say

ITERATIONS = "DLProf iterations"
"""Range that stands for iterations whose key op DLProf chose itself, or does not name."""


@dataclass
class GivenImport(ImportedProfile):
    """A DLProf database, ready to be stored and aggregated.

    Attributes:
        requests: The rollups that the source holds, as requests, in their order.
    """

    requests: tuple[AggregationRequest, ...] = ()


def correlate_given(profile: GivenProfile, mode: Mode, progress: Progress) -> GivenImport:
    """Join all work to the ops that the source names.

    Raises:
        UsageError: Another mode was asked for than the one that the database was made in.
    """
    progress.phase("correlate", 2)
    progress.message("Correlating network models with kernel and timeline data")
    given = profile.given
    if mode not in (Mode.AUTO, given.mode):
        raise UsageError(
            say(
                "The DLProf database was made in mode {mode}; it cannot be read in mode {wanted}.",
                mode=given.mode,
                wanted=mode,
            ),
            hint=say("Omit --mode, or aggregate the Nsight Systems export."),
        )
    reason = say("as in the database of DLProf {version}", version=given.version)
    progress.message(f"Mode: {given.mode} ({reason})")
    found = correlate_given_ops(profile)
    progress.advance(1)
    imported = _imported(profile, found, reason)
    progress.advance(1)
    counts = ", ".join(f"{count} {kind}" for kind, count in profile.counts().items())
    progress.message(f"Read {counts}; found {len(found.table.ops)} ops", Level.DETAILED)
    return imported


def _imported(profile: GivenProfile, found: GivenCorrelation, reason: str) -> GivenImport:
    order = found.work.kernels.launch_order()
    loop = _Loop(profile, found)
    imported = GivenImport(
        profile=profile,
        mode=profile.given.mode,
        mode_reason=reason,
        meaning=found.meaning,
        work=found.work,
        ops=found.table,
        domains=(),
        kernel_order=order,
        memory_order=memory_launch_order(found.work),
        kernel_names=_kernel_names(profile, order),
        ranges=loop.ranges(),
        key_node=KeyNode(
            loop.default_name(),
            reason if loop.default_name() else say("DLProf found no iterations"),
        ),
        rollups=(),
        costs=complete_costs(
            compute_costs(profile, found.meaning, None, found.work), found.table.op_of_instance
        ),
        requests=loop.requests(),
    )
    aggregations = profile.given.aggregations
    last_ns = aggregations[0].last_ns if aggregations else 0
    imported.rollups = tuple(
        replace(data, last_ns=last_ns or data.last_ns) for data in build_rollup_inputs(imported)
    )
    return imported


def _kernel_names(profile: GivenProfile, order: Int64) -> KernelNames:
    """Distinct kernels; whether one uses Tensor Cores is DLProf's word where it gave one."""
    uses_tc = profile.given.uses_tc
    kernels = profile.kernels
    if uses_tc is None:
        return distinct_kernels(profile, kernels, order)
    width = int(kernels.long_name.max(initial=0)) + 1
    key = kernels.name[order].astype(np.int64) * width + kernels.long_name[order]
    unique, inverse = np.unique(key * 2 + uses_tc[order], return_inverse=True)
    return KernelNames(
        of_kernel=inverse.ravel().astype(np.int32),
        short=(unique // 2 // width).astype(np.int32),
        long=(unique // 2 % width).astype(np.int32),
        verdict=(unique % 2).astype(np.int32),
    )


class _Loop:
    """Iterations as the source cut them.

    Where instances of the op that it names end the same iterations, that op is the key node;
    otherwise the iterations become ranges that can be named.
    """

    def __init__(self, profile: GivenProfile, found: GivenCorrelation) -> None:
        ops, instances = found.table.ops, found.work.instances
        self._aggregations = profile.given.aggregations
        self._view = OpInstancesView(
            op_ids=tuple(op.op_id for op in ops),
            op_names=tuple(op.op_name for op in ops),
            directions=tuple(op.direction for op in ops),
            processes=tuple(op.process for op in ops),
            op=found.table.op_of_instance,
            end_ns=instances.end_ns,
        )
        self._stops: dict[str, tuple[int, ...]] = {}
        self._names = [self._name(aggregation) for aggregation in self._aggregations]

    def default_name(self) -> str:
        """Key node of the first rollup; empty: none."""
        return self._names[0] if self._names else ""

    def ranges(self) -> NamedRanges:
        """Iterations that no op marks, as ranges that end with them."""
        codes = [np.full(len(stops), code) for code, stops in enumerate(self._stops.values())]
        ends = [np.array(stops, dtype=np.int64) for stops in self._stops.values()]
        starts = [np.concatenate([[0], end[:-1]]) for end in ends]
        if not codes:
            return NamedRanges.empty()
        code = np.concatenate(codes).astype(np.int32)
        return NamedRanges(
            name=code,
            names=tuple(self._stops),
            start_ns=np.concatenate(starts).astype(np.int64),
            end_ns=np.concatenate(ends),
            process=np.zeros(len(code), dtype=np.int32),
        )

    def requests(self) -> tuple[AggregationRequest, ...]:
        """The rollups as requests; one over everything as the request without bounds."""
        result = []
        for name, aggregation in zip(self._names, self._aggregations, strict=True):
            last = len(aggregation.stops_ns)
            whole = (aggregation.iter_start, aggregation.iter_stop) == (0, last)
            result.append(
                AggregationRequest(
                    key_node="" if name == self.default_name() else name,
                    iter_start=None if whole else aggregation.iter_start,
                    iter_stop=None if whole else aggregation.iter_stop,
                )
            )
        return tuple(dict.fromkeys(result))

    def _name(self, aggregation: GivenAggregation) -> str:
        if not aggregation.stops_ns:
            return ""
        if aggregation.key_node and self._is_cut_by_op(aggregation):
            return aggregation.key_node
        base = aggregation.key_node or ITERATIONS
        if base in self._view.op_ids or base in self._view.op_names:
            base = f"{base} ({ITERATIONS})"
        name, number = base, 1
        while self._stops.setdefault(name, aggregation.stops_ns) != aggregation.stops_ns:
            number += 1
            name = f"{base} {number}"
        return name

    def _is_cut_by_op(self, aggregation: GivenAggregation) -> bool:
        try:
            found = resolve_key_node(aggregation.key_node, self._view, NamedRanges.empty())
        except (KeyNodeNotFoundError, AmbiguousKeyNodeError):
            return False
        stops = np.unique(boundaries(found.stops_ns))
        stops = stops[(stops > 0) & (stops < aggregation.last_ns)]
        return tuple(stops.tolist()) == aggregation.stops_ns
