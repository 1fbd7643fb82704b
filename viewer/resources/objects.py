"""Resources that are one object, read by their declarations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from viewer.query.connection import ProfileDatabase
from viewer.query.spec import ObjectSpec

_OLDER = "This database does not hold it: it was written by an older or another DLProf."
_NO_ROW = "Nothing was aggregated for this domain."


def read_object(
    spec: ObjectSpec, database: ProfileDatabase, params: Mapping[str, str | int]
) -> dict[str, Any]:
    """Read an object of an aggregation and domain.

    Returns:
        Its fields, and under ``unknown`` the reason of each that is null for want of data.
    """
    values: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for view in dict.fromkeys(field.view for field in spec.fields):
        fields = [field for field in spec.fields if field.view == view]
        known = [field for field in fields if database.has(view, field.column)]
        row = _read_row(view, [field.column for field in known], database, params)
        values |= dict(zip((field.name for field in known), row or (), strict=False))
        unknown |= {field.name: _OLDER for field in fields if field not in known}
        if row is None:
            unknown |= {field.name: _NO_ROW for field in known}
    reply = _nest({field.name: values.get(field.name) for field in spec.fields})
    return reply | {"unknown": unknown}


def _read_row(
    view: str, columns: list[str], database: ProfileDatabase, params: Mapping[str, str | int]
) -> tuple[Any, ...] | None:
    if not columns:
        return ()
    where = "aggr_id = :aggr_id"
    if database.has(view, "domain_name"):
        where += " AND domain_name = :domain"
    sql = f"SELECT {', '.join(columns)} FROM {view} WHERE {where} LIMIT 1"  # noqa: S608
    return next(iter(database.rows(sql, params)), None)


def _nest(values: dict[str, Any]) -> dict[str, Any]:
    reply: dict[str, Any] = {}
    for path, value in values.items():
        head, _, tail = path.partition(".")
        if tail:
            reply.setdefault(head, {})[tail] = value
        else:
            reply[head] = value
    return reply
