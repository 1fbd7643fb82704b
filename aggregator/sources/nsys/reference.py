"""Times of steps that ``dlprof`` measured with and without profiling, from its own export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aggregator.errors import CorruptProfileError
from aggregator.profile.step_reference import GPU_SLOWED, LEAST_STEPS, StepReference, step_reference
from aggregator.sources.nsys import schema as names

if TYPE_CHECKING:
    from aggregator.sources.nsys.gpu_speed import GpuSpeed
    from aggregator.sources.nsys.schema import Schema

COLUMNS: Final = ("pid", "rank", "stepEnd", "phase", "number", "hostNs", "gpuNs")
"""Times: between the ends of two steps, by the host's clock and by CUDA events. Unit: ns."""
WORK: Final = "work"
"""Phase of a bare step: ``prefill`` or ``decode``; empty: none. Older exports do not have it."""
END: Final = "endUtcNs"
"""End of a step since 1970; NULL: unknown. Older exports do not have it. Unit: ns."""
NOTE: Final = "stepTimes"
PHASES: Final = (UNPROFILED := "bare", PROFILED := "profiled", MARKED := "marked")
"""Steps before the collection; profiled ones without markers; profiled ones with markers."""
_MAX_ROWS: Final = 1_000_000
_MAX_NS: Final = 1 << 53


def read_reference(schema: Schema, speed: GpuSpeed) -> StepReference:
    """Return the reference of the process that ran most steps without profiling, rank 0 first.

    Steps while the hardware slowed the GPU down do not count.
    """
    if not set(COLUMNS) <= schema.columns(names.STEP_TIMES):
        return StepReference()
    try:
        rows, code = _rows(schema), _note(schema)
    except CorruptProfileError:
        # The profile is complete without these times.
        return StepReference()
    unprofiled: dict[object, list[int]] = {}
    phases: dict[object, list[str]] = {}
    profiled: dict[object, list[int]] = {}
    marked: dict[object, list[int]] = {}
    about: dict[object, tuple[int, str]] = {}
    slowed = speed.is_slowed([row[7] or 0 for row in rows], [row[5] for row in rows]).tolist()
    left_out: set[object] = set()
    for is_slowed, (pid, rank, step_end, phase, gpu_ns, host_ns, of_phase, _) in zip(
        slowed, rows, strict=True
    ):
        about[pid] = (rank if isinstance(rank, int) else -1, str(step_end or ""))
        if is_slowed:
            left_out.add(pid)
        elif phase == UNPROFILED:
            unprofiled.setdefault(pid, []).append(gpu_ns)
            phases.setdefault(pid, []).append(str(of_phase or ""))
        elif phase in (PROFILED, MARKED):
            steps = profiled if phase == PROFILED else marked
            steps.setdefault(pid, []).append(host_ns)
    if not about:
        return step_reference((), (), "", code)
    best = min(about, key=lambda pid: (about[pid][0], -len(unprofiled.get(pid, ())), str(pid)))
    times_ns = profiled.get(best, [])
    if len(times_ns) < LEAST_STEPS:
        times_ns = [*times_ns, *marked.get(best, ())]
    code = code or (GPU_SLOWED if best in left_out else "")
    step_end, of_phases = about[best][1], phases.get(best, ())
    return step_reference(unprofiled.get(best, ()), times_ns, step_end, code, of_phases)


def _rows(schema: Schema) -> list[tuple[Any, ...]]:
    columns = schema.columns(names.STEP_TIMES)
    work = WORK if WORK in columns else "''"
    end = f'CAST("{END}" AS INTEGER)' if END in columns else "NULL"
    query = (
        f'SELECT pid, rank, "stepEnd", phase, coalesce("gpuNs", "hostNs"), "hostNs", {work}, {end}'
        f" FROM {schema.table(names.STEP_TIMES)}"
        " WHERE typeof(\"hostNs\") = 'integer' AND typeof(coalesce(\"gpuNs\", 0)) = 'integer'"
        f' AND "hostNs" BETWEEN 0 AND {_MAX_NS} AND coalesce("gpuNs", 0) BETWEEN 0 AND {_MAX_NS}'
        f" ORDER BY pid, phase, number LIMIT {_MAX_ROWS}"
    )
    with schema.connect() as connection:
        return connection.execute(query).fetchall()


def _note(schema: Schema) -> str:
    """Return the code of the reason why steps are missing; empty if there is none."""
    if not {"name", "value"} <= schema.columns(names.CAPTURE_NOTES):
        return ""
    with schema.connect() as connection:
        query = f"SELECT value FROM {schema.table(names.CAPTURE_NOTES)} WHERE name = ?"
        row = connection.execute(query, (NOTE,)).fetchone()
    return str(row[0] or "") if row else ""
