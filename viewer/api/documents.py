"""The replies as JSON schemas, derived from the same declarations that produce them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aggregator.query.request import DEFAULT_PAGE_SIZE, PAGE_SIZES
from aggregator.query.spec import OPERATORS, Column, Kind, ObjectSpec, TableSpec

Schema = dict[str, Any]

_TYPES = {
    Kind.TEXT: "string",
    Kind.CHOICE: "string",
    Kind.BOOLEAN: "boolean",
}
_OPERATOR_TEXTS = {
    "": "Equal to the value.",
    "gte": "At least the value.",
    "lte": "At most the value.",
    "icontains": "Contains the text, in any case.",
    "startswith": "Begins with the text.",
    "in": "One of the values, separated by commas.",
}


@dataclass(frozen=True)
class Parameter:
    """A query parameter."""

    name: str
    description: str
    schema: tuple[tuple[str, Any], ...] = (("type", "string"),)


DOMAIN = Parameter("domain", "NVTX domain; the default domain if left out.")


def value(type_name: str, description: str = "", *, nullable: bool = False) -> Schema:
    """A plain value."""
    schema: Schema = {"type": [type_name, "null"] if nullable else type_name}
    return schema | ({"description": description} if description else {})


def record(properties: Mapping[str, Schema], *, nullable: bool = False) -> Schema:
    """An object that has all of these properties."""
    return {
        "type": ["object", "null"] if nullable else "object",
        "properties": dict(properties),
        "required": list(properties),
    }


def array(items: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": items}


UNKNOWN: Schema = {
    "type": "object",
    "description": "Why a field is null, by the field's name; * stands for all of them.",
    "additionalProperties": {"type": "string"},
}
ERROR: Schema = record(
    {
        "code": value("string", "Stable name for scripts."),
        "message": value("string", "One sentence for a person."),
        "hint": value("string", "What to do about it; may be empty."),
        "details": {"type": "object", "additionalProperties": True},
    }
)


def row_schema(columns: Iterable[Column]) -> Schema:
    """One row of a table. Any value may be null: an older database may not hold it."""
    return record(
        {column.name: value(_type(column), column.description, nullable=True) for column in columns}
    )


def list_schema(item: Schema, **more: Schema) -> Schema:
    """The shape of every list."""
    return record(
        {
            "count": value("integer", "Rows that pass the filters, on all pages."),
            "page": value("integer"),
            "page_size": value("integer"),
            "ordering": value("string", "As asked for; ties are ordered by the row's key."),
            "results": array(item),
            **more,
        }
    )


def table_schema(spec: TableSpec) -> Schema:
    """A page of a table."""
    return list_schema(row_schema(spec.columns), unknown=UNKNOWN)


def object_schema(spec: ObjectSpec) -> Schema:
    """An object of an aggregation."""
    tree: dict[str, Any] = {}
    for field in spec.fields:
        head, _, tail = field.name.partition(".")
        leaf = value(field.type, field.description, nullable=True)
        if tail:
            tree.setdefault(head, {})[tail] = leaf
        else:
            tree[head] = leaf
    properties = {
        name: schema if "type" in schema else record(schema) for name, schema in tree.items()
    }
    return record(properties | {"unknown": UNKNOWN})


def list_parameters(spec: TableSpec) -> tuple[Parameter, ...]:
    """Paging, ordering, search and the filters of a table."""
    return (
        Parameter("page", "Page, from 1.", (("type", "integer"), ("minimum", 1))),
        Parameter(
            "page_size",
            "Rows of a page.",
            (("type", "integer"), ("enum", list(PAGE_SIZES)), ("default", DEFAULT_PAGE_SIZE)),
        ),
        *selection_parameters(spec),
    )


def selection_parameters(spec: TableSpec) -> tuple[Parameter, ...]:
    """Ordering, search and the filters of a table."""
    names = ", ".join(spec.by_name)
    return (
        Parameter("ordering", f"Columns by comma, - before one for descending. Columns: {names}."),
        Parameter("search", "Text that any text column contains, in any case."),
        *(parameter for column in spec.columns for parameter in _filters(column)),
    )


def _filters(column: Column) -> Iterable[Parameter]:
    for operator in OPERATORS[column.kind]:
        name = f"{column.name}__{operator}" if operator else column.name
        type_name = "number" if column.kind is Kind.NUMBER else "string"
        yield Parameter(
            name, f"{column.description} {_OPERATOR_TEXTS[operator]}", (("type", type_name),)
        )


def _type(column: Column) -> str:
    if column.kind in _TYPES:
        return _TYPES[column.kind]
    if column.kind is Kind.IDENTIFIER:
        return "integer" if column.integer else "string"
    return "integer" if column.integer else "number"
