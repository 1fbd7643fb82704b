"""Structs of replies as components of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

_COMPONENT: Final = "#/components/schemas/{name}"
_NULL: Final = {"type": "null"}


def reference(reply: type[msgspec.Struct]) -> dict[str, Any]:
    """Return a reference to the component of a struct."""
    return {"$ref": _COMPONENT.format(name=reply.__name__)}


def components(replies: Iterable[type[msgspec.Struct]]) -> dict[str, Any]:
    """Return the components of structs and of the structs in them."""
    _, found = msgspec.json.schema_components(replies, ref_template=_COMPONENT)
    enumerations = {name: schema for name, schema in found.items() if "enum" in schema}
    return {
        name: _tidy(schema | {"required": _always(schema)}, enumerations)
        for name, schema in found.items()
        if name not in enumerations
    }


def _always(schema: dict[str, Any]) -> list[str]:
    """Return the fields that every reply has: those with a default are written, too."""
    fields = schema["properties"].items()
    return [name for name, field in fields if name in schema["required"] or "default" in field]


def _tidy(schema: Any, enumerations: dict[str, Any]) -> Any:
    """Write a schema as serializers are described: nullable types in short, choices in place."""
    if isinstance(schema, list):
        return [_tidy(part, enumerations) for part in schema]
    if not isinstance(schema, dict):
        return schema
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    if name in enumerations:
        return {"enum": enumerations[name]["enum"], "type": "string"}
    kept = {key: part for key, part in schema.items() if key not in ("title", "default")}
    fields = kept.pop("properties", None)
    tidy = {key: _tidy(part, enumerations) for key, part in kept.items()}
    if fields is not None:
        tidy["properties"] = {name: _tidy(field, enumerations) for name, field in fields.items()}
    if tidy.get("type") == "number":
        tidy["format"] = "double"
    choices = tidy.pop("anyOf", [])
    (known, *others) = [choice for choice in choices if choice != _NULL] or [{}]
    if len(choices) - len(others) < 2:
        return tidy if not choices else tidy | {"anyOf": choices}
    if "type" in known and "enum" not in known:
        return tidy | known | {"type": [known["type"], "null"]}
    return tidy | {"oneOf": [known, _NULL]}
