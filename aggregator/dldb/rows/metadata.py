"""Rows about the database itself and about the machine that was profiled."""

from __future__ import annotations

from functools import cache

from aggregator.correlate.ranks import communicating_processes, rank_processes
from aggregator.dldb.conversion import conversion_notes
from aggregator.dldb.reader import DB_VERSION
from aggregator.dldb.secrets import masked_command
from aggregator.dldb.writer import Table
from aggregator.frameworks import framework_of
from aggregator.importing.imported import ImportedProfile
from aggregator.options import ImportOptions, Mode
from aggregator.profile.recorded import RecordedProfile
from aggregator.profile.recorded_part import RecordedPart
from aggregator.profile.step_reference import StepReference
from aggregator.texts import say

DISTRIBUTION = "open-dlprof"
NO_OPS = say("Simple mode: the profile has no framework ranges, or they were not asked for.")


@cache
def engine_version() -> str:
    """Return the version of the installed distribution."""
    from importlib import metadata  # noqa: PLC0415 - slow, and an import needs it while it writes

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "0+unknown"


def framework_name(data: ImportedProfile) -> str:
    """Return the framework as recorded, else that of the mode; plain exports hold no versions."""
    if data.profile.system.framework:
        return data.profile.system.framework
    framework = framework_of(Mode(data.mode))
    return framework.title if framework else ""


def metadata_tables(data: ImportedProfile, options: ImportOptions) -> list[Table]:
    """Return the rows for ``dldb_meta`` and ``system_config``."""
    values = _meta(data, options)
    if isinstance(data.profile, RecordedProfile):
        values |= conversion_notes(options.source, data.profile.recorded.version)
    return [
        Table("dldb_meta", {"key": list(values), "value": list(values.values())}),
        _system_config(data, options),
    ]


def _meta(data: ImportedProfile, options: ImportOptions) -> dict[str, str]:
    simple = data.mode == Mode.SIMPLE
    session = data.profile.session
    ranks = rank_processes(data.profile)
    communicates = bool(communicating_processes(data.profile))
    is_part = data.profile.rank is not None or (communicates and len(ranks) == 1)
    return (
        {
            "db_version": DB_VERSION,
            "engine_version": engine_version(),
            "source_file": options.source.name,
            "source_format": data.profile.source_format,
            "mode": data.mode,
            "mode_reason": data.mode_reason,
            "key_node": data.key_node.name,
            "key_node_reason": data.key_node.reason,
            "key_node_confidence": data.key_node_confidence,
            "first_ns": str(data.rollup.first_ns),
            "marked_until_ns": str(data.rollup.marked_until_ns),
            "last_ns": str(data.rollup.last_ns),
            "has_ops": "0" if simple else "1",
            "no_ops_reason": NO_OPS if simple else "",
            "dataloader_measured": "0" if simple else "1",
            "io_measured": "0",
            "has_costs": "1" if data.costs.count else "0",
            "has_memory": "1" if data.recordings else "0",
            "session_start_utc_ns": str(session.start_utc_ns or ""),
            "host_name": session.host_name,
            "rank_count": str(len(ranks)),
            "are_ranks": "1" if data.rollup.are_ranks else "0",
            "is_part_of_job": "1" if is_part else "0",
            "job_rank": "" if data.profile.rank is None else str(data.profile.rank),
            "job_ranks": str(data.profile.job_ranks or ""),
        }
        | _reference(data.profile.reference)
        | _recorded(data.profile.recorded_part)
    )


def _recorded(part: RecordedPart) -> dict[str, str]:
    """Return what of the run was recorded; an empty text is unknown, or the whole run."""
    values = {
        "recorded_windows": len(part.gaps_ns) + 1 if len(part.start_ns) else None,
        "recorded_ns": part.recorded_ns if len(part.start_ns) else None,
        "run_ns": part.run_ns,
        "recorded_steps": part.recorded_steps,
        "run_steps": part.steps,
    }
    texts = {key: "" if value is None else str(value) for key, value in values.items()}
    return texts | {"recorded_note": part.note}


def _reference(found: StepReference) -> dict[str, str]:
    """Return what a step takes without profiling; an empty text is unknown."""
    values = {
        "bare_steps": found.unprofiled.steps,
        "bare_step_ns": found.unprofiled.median_ns,
        "bare_step_p10_ns": found.unprofiled.p10_ns,
        "bare_step_p90_ns": found.unprofiled.p90_ns,
        "profiled_steps": found.profiled.steps,
        "profiled_step_ns": found.profiled.median_ns,
    }
    for name, steps in found.phases.items():
        values |= {f"bare_step_ns.{name}": steps.median_ns, f"bare_steps.{name}": steps.steps}
    texts = {key: "" if value is None else str(value) for key, value in values.items()}
    return texts | {"bare_step_end": found.step_end, "bare_step_reason": found.reason}


def _system_config(data: ImportedProfile, options: ImportOptions) -> Table:
    system = data.profile.system
    return Table(
        "system_config",
        {
            "is_valid": 1,
            "num_gpus": system.gpu_count_text or str(len(data.profile.devices)),
            "cpu_model": system.cpu_model,
            "driver_version": system.driver_version,
            "cuda_version": system.cuda_version,
            "cudnn_version": system.cudnn_version,
            "nsys_version": system.nsys_version,
            "framework": framework_name(data),
            "dlprof_version": f"v{engine_version()}",
            "dlprof_build": "open-dlprof",
            "profile_name": options.profile_name,
            "mode_string": data.mode,
            "original_command": masked_command(options.original_command),
        },
    )
