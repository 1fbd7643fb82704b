"""Phases as rows of the database's tables."""

from __future__ import annotations

import numpy as np

from aggregator.dldb.writer import Table
from aggregator.metrics.phases import IterationPhases, PhaseColumns
from aggregator.profile.arrays import Int64


def phase_ranges(phases: PhaseColumns) -> Table:
    """Return the ranges of phases of a profile."""
    return Table(
        "phase_ranges",
        {
            "id": np.arange(1, len(phases) + 1),
            "phase": [phases.names[code] for code in phases.name.tolist()],
            "process": phases.process + 1,
            "start": phases.start_ns,
            "stop": phases.end_ns,
            "tokens": _known(phases.tokens),
            "sequences": _known(phases.sequences),
        },
    )


def iteration_phases(phases: IterationPhases, aggr: int) -> Table:
    """Return the phases of the iterations that have one."""
    number = np.flatnonzero(phases.name >= 0)
    return Table(
        "iteration_phases",
        {
            "aggr": aggr,
            "iter_value": number,
            "phase": [phases.names[code] for code in phases.name[number].tolist()],
            "tokens": _known(phases.tokens[number]),
            "sequences": _known(phases.sequences[number]),
            "parts": phases.parts[number],
        },
        is_optional=True,
    )


def _known(values: Int64) -> list[int | None]:
    return [value if value >= 0 else None for value in values.tolist()]
