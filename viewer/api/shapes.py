"""Replies that are not a table's row: profiles and jobs."""

from __future__ import annotations

from viewer.api.documents import ERROR, UNKNOWN, Schema, array, record, value
from viewer.jobs.models import JobState

_ERROR_OR_NULL: Schema = ERROR | {"type": ["object", "null"]}

_PROFILE_FIELDS: dict[str, Schema] = {
    "id": value("string", "Part of the profile's address."),
    "name": value("string", "Name given to the profile, else its file's name."),
    "file_name": value("string", "Name of the file, without its folder."),
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
    "properties": _REQUEST_FIELDS,
    "additionalProperties": False,
}

JOB = record(
    {
        "id": value("string"),
        "profile_id": value("string"),
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
        "created_at": value("string"),
        "started_at": value("string", nullable=True),
        "finished_at": value("string", nullable=True),
    }
)
