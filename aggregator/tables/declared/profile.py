"""Metadata of a profile: names, domains, the system that it was recorded on, warnings."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from aggregator.system.untrusted_json import read_count
from aggregator.tables.connection import ProfileDatabase
from aggregator.tables.spec import Record
from aggregator.texts import say

DEFAULT_DOMAIN = "default-domain"
_DISTRIBUTION = "open-dlprof"
_SYSTEM_COLUMNS = (
    *("profile_name", "cpu_model", "driver_version", "framework", "cuda_version", "cudnn_version"),
    *("nsys_version", "dlprof_version", "original_command"),
)


def viewer_version() -> str:
    """Return the version of the installed package; empty in a checkout that is not installed."""
    try:
        return metadata.version(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return ""


def profile_id(path: Path) -> str:
    """Return a readable id: the file's name, and a hash of its path to distinguish equal names."""
    stem = re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-")[:40]
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    return f"{stem or 'profile'}-{digest}"


_USUAL_STEM = "dlprof_dldb"


def profile_item(path: Path, profile_id: str, database: ProfileDatabase) -> Record:
    """Return the item of a profile in the list of profiles."""
    config = _config_row(database)
    return {
        "id": profile_id,
        "name": display_name(path, database),
        "file_name": path.name,
        "is_foreign": not database.is_ours,
        "db_version": database.version,
        "mode": config.get("mode_string"),
        "framework": config.get("framework"),
        "gpu_count": _gpu_count(config),
        "gpu_name": _gpu_name(database),
        "iteration_count": _iteration_count(database),
        "created_at": _created_at(path, database),
        "aggregation_count": len(_rows(database, "view_aggregations", "aggr_id")),
    }


def profile_details(database: ProfileDatabase) -> Record:
    """Return the further metadata, for the page of a single profile: system, domains, warnings."""
    config, unknown = _system_config(database)
    return {
        "system_config": config,
        "domains": domains(database),
        "warnings": _warnings(database),
        "info": {key: database.texts.get(text, text) for key, text in database.info.items()},
        "unknown": unknown,
    }


def display_name(path: Path, database: ProfileDatabase) -> str:
    """Return the name of the profile, else the name of its file."""
    return str(_config_row(database).get("profile_name") or name_of_file(path))


def name_of_file(path: Path) -> str:
    """Name of a profile without one: its file's, or its folder's for the file name of all runs."""
    return (path.parent.name if path.stem == _USUAL_STEM else "") or path.stem


def domains(database: ProfileDatabase) -> list[str]:
    """Return the domains of a profile, the default one first."""
    names = [str(name) for (name,) in _rows(database, "view_domains", "domain_name")]
    return sorted(names or [DEFAULT_DOMAIN], key=lambda name: name != DEFAULT_DOMAIN)


def iso_time(raw: str, database: ProfileDatabase) -> str:
    """A time from a database as ISO 8601; UTC for this project's, of unknown zone for NVIDIA's."""
    # A damaged database may hold anything here.
    return str(raw).replace(" ", "T") + ("Z" if database.is_ours else "")


def _config_row(database: ProfileDatabase) -> Record:
    view = "view_system_config"
    columns = sorted(database.columns(view))
    rows = _rows(database, view, *columns)
    return dict(zip(columns, rows[0], strict=True)) if rows else {}


def _system_config(database: ProfileDatabase) -> tuple[Record, dict[str, str]]:
    row = _config_row(database)
    names = [str(name) for (name,) in _rows(database, "view_gpu_names", "gpu_name")]
    config = {name: row.get(name) or None for name in _SYSTEM_COLUMNS}
    unknown: dict[str, str] = {
        f"system_config.{name}": say("Not recorded in the profile.")
        for name, value in config.items()
        if value is None
    }
    versions = {"dlprof_db_version": database.version, "viewer_version": viewer_version()}
    return config | {"gpu_count": _gpu_count(row), "gpu_names": names} | versions, unknown


def _gpu_name(database: ProfileDatabase) -> str | None:
    """Return the names of the GPUs, each once."""
    names = dict.fromkeys(str(name) for (name,) in _rows(database, "view_gpu_names", "gpu_name"))
    return ", ".join(names) or None


def _iteration_count(database: ProfileDatabase) -> int | None:
    """Return the iterations of the whole profile, by the key node of its first aggregation."""
    rows = _rows(database, "view_performance_summary", "aggr_id", "total_iterations")
    counts = [(aggr, count) for aggr, count in rows if count is not None]
    return int(min(counts)[1]) if counts else None


def _gpu_count(config: Record) -> int | None:
    return read_count(str(config.get("num_gpus") or ""))


def _created_at(path: Path, database: ProfileDatabase) -> str:
    """Return when the first aggregation began; else when the file was last written."""
    starts = [
        str(start) for (start,) in _rows(database, "view_aggregations", "aggr_start") if start
    ]
    if starts:
        return iso_time(min(starts), database)
    written = datetime.fromtimestamp(path.stat().st_mtime, tz=UTC)
    return written.strftime("%Y-%m-%dT%H:%M:%SZ")


def _warnings(database: ProfileDatabase) -> list[Record]:
    rows = _rows(database, "view_warnings", "code", "message", "count")
    return [
        {"code": code, "message": database.texts.get(message, message), "count": count}
        for code, message, count in rows
    ]


def _rows(database: ProfileDatabase, view: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return the rows of a view; none if the database lacks it or one of the columns."""
    if not columns or not all(database.has(view, column) for column in columns):
        return []
    return database.rows(f"SELECT {', '.join(columns)} FROM {view}")  # noqa: S608
