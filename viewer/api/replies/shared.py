"""Replies that several views use, and those of values and exports of tables."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Struct

from aggregator.system.replies import doc


class Error(Struct, kw_only=True):
    """The one error shape."""

    code: Annotated[str, doc("Stable name for scripts.")]
    message: Annotated[str, doc("One sentence for a person.")]
    hint: Annotated[str, doc("What to do about it; may be empty.")]
    details: Annotated[dict[str, Any], doc("Further values for scripts.")]


class DistinctValue(Struct, kw_only=True):
    """A value of a column."""

    value: str | float | bool | None
    count: int


class DistinctValues(Struct, kw_only=True):
    """Values of a column, most frequent first."""

    column: str
    is_truncated: Annotated[bool, doc("Whether there are more values than are listed.")]
    results: list[DistinctValue]


class Export(Struct, kw_only=True):
    """A table as a JSON file."""

    profile: str
    table: str
    aggregation_id: int
    domain: str
    columns: list[str]
    results: list[dict[str, Any]]
