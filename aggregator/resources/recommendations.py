"""What the expert system found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aggregator.query.connection import ProfileDatabase
from aggregator.query.values import as_text
from aggregator.texts.recognition import recognized

_VIEW = "view_expert_systems"
#: The database names a script function; here it is looked up among the views that exist, never run.
_DRILL_DOWNS = {
    "ShowBadDataTypeOps": "bad-data-type-ops",
}


def read_recommendations(
    database: ProfileDatabase, params: Mapping[str, str | int]
) -> list[dict[str, Any]]:
    """Findings of an aggregation."""
    if not database.has(_VIEW):
        return []
    detector = "exp_sys_id" if database.has(_VIEW, "exp_sys_id") else "NULL"
    sql = (
        "SELECT problem, recommendation, javascript_function, javascript_args, "  # noqa: S608
        f"{detector} FROM {_VIEW} WHERE aggr_id = :aggr_id"
    )
    return [
        {
            "id": index,
            "detector": name,
            "problem": _said(problem, database),
            "recommendation": _said(recommendation, database),
            "drill_down": _DRILL_DOWNS.get(function or ""),
            "drill_down_args": as_text(args) or None,
        }
        for index, (problem, recommendation, function, args, name) in enumerate(
            database.rows(sql, params), start=1
        )
    ]


def _said(value: object, database: ProfileDatabase) -> str:
    """A stored sentence as one that can be translated; empty if there is none."""
    text = as_text(value) or ""
    return database.texts.get(text, text) if database.is_ours else recognized(text)
