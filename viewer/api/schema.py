"""The base of all views, and the OpenAPI document: derived from serializers and tables."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from itertools import chain, count
from typing import Any, ClassVar, cast

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import force_instance
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.serializers import (
    BooleanField,
    CharField,
    Field,
    FloatField,
    IntegerField,
    Serializer,
)
from rest_framework.views import APIView

from aggregator.answers.gpu_memory import MemoryDifferences
from aggregator.answers.registry import ANSWERS
from aggregator.errors import InvalidValueError
from aggregator.tables.declared.addresses import TABLES
from aggregator.tables.declared.kernels import ITERATION_OP_KERNELS
from aggregator.tables.request import DEFAULT_PAGE_SIZE, PAGE_SIZES, check_parameters
from aggregator.tables.spec import OPERATORS, Column, Kind, ObjectSpec, TableSpec
from aggregator.texts import say
from viewer.api.bodies import Body
from viewer.api.serializers.shared import UnknownField
from viewer.api.structs import components


class ResourceView(APIView):
    """A view that refuses query parameters that it does not read."""

    http_method_names = ["get", "head", "options"]
    # Query parameters of a GET request; None: the handler checks them itself.
    query_names: ClassVar[tuple[str, ...] | None] = ()
    change_names: ClassVar[tuple[str, ...]] = ()  # Query parameters of any other request.

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse repeated and unknown query parameters."""
        super().initial(request, *args, **kwargs)
        for name, values in request.query_params.lists():
            if len(values) > 1:
                raise InvalidValueError(
                    say("The parameter {name} is given more than once.", name=name), parameter=name
                )
        method = str(request.method).lower()
        names = self.query_names if method in {"get", "head"} else self.change_names
        if names is not None and method != "options" and method in self.http_method_names:
            check_parameters(request.query_params.dict(), names)

    def parameters(self) -> Iterable[OpenApiParameter]:
        """Query parameters that depend on the declared table or object of the view."""
        return ()

    def replies(self) -> Any:
        """Replies that depend on the declared table or object of the view, as ``extend_schema``."""
        return {}

    def description(self) -> str:
        """What a GET request answers; empty: in the words of its method."""
        return ""


_TAGS = ("jobs", "uploads")
_OPERATOR_TEXTS = {
    "": "Equal to the value.",
    "gte": "At least the value.",
    "lte": "At most the value.",
    "icontains": "Contains the text, ignoring case.",
    "startswith": "Starts with the text.",
    "in": "One of the values, separated by commas.",
}
_FIELDS: dict[str, type[Field[Any, Any, Any, Any]]] = {
    "string": CharField,
    "integer": IntegerField,
    "number": FloatField,
    "boolean": BooleanField,
}
SerializerClass = type[Serializer[Any]]
_serializers: dict[str, SerializerClass] = {}


def query(
    name: str, description: str, kind: str = "string", *, required: bool = False, **more: Any
) -> OpenApiParameter:
    """A query parameter; ``more`` is its schema."""
    schema = {"type": kind, **more}
    return OpenApiParameter(name, schema, description=description, required=required)


DOMAIN = query("domain", "NVTX domain; the default domain if left out.")


# --- schemas of tables and objects ----------------------------------------------------------------


class Page(Serializer[Any]):
    """The shape of every list."""

    count = IntegerField(help_text="Number of rows that pass the filters, on all pages.")
    page = IntegerField()
    page_size = IntegerField()
    ordering = CharField(help_text="As requested; ties are ordered by the row's key.")


def page_of(item: SerializerClass) -> SerializerClass:
    """One page of a list of items."""
    name = item.__name__.removesuffix("Serializer").removesuffix("Row")
    return _serializer(f"{name}Page", Page, {"results": item(many=True)})


def table_page(spec: TableSpec) -> SerializerClass:
    """One page of a table."""
    name = _camel(spec.name)
    more = {"results": row(spec)(many=True), "unknown": UnknownField()}
    return _serializer(f"{name}Page", Page, more)


