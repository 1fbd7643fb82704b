"""What NVTX ranges and marks carry besides their names: categories, payloads, thread names."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from aggregator.profile import DEFAULT_DOMAIN, Annotation
from aggregator.sources import nsys_schema as names
from aggregator.sources.sqlite_files import READ_ERRORS, corrupt
from aggregator.sqlite_uri import read_only_uri

if TYPE_CHECKING:
    from aggregator.sources.nsys_schema import Schema

EVENT_CATEGORY = 33
_PAYLOADS = (
    "uint64Value",
    "int64Value",
    "doubleValue",
    "uint32Value",
    "int32Value",
    "floatValue",
    "jsonText",
)
THREAD_NAMES = "ThreadNames"


def read_annotations(schema: Schema) -> tuple[Annotation, ...]:
    """Ranges and marks that have a category or a payload, in the order of the table."""
    columns = schema.columns(names.NVTX)
    payloads = [f'"{name}"' for name in _PAYLOADS if name in columns]
    if "category" not in columns or not payloads:
        return ()
    payload = f"coalesce({', '.join(payloads)})" if len(payloads) > 1 else payloads[0]
    text = schema.column(names.NVTX, "text", "''")
    if "textId" in columns and schema.has(names.STRINGS):
        registered = f'(SELECT value FROM {schema.table(names.STRINGS)} WHERE id = "textId")'
        text = f"coalesce(\"text\", {registered}, '')"
    query = (
        f'SELECT "start", "end", "globalTid", coalesce("domainId", 0), {text}, "category",'
        f' {payload} FROM {schema.table(names.NVTX)} WHERE "eventType" IN (?, ?, ?)'
        f' AND ("category" IS NOT NULL OR {payload} IS NOT NULL) AND "start" IS NOT NULL'
        " ORDER BY rowid"
    )
    kinds = (names.EVENT_RANGE, names.EVENT_START_END_RANGE, names.EVENT_MARK)
    try:
        with closing(sqlite3.connect(read_only_uri(schema.path), uri=True)) as connection:
            categories = _names(connection, schema, text, EVENT_CATEGORY, "category")
            domains = _names(connection, schema, text, names.EVENT_DOMAIN, "domainId")
            rows = connection.execute(query, kinds).fetchall()
    except READ_ERRORS as error:
        raise corrupt(schema.path, error) from error
    return tuple(
        Annotation(
            start_ns=int(start),
            end_ns=int(end) if isinstance(end, int) else None,
            global_tid=int(tid) if isinstance(tid, int) else -1,
            domain=domains.get((domain, domain), f"domain {domain}" if domain else DEFAULT_DOMAIN),
            name=str(name),
            category="" if category is None else categories.get((domain, category), str(category)),
            payload="" if value is None else str(value),
        )
        for start, end, tid, domain, name, category, value in rows
    )


def _names(
    connection: sqlite3.Connection, schema: Schema, text: str, kind: int, number: str
) -> dict[tuple[object, object], str]:
    """Names that events of a kind give to a number, by (domain number, number)."""
    query = (
        f'SELECT coalesce("domainId", 0), "{number}", {text} FROM {schema.table(names.NVTX)}'
        f' WHERE "eventType" = ? AND "{number}" IS NOT NULL'
    )
    return {(row[0], row[1]): str(row[2]) for row in connection.execute(query, (kind,))}


def read_thread_names(schema: Schema) -> dict[int, str]:
    """Names of threads by global thread id."""
    if not {"nameId", "globalTid"} <= schema.columns(THREAD_NAMES):
        return {}
    query = (
        f'SELECT t."globalTid", s.value FROM {schema.table(THREAD_NAMES)} AS t'
        f' JOIN {schema.table(names.STRINGS)} AS s ON s.id = t."nameId"'
        # In a damaged export some are no numbers.
        ' WHERE t."globalTid" = CAST(t."globalTid" AS INTEGER)'
    )
    try:
        with closing(sqlite3.connect(read_only_uri(schema.path), uri=True)) as connection:
            return {int(tid): str(name) for tid, name in connection.execute(query)}
    except READ_ERRORS as error:
        raise corrupt(schema.path, error) from error
