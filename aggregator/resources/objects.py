"""Resources that are one object, read by their declarations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aggregator.query.connection import ProfileDatabase
from aggregator.query.spec import NOT_IN_DATABASE, NOT_MEASURED, Field, ObjectSpec
from aggregator.query.values import as_number, as_text
from aggregator.texts import say

_NO_ROW = say("Nothing was aggregated for this domain.")


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
        missing = {field.name: reason for field in fields if (reason := _missing(field, database))}
        known = [field for field in fields if field.name not in missing]
        row = _read_row(view, [field.column for field in known], database, params)
        values |= {
            field.name: _typed(field, value) for field, value in zip(known, row or (), strict=False)
        }
        unknown |= missing
        if row is None:
            unknown |= {field.name: _NO_ROW for field in known}
    said = {name: _with_words(value, database) for name, value in values.items()}
    reply = _nest({field.name: said.get(field.name) for field in spec.fields})
    return reply | {"unknown": unknown}


def _with_words(value: Any, database: ProfileDatabase) -> Any:
    """A stored sentence as one that can be translated; anything else as it is."""
    return database.texts.get(value, value) if isinstance(value, str) else value


def _missing(field: Field, database: ProfileDatabase) -> str:
    """Why the database cannot tell a value; empty if it can."""
    if not database.has(field.view, field.column):
        return NOT_IN_DATABASE
    if field.measured and not database.is_measured(field.measured):
        return NOT_MEASURED[field.measured]
    return ""


def _typed(field: Field, value: Any) -> Any:
    if field.type == "string":
        return as_text(value)
    number = as_number(value, integer=field.type == "integer")
    return round(100.0 - number, 6) if field.is_rest and number is not None else number


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