def row(spec: TableSpec, *, with_reasons: bool = False) -> SerializerClass:
    """One row of a table.

    Any value but the key may be null: an older database may not hold it.

    Args:
        spec: The table.
        with_reasons: Whether the row is a reply of its own, with the reasons of what is null.
    """
    fields: dict[str, Field[Any, Any, Any, Any]] = {
        column.name: _field(
            _type(column),
            column.description,
            nullable=column.nullable or column.name not in spec.key,
        )
        for column in spec.columns
    }
    return _serializer(
        f"{_camel(spec.name)}Row",
        Serializer,
        fields | ({"unknown": UnknownField()} if with_reasons else {}),
    )


def object_of(spec: ObjectSpec) -> SerializerClass:
    """An object of an aggregation; a dot in a field's name makes a nested object."""
    fields: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for field in spec.fields:
        head, _, tail = field.name.partition(".")
        leaf = _field(field.type, field.description)
        if tail:
            nested.setdefault(head, {})[tail] = leaf
        fields[head] = leaf
    name = _camel(spec.name)
    for head, inner in nested.items():
        fields[head] = _serializer(f"{name}{_camel(head)}", Serializer, inner)()
    return _serializer(name, Serializer, fields | {"unknown": UnknownField()})


def list_parameters(spec: TableSpec) -> Iterator[OpenApiParameter]:
    """Paging, ordering, search and the filters of a table."""
    yield query("page", "Page, counted from 1.", "integer", minimum=1)
    sizes, usual = list(PAGE_SIZES), DEFAULT_PAGE_SIZE
    yield query("page_size", "Rows of a page.", "integer", enum=sizes, default=usual)
    yield from selection_parameters(spec)


def selection_parameters(spec: TableSpec) -> Iterator[OpenApiParameter]:
    """Ordering, search and the filters of a table."""
    columns = ", ".join(spec.by_name)
    yield query(
        "ordering", f"Columns, separated by commas; - for descending order. Columns: {columns}."
    )
    yield query("search", "Text to find in any text column, ignoring case.")
    for among in spec.among:
        of_what = among.table.name
        yield query(
            among.parameter,
            f"Only rows of these {of_what}: search and filters of the list of {of_what}, as the "
            "query string of it.",
        )
    for column in spec.columns:
        for name, operator in zip(column.filters, OPERATORS[column.kind], strict=True):
            kind = "number" if column.kind is Kind.NUMBER else "string"
            yield query(name, f"{column.description} {_OPERATOR_TEXTS[operator]}", kind)


def _field(kind: str, description: str, *, nullable: bool = True) -> Field[Any, Any, Any, Any]:
    return _FIELDS[kind](help_text=description, allow_null=nullable)


def _type(column: Column) -> str:
    match column.kind:
        case Kind.BOOLEAN:
            return "boolean"
        case Kind.NUMBER:
            return "integer" if column.integer else "number"
        case Kind.IDENTIFIER if column.integer:
            return "integer"
        case _:
            return "string"


def _serializer(
    name: str, base: SerializerClass, fields: dict[str, Field[Any, Any, Any, Any]]
) -> SerializerClass:
    """A serializer class; the same one for the same name, for it is one component."""
    if name not in _serializers:
        _serializers[name] = type(name, (base,), {"__doc__": "", **fields})
    return _serializers[name]


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in re.split("[-_]", name))


# --- operations -----------------------------------------------------------------------------------


def _page_columns(spec: TableSpec) -> list[dict[str, Any]]:
    """How the page shows the columns of a table, in its order."""
    rest = [name for name in spec.by_name if name not in spec.lead]
    return [
        {
            "key": column.name,
            "title": column.heading,
            "hint": column.description.removesuffix("."),
            "kind": str(column.kind),
            "is_integer": column.integer,
            "is_hidden": column.name in spec.hidden,
            "unit": column.shown_unit,
            "when_null": column.when_null,
        }
        for column in (spec.by_name[name] for name in (*spec.lead, *rest))
    ]


