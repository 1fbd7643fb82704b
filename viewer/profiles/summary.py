"""What a profile says about itself: the list's items and the system configuration."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from aggregator.conversion import SOURCE_NAME
from aggregator.errors import DatabaseError
from viewer.profiles.registry import ServedProfile, conversions_of, profile_id
from viewer.query.connection import ProfileDatabase, opened

DEFAULT_DOMAIN = "default-domain"
_DISTRIBUTION = "open-dlprof"
_SYSTEM_COLUMNS = {
    "profile_name": "profile_name",
    "cpu_model": "cpu_model",
    "driver_version": "driver_version",
    "framework": "framework",
    "cuda_version": "cuda_version",
    "cudnn_version": "cudnn_version",
    "nsys_version": "nsys_version",
    "dlprof_version": "dlprof_version",
    "original_command": "original_command",
}
#: What a profile that cannot be opened still has.
_UNREADABLE: dict[str, Any] = {
    "is_foreign": None,
    "db_version": None,
    "mode": None,
    "framework": None,
    "gpu_count": None,
    "created_at": None,
    "aggregation_count": None,
}


def viewer_version() -> str:
    """Version of the installed package; empty in a checkout that is not installed."""
    try:
        return metadata.version(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return ""


def describe(served: ServedProfile, *, time_limit_s: float) -> dict[str, Any]:
    """One item of the list; a file that cannot be opened gives its error instead of its values."""
    try:
        with opened(served.path, time_limit_s=time_limit_s) as database:
            return _item(served, database) | {"error": None}
    except DatabaseError as error:
        item = {"id": served.id, "name": served.path.stem, "file_name": served.path.name}
        return item | _UNREADABLE | {"error": error.to_dict()}


def describe_fully(served: ServedProfile, database: ProfileDatabase) -> dict[str, Any]:
    """Everything about one profile that no aggregation changes."""
    config, unknown = _system_config(database)
    reason = why_not_reaggregate(served, database)
    return _item(served, database) | {
        "system_config": config,
        "domains": domains(database),
        "warnings": _warnings(database),
        "info": database.info,
        "converted_from": database.info.get(SOURCE_NAME),
        "conversion_ids": [profile_id(path) for path in conversions_of(served.path)],
        "can_reaggregate": not reason,
        "cannot_reaggregate_reason": reason,
        "unknown": unknown,
    }


def display_name(served: ServedProfile, database: ProfileDatabase) -> str:
    """Name given to the profile, else its file's name."""
    return _name(served, _config_row(database))


def domains(database: ProfileDatabase) -> list[str]:
    """Domains of a profile, the default one first."""
    names = [str(name) for (name,) in _rows(database, "view_domains", "domain_name")]
    return sorted(names or [DEFAULT_DOMAIN], key=lambda name: name != DEFAULT_DOMAIN)


def moment(raw: str, database: ProfileDatabase) -> str:
    """A time from a database as ISO 8601; ours are UTC, the zone of NVIDIA's is not known."""
    return raw.replace(" ", "T") + ("Z" if database.is_ours else "")


def why_not_reaggregate(served: ServedProfile, database: ProfileDatabase) -> str:
    """Why no aggregation can be added; empty if one can."""
    if not database.is_ours:
        if os.access(served.path.parent, os.W_OK):
            return ""
        return (
            "A database of NVIDIA's is never changed but converted into a new one beside it, "
            "and its folder cannot be written to."
        )
    # SQLite writes its journal beside the file.
    if not (os.access(served.path, os.W_OK) and os.access(served.path.parent, os.W_OK)):
        return "The database or its folder cannot be written to."
    return ""


def _item(served: ServedProfile, database: ProfileDatabase) -> dict[str, Any]:
    config = _config_row(database)
    return {
        "id": served.id,
        "name": _name(served, config),
        "file_name": served.path.name,
        "is_foreign": not database.is_ours,
        "db_version": database.version,
        "mode": config.get("mode_string"),
        "framework": config.get("framework"),
        "gpu_count": _gpu_count(config),
        "created_at": _created_at(served, database),
        "aggregation_count": len(_rows(database, "view_aggregations", "aggr_id")),
    }


def _config_row(database: ProfileDatabase) -> dict[str, Any]:
    view = "view_system_config"
    columns = sorted(database.columns(view))
    rows = _rows(database, view, *columns)
    return dict(zip(columns, rows[0], strict=True)) if rows else {}


def _system_config(database: ProfileDatabase) -> tuple[dict[str, Any], dict[str, str]]:
    row = _config_row(database)
    names = [str(name) for (name,) in _rows(database, "view_gpu_names", "gpu_name")]
    config = {name: row.get(column) or None for name, column in _SYSTEM_COLUMNS.items()}
    unknown = {
        f"system_config.{name}": "The profile does not say."
        for name, value in config.items()
        if value is None
    }
    versions = {"dlprof_db_version": database.version, "viewer_version": viewer_version()}
    return config | {"gpu_count": _gpu_count(row), "gpu_names": names} | versions, unknown


def _name(served: ServedProfile, config: dict[str, Any]) -> str:
    return str(config.get("profile_name") or served.path.stem)


def _gpu_count(config: dict[str, Any]) -> int | None:
    raw = str(config.get("num_gpus") or "")
    return int(raw) if raw.isdigit() else None


def _created_at(served: ServedProfile, database: ProfileDatabase) -> str:
    """When the first aggregation began; else when the file was last written."""
    starts = [
        str(start) for (start,) in _rows(database, "view_aggregations", "aggr_start") if start
    ]
    if starts:
        return moment(min(starts), database)
    written = datetime.fromtimestamp(served.path.stat().st_mtime, tz=UTC)
    return written.strftime("%Y-%m-%dT%H:%M:%SZ")


def _warnings(database: ProfileDatabase) -> list[dict[str, Any]]:
    rows = _rows(database, "view_warnings", "code", "message", "count")
    return [{"code": code, "message": message, "count": count} for code, message, count in rows]


def _rows(database: ProfileDatabase, view: str, *columns: str) -> list[tuple[Any, ...]]:
    """Rows of a view; none if the database lacks it or one of the columns."""
    if not columns or not all(database.has(view, column) for column in columns):
        return []
    return database.rows(f"SELECT {', '.join(columns)} FROM {view}")  # noqa: S608
