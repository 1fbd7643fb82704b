"""Replies that are not a table's row: profiles and jobs."""

from __future__ import annotations

from aggregator.options import Mode
from viewer.api.documents import ERROR, UNKNOWN, Schema, array, record, value
from viewer.jobs.models import JobKind, JobState

_ERROR_OR_NULL: Schema = ERROR | {"type": ["object", "null"]}

MODES = tuple(mode.value for mode in Mode)

_PROFILE_FIELDS: dict[str, Schema] = {
    "id": value("string", "Part of the profile's address."),
    "name": value("string", "Name given to the profile, else its file's name."),
    "file_name": value("string", "Name of the file, without its folder."),
    "is_stored": value("boolean", "Stored by the viewer: deleting the profile deletes it."),
    "is_foreign": value("boolean", "Written by NVIDIA's DLProf.", nullable=True),
    "db_version": value("string", "Version of its DLProf.", nullable=True),
    "mode": value("string", "How its ranges were read.", nullable=True),
    "framework": value("string", "Framework and its version.", nullable=True),
    "gpu_count": value("integer", "GPUs.", nullable=True),
    "created_at": value("string", "When the database was made.", nullable=True),
    "aggregation_count": value("integer", "Aggregations in it.", nullable=True),
}

PROFILE_ITEM = record(_PROFILE_FIELDS | {"error": _ERROR_OR_NULL})

_SYSTEM_TEXTS = (
    "profile_name",
    "cpu_model",
    "driver_version",
    "framework",
    "cuda_version",
    "cudnn_version",
    "nsys_version",
    "dlprof_version",
    "original_command",
    "dlprof_db_version",
    "viewer_version",
)

PROFILE = record(
    {
        **_PROFILE_FIELDS,
        "system_config": record(
            {
                **{name: value("string", nullable=True) for name in _SYSTEM_TEXTS},
                "gpu_count": value("integer", nullable=True),
                "gpu_names": array(value("string")),
            }
        ),
        "domains": array(value("string")),
        "warnings": array(
            record({"code": value("string"), "message": value("string"), "count": value("integer")})
        ),
        "info": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
        "converted_from": value("string", "File of NVIDIA's it was made from.", nullable=True),
        "conversion_ids": array(value("string", "Profile that was converted from this one.")),
        "can_reaggregate": value("boolean"),
        "cannot_reaggregate_reason": value("string", "Empty if it can."),
        "unknown": UNKNOWN,
    }
)

_REQUEST_FIELDS: dict[str, Schema] = {
    "key_node": value("string", "Op ID, op name or range name; empty: chosen from the profile."),
    "iter_start": value("integer", "First iteration, inclusive.", nullable=True),
    "iter_stop": value("integer", "Last iteration, inclusive.", nullable=True),
}

NEW_AGGREGATION: Schema = {
    "type": "object",
    "properties": {
        **_REQUEST_FIELDS,
        "key_node": value("string", str(_REQUEST_FIELDS["key_node"]["description"]), nullable=True),
    },
    "additionalProperties": False,
}

NEW_PROFILE: Schema = {
    "type": "object",
    "properties": {
        "path": value(
            "string",
            "A file in one of the folders that may be registered from; or a folder there, or a "
            "pattern (rank*.sqlite), which stands for the rank files of one job.",
        ),
        "upload": value("string", "A complete upload, instead of a path."),
        "paths": array(value("string", "Rank files of one job, instead: they are joined.")),
        "uploads": array(value("string", "Complete uploads of rank files, instead.")),
        "ranks": array(
            value("integer", "Number of the first rank of each file; left out: the files tell.")
        ),
        "name": value("string", "Name for the profile; its own if left out."),
        "mode": {"type": "string", "enum": list(MODES), "description": "How to read ranges."},
    },
    "additionalProperties": False,
}
PROFILE_CHANGE: Schema = {
    "type": "object",
    "properties": {"name": value("string", "New name; empty: the profile's own.")},
    "required": ["name"],
    "additionalProperties": False,
}
PROFILE_REMOVED = record(
    {
        "id": value("string"),
        "deleted_files": array(value("string", "Name of a file that the viewer had stored.")),
        "is_unlisted": value("boolean", "A user's own file: it is still where it was."),
    }
)

NEW_UPLOAD: Schema = {
    "type": "object",
    "properties": {
        "file_name": value("string", "Name of the file where it comes from."),
        "size_bytes": value("integer", "Its length."),
    },
    "required": ["file_name", "size_bytes"],
    "additionalProperties": False,
}
UPLOAD = record(
    {
        "id": value("string", "Part of the upload's address."),
        "file_name": value("string"),
        "size_bytes": value("integer"),
        "offset": value("integer", "Bytes that are here: the next part begins there."),
        "chunk_bytes": value("integer", "The most that one part may hold."),
    }
)

_RANK_FILE = record(
    {
        "file_name": value("string"),
        "rank": value("integer", "Number that was asked for; null: the file tells.", nullable=True),
        "state": {"type": "string", "enum": ["waiting", "importing", "done", "failed"]},
    }
)
JOB = record(
    {
        "id": value("string"),
        "kind": {"type": "string", "enum": list(JobKind.values)},
        "profile_id": value("string", "What it works on; of an import, what it makes."),
        "profile_name": value("string", "Of an import, the name for the profile; may be empty."),
        "state": {"type": "string", "enum": list(JobState.values)},
        "phase": value("string", "Phase of the work; empty before it begins."),
        "progress_pct": value("number"),
        "rows_per_s": value("number", nullable=True),
        "eta_s": value("number", "Seconds left, as far as can be told.", nullable=True),
        "message": value("string"),
        "error": _ERROR_OR_NULL,
        "aggregation_id": value("integer", "What it made.", nullable=True),
        "result_profile_id": value(
            "string",
            "Where it is: another profile if one of NVIDIA's was converted.",
            nullable=True,
        ),
        "is_cancel_requested": value("boolean"),
        "request": record(_REQUEST_FIELDS),
        "jobs_before": value(
            "integer",
            "Jobs that begin before it, if it waits; only at the job's own address.",
            nullable=True,
        ),
        "files": array(_RANK_FILE),
        "created_at": value("string"),
        "started_at": value("string", nullable=True),
        "finished_at": value("string", nullable=True),
    }
)
