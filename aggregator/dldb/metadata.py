"""What a database says about itself and about the machine that was profiled."""

from __future__ import annotations

from importlib import metadata

from aggregator.dldb.rank_rows import main_devices
from aggregator.dldb.secrets import masked_command
from aggregator.dldb.versions import DB_VERSION
from aggregator.dldb.writer import Table
from aggregator.frameworks import framework_of
from aggregator.imported import ImportedProfile
from aggregator.options import ImportOptions, Mode
from aggregator.texts import say

DISTRIBUTION = "open-dlprof"
NO_OPS = say("Simple mode: the profile has no framework ranges, or they were not asked for.")


def engine_version() -> str:
    """Version of the installed distribution."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "0+unknown"


def framework_name(data: ImportedProfile) -> str:
    """Framework as recorded, else what the mode tells; versions are not in plain exports."""
    if data.profile.system.framework:
        return data.profile.system.framework
    framework = framework_of(Mode(data.mode))
    return framework.title if framework else ""


def metadata_tables(data: ImportedProfile, options: ImportOptions) -> list[Table]:
    """Rows for ``dldb_meta`` and ``system_config``."""
    values = _meta(data, options)
    return [
        Table("dldb_meta", {"key": list(values), "value": list(values.values())}),
        _system_config(data, options),
    ]


def _meta(data: ImportedProfile, options: ImportOptions) -> dict[str, str]:
    simple = data.mode == Mode.SIMPLE
    session = data.profile.session
    return {
        "db_version": DB_VERSION,
        "engine_version": engine_version(),
        "source_file": options.source.name,
        "source_format": data.profile.source_format,
        "mode": data.mode,
        "mode_reason": data.mode_reason,
        "key_node": data.key_node.name,
        "key_node_reason": data.key_node.reason,
        "last_ns": str(data.rollup.last_ns),
        "has_ops": "0" if simple else "1",
        "no_ops_reason": NO_OPS if simple else "",
        "dataloader_measured": "0" if simple else "1",
        "io_measured": "0",
        "has_costs": "1" if data.costs.count else "0",
        "session_start_utc_ns": str(session.start_utc_ns or ""),
        "host_name": session.host_name,
        "rank_count": str(len(main_devices(data.profile))),
        "job_rank": "" if data.profile.rank is None else str(data.profile.rank),
    }


def _system_config(data: ImportedProfile, options: ImportOptions) -> Table:
    system = data.profile.system
    values: dict[str, str | int] = {
        "is_valid": 1,
        "num_gpus": system.gpu_count_text or str(len(data.profile.devices)),
        "cpu_model": system.cpu_model,
        "driver_version": system.driver_version,
        "framework": framework_name(data),
        "cuda_version": system.cuda_version,
        "cudnn_version": system.cudnn_version,
        "nsys_version": system.nsys_version,
        "dlprof_version": f"v{engine_version()}",
        "dlprof_build": "open-dlprof",
        "profile_name": options.profile_name,
        "mode_string": data.mode,
        "original_command": masked_command(options.original_command),
    }
    return Table("system_config", {key: [value] for key, value in values.items()})
