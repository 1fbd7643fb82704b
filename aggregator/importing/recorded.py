"""A DLProf database as an imported profile: its own ops, its own verdicts, its own iterations."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from aggregator.correlate.recorded import RecordedCorrelation, correlate_recorded_ops
from aggregator.costs.instance_costs import complete_costs, compute_costs
from aggregator.errors import AmbiguousKeyNodeError, KeyNodeNotFoundError, UsageError
from aggregator.importing.imported import ImportedProfile, KernelNames, op_columns
from aggregator.importing.rollup_inputs import rollup_inputs
from aggregator.metrics.iterations import KeyNode, NamedRanges, OpInstancesView, resolve_key_node
from aggregator.metrics.window import split_into_iterations
from aggregator.options import AggregationRequest, Mode
from aggregator.profile.recorded import RecordedAggregation, RecordedProfile
from aggregator.system.progress import Level, Progress
from aggregator.texts import say

ITERATIONS = "DLProf iterations"
"""Range that stands for iterations whose key op DLProf chose itself, or does not name."""


@dataclass
class RecordedImport(ImportedProfile):
    """A DLProf database, ready to be stored and aggregated."""

    profile: RecordedProfile  # The database.
    # The rollups that the source holds, as requests, in their order.
    requests: tuple[AggregationRequest, ...] = ()

    def distinct_kernels(self) -> KernelNames:
        """Find the distinct kernels; use of Tensor Cores as recorded by DLProf, if it was."""
        uses_tc = self.profile.recorded.uses_tc
        return super().distinct_kernels() if uses_tc is None else self.kernels_by(uses_tc)[0]


def correlate_recorded(profile: RecordedProfile, mode: Mode, progress: Progress) -> RecordedImport:
    """Join all work to the ops that the source names.

    Raises:
        UsageError: ``mode`` is not the one that the database was made in.
    """
    progress.phase("correlate", 2)
    progress.message("Correlating network models with kernel and timeline data")
    recorded = profile.recorded
    if mode not in (Mode.AUTO, recorded.mode):
        raise UsageError(
            say(
                "The DLProf database was made in mode {mode}; it cannot be read in mode {wanted}.",
                mode=recorded.mode,
                wanted=mode,
            ),
            hint=say("Omit --mode, or aggregate the Nsight Systems export."),
        )
    reason = say("as in the database of DLProf {version}", version=recorded.version)
    progress.message(f"Mode: {recorded.mode} ({reason})")
    found = correlate_recorded_ops(profile)
    progress.advance(1)
    imported = _imported(profile, found, reason)
    progress.advance(1)
    counts = ", ".join(f"{count} {kind}" for kind, count in profile.counts().items())
    progress.message(f"Read {counts}; found {len(found.table.ops)} ops", Level.DETAILED)
    return imported


def _imported(profile: RecordedProfile, found: RecordedCorrelation, reason: str) -> RecordedImport:
    iterations = _RecordedIterations(profile, found)
    name = iterations.default_name()
    costs = compute_costs(profile, found.meaning, None, found.work)
    imported = RecordedImport(
        profile=profile,
        mode=profile.recorded.mode,
        mode_reason=reason,
        meaning=found.meaning,
        work=found.work,
        ops=found.table,
        ranges=iterations.ranges(),
        key_node=KeyNode(name, reason if name else say("DLProf found no iterations")),
        costs=complete_costs(costs, found.table, profile.kernels, found.work.kernels.instance),
        requests=iterations.requests(),
    )
    aggregations = profile.recorded.aggregations
    last_ns = aggregations[0].last_ns if aggregations else 0
    imported.rollups = tuple(
        replace(data, last_ns=last_ns or data.last_ns) for data in rollup_inputs(imported)
    )
    return imported


class _RecordedIterations:
    """Iterations as the source cut them.

    Where instances of the op that it names end the same iterations, that op is the key node;
    otherwise the iterations become ranges that can be named.
    """

    def __init__(self, profile: RecordedProfile, found: RecordedCorrelation) -> None:
        ops, instances = found.table.ops, found.work.instances
        self._aggregations = profile.recorded.aggregations
        self._view = OpInstancesView(
            op_columns(ops, np.zeros(len(ops), dtype=np.int64)),
            op=found.table.op_of_instance,
            end_ns=instances.end_ns,
        )
        self._stops: dict[str, tuple[int, ...]] = {}
        self._names = [self._name(aggregation) for aggregation in self._aggregations]

    def default_name(self) -> str:
        """Return the key node of the first rollup, or an empty text if there is none."""
        return self._names[0] if self._names else ""

    def ranges(self) -> NamedRanges:
        """Return the iterations that no op marks, as ranges that end with them."""
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
        """Return the rollups as requests; one over everything as the request without bounds."""
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

    def _name(self, aggregation: RecordedAggregation) -> str:
        if not aggregation.stops_ns:
            return ""
        if aggregation.key_node and self._is_cut_by_op(aggregation):
            return aggregation.key_node
        base = aggregation.key_node or ITERATIONS
        if base in self._view.ops.op_ids or base in self._view.ops.names:
            base = f"{base} ({ITERATIONS})"
        name, number = base, 1
        while self._stops.setdefault(name, aggregation.stops_ns) != aggregation.stops_ns:
            number += 1
            name = f"{base} {number}"
        return name

    def _is_cut_by_op(self, aggregation: RecordedAggregation) -> bool:
        try:
            found = resolve_key_node(aggregation.key_node, self._view, NamedRanges.empty())
        except (KeyNodeNotFoundError, AmbiguousKeyNodeError):
            return False
        stops = split_into_iterations(found, aggregation.last_ns).end_ns[:-1]
        return tuple(stops.tolist()) == aggregation.stops_ns
