"""Components of the OpenAPI document: structs of replies, and schemas made of declared tables."""

from __future__ import annotations

from typing import Any, Final

import msgspec

Schema = dict[str, Any]
_COMPONENT: Final = "#/components/schemas/{name}"
_NULL: Final = {"type": "null"}
_structs: Final[dict[str, type[msgspec.Struct]]] = {}
_made: Final[dict[str, Schema]] = {}


def reference(reply: type[msgspec.Struct]) -> Schema:
    """Return a reference to the component of a struct."""
    _structs[reply.__name__] = reply
    return {"$ref": _COMPONENT.format(name=reply.__name__)}


def made(name: str, fields: dict[str, Schema], **more: str) -> Schema:
    """Return a reference to a component that is an object of some fields."""
    _made[name] = {"type": "object", "properties": fields, "required": sorted(fields), **more}
    return {"$ref": _COMPONENT.format(name=name)}


def components() -> dict[str, Schema]:
    """Return the components that were referred to, and the structs in them."""
    _, found = msgspec.json.schema_components(_structs.values(), ref_template=_COMPONENT)
    enumerations = {name: schema for name, schema in found.items() if "enum" in schema}
    return _made | {
        name: _tidy(schema | {"required": _always(schema)}, enumerations)
        for name, schema in found.items()
        if name not in enumerations
    }


def _always(schema: dict[str, Any]) -> list[str]:
    """Return the fields that every reply has: those with a default are written, too."""
    fields = schema["properties"].items()
    return [name for name, field in fields if name in schema["required"] or "default" in field]


def _tidy(schema: Any, enumerations: dict[str, Any]) -> Any:
    """Write a schema in short: a nullable type as a list of types, choices in place."""
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
    if "enum" in tidy:
        tidy["type"] = "string"
    choices = tidy.pop("anyOf", [])
    if not choices:
        return tidy
    simple = [choice for choice in choices if "type" in choice and "enum" not in choice]
    if len(simple) == len(choices):
        parts = {key: part for choice in choices for key, part in choice.items()}
        return parts | tidy | {"type": [choice["type"] for choice in choices]}
    return tidy | {"oneOf": choices}