class ResourceSchema(AutoSchema):
    """Describes an operation: by its ``extend_schema``, else by methods of the view."""

    def get_operation_id(self) -> str:
        """The address in words, for generated clients."""
        words = re.findall(r"[a-zA-Z_]+", self.path.removeprefix("/api/v1/"))
        return "_".join([self.method.lower(), *words])

    def get_tags(self) -> list[str]:
        """The first part of the address, where it is not a profile."""
        kind = self.path.removeprefix("/api/v1/").partition("/")[0]
        return [kind if kind in _TAGS else "profiles"]

    def get_description(self) -> str:  # type: ignore[override]
        """The words of a declared answer, else those of the method."""
        words: str = self._resource.description() or super().get_description()
        return words

    def get_override_parameters(self) -> list[Any]:
        """Query parameters of a view over a declared table or object."""
        return list(self._resource.parameters())

    def get_request_serializer(self) -> Any:
        """No body, unless ``extend_schema`` names one."""
        return {}

    def get_response_serializers(self) -> Any:
        """Replies of a view over a declared table or object."""
        return self._resource.replies()

    def _map_basic_serializer(self, serializer: Any, direction: Any) -> dict[str, Any]:
        schema: dict[str, Any] = super()._map_basic_serializer(serializer, direction)  # type: ignore[no-untyped-call]
        if isinstance(force_instance(serializer), Body):  # type: ignore[no-untyped-call]
            schema["additionalProperties"] = False
        return schema

    @property
    def _resource(self) -> ResourceView:
        return cast("ResourceView", self.view)

    def _is_list_view(self, serializer: Any = None) -> bool:
        # Lists have an envelope of their own, which their serializers describe.
        return False


def finish(result: dict[str, Any], **_: object) -> dict[str, Any]:
    """Add error replies and the columns of the page's tables; share equal parameters."""
    error = {"$ref": "#/components/schemas/Error"}
    body = {"type": "object", "properties": {"error": error}, "required": ["error"]}
    reply = {"content": {"application/json": {"schema": body}}, "description": ""}
    for operations in result["paths"].values():
        for operation in operations.values():
            operation["responses"] |= {"4XX": reply, "5XX": reply}
    schemas = result["components"]["schemas"]
    schemas |= components((*(answer.reply for answer in ANSWERS.values()), MemoryDifferences))
    for spec in TABLES.values():
        if not spec.lead or spec is ITERATION_OP_KERNELS:
            continue
        schemas[f"{_camel(spec.name)}Row"]["x-columns"] = _page_columns(spec)
    for schema in schemas.values():
        for field in schema["properties"].values():
            field.pop("x-spec-enum-id", None)
    _share_parameters(result)
    return result


def _share_parameters(result: dict[str, Any]) -> None:
    """Move parameters of several operations to ``components``: four of five are repetitions."""
    lists: list[list[dict[str, Any]]] = [
        operation["parameters"]
        for operations in result["paths"].values()
        for operation in operations.values()
        if "parameters" in operation
    ]
    uses = Counter(json.dumps(parameter) for parameters in lists for parameter in parameters)
    shared: dict[str, dict[str, Any]] = {}
    keys: dict[str, str] = {}
    for text, number in uses.items():
        if number > 1:
            parameter = json.loads(text)
            keys[text] = _free_key(parameter["name"], shared)
            shared[keys[text]] = parameter
    for parameters in lists:
        parameters[:] = [
            {"$ref": f"#/components/parameters/{keys[text]}"} if text in keys else parameter
            for parameter in parameters
            for text in (json.dumps(parameter),)
        ]
    result["components"]["parameters"] = shared


def _free_key(name: str, taken: Container[str]) -> str:
    """The name of a parameter, with a number where another one has it."""
    numbered = (f"{name}.{number}" for number in count(2))
    return next(key for key in chain([name], numbered) if key not in taken)
