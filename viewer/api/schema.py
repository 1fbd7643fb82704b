"""The base of all views, and the OpenAPI document: derived from structs and tables."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import chain, count
from typing import Any, ClassVar, cast

import msgspec
from django.http.response import HttpResponseBase
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import force_instance
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from aggregator.errors import InvalidValueError
from aggregator.tables.declared.addresses import TABLES
from aggregator.tables.declared.kernels import ITERATION_OP_KERNELS
from aggregator.tables.request import DEFAULT_PAGE_SIZE, PAGE_SIZES, check_parameters
from aggregator.tables.spec import OPERATORS, Column, Kind, ObjectSpec, TableSpec
from aggregator.texts import say
from viewer.api.bodies import Body
from viewer.api.replies.shared import Error
from viewer.api.structs import Schema, components, made, reference


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


def get_view(
    responses: Any, *parameters: OpenApiParameter, is_list: bool = False
) -> Callable[[Callable[..., Any]], type[ResourceView]]:
    """Make a view of a function that answers GET requests, in the words of its docstring.

    Args:
        responses: As for ``extend_schema``.
        parameters: The query parameters; any other is refused.
        is_list: Whether the function itself refuses those that a list does not have.
    """
    known = None if is_list else tuple(item.name for item in parameters)

    def made(function: Callable[..., Any]) -> type[ResourceView]:
        @functools.wraps(function)
        def get(_: ResourceView, request: Request, **parts: Any) -> HttpResponseBase:
            found = function(request, **parts)
            return found if isinstance(found, HttpResponseBase) else Response(found)

        described = extend_schema(parameters=list(parameters), responses=responses)(get)
        members = {"query_names": known, "get": described, "__module__": function.__module__}
        return type(function.__name__, (ResourceView,), members)

    return made


_TAGS = ("jobs", "uploads")
_OPERATOR_TEXTS = {
    "": "Equal to the value.",
    "gte": "At least the value.",
    "lte": "At most the value.",
    "icontains": "Contains the text, ignoring case.",
    "startswith": "Starts with the text.",
    "in": "One of the values, separated by commas.",
}
UNKNOWN = {
    "type": "object",
    "additionalProperties": {"type": "string"},
    "description": "Why a field is null, by the field's name; * stands for all of them.",
}


def query(
    name: str, description: str, kind: str = "string", *, required: bool = False, **more: Any
) -> OpenApiParameter:
    """A query parameter; ``more`` is its schema."""
    schema = {"type": kind, **more}
    return OpenApiParameter(name, schema, description=description, required=required)


DOMAIN = query("domain", "NVTX domain; the default domain if left out.")


# --- schemas of tables and objects ----------------------------------------------------------------


_PAGE: dict[str, Schema] = {
    "count": {
        "type": "integer",
        "description": "Number of rows that pass the filters, on all pages.",
    },
    "page": {"type": "integer"},
    "page_size": {"type": "integer"},
    "ordering": {
        "type": "string",
        "description": "As requested; ties are ordered by the row's key.",
    },
}


def reply(struct: type[msgspec.Struct]) -> dict[int, Schema]:
    """Return a struct as the reply of an operation."""
    return {200: reference(struct)}


def page_of(name: str, item: Schema, **more: Schema) -> dict[int, Schema]:
    """Return one page of a list of items as the reply of an operation."""
    results = {"type": "array", "items": item}
    fields = {**_PAGE, "results": results, **more}
    return {200: made(f"{name}Page", fields, description="The shape of every list.")}


def table_page(spec: TableSpec) -> dict[int, Schema]:
    """Return one page of a table as the reply of an operation."""
    return page_of(_camel(spec.name), row(spec), unknown=UNKNOWN)


def row(spec: TableSpec, *, with_reasons: bool = False) -> Schema:
    """Return one row of a table.

    Any value but the key may be null: an older database may not hold it.

    Args:
        spec: The table.
        with_reasons: Whether the row is a reply of its own, with the reasons of what is null.
    """
    fields = {
        column.name: _leaf(
            _type(column),
            column.description,
            nullable=column.nullable or column.name not in spec.key,
        )
        for column in spec.columns
    }
    more = {"unknown": UNKNOWN} if with_reasons else {}
    return made(f"{_camel(spec.name)}Row", fields | more)


def object_of(spec: ObjectSpec) -> dict[int, Schema]:
    """Return an object of an aggregation; a dot in a field's name makes a nested object."""
    name = _camel(spec.name)
    fields: dict[str, Schema] = {}
    nested: dict[str, dict[str, Schema]] = {}
    for field in spec.fields:
        head, _, tail = field.name.partition(".")
        leaf = _leaf(field.type, field.description)
        if tail:
            nested.setdefault(head, {})[tail] = leaf
        fields[head] = leaf
    fields |= {head: made(f"{name}{_camel(head)}", inner) for head, inner in nested.items()}
    return {200: made(name, fields | {"unknown": UNKNOWN})}


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


def _leaf(kind: str, description: str, *, nullable: bool = True) -> Schema:
    form = {"format": "double"} if kind == "number" else {}
    return {"type": [kind, "null"] if nullable else kind, "description": description, **form}


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


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in re.split("[-_]", name))


# --- operations -----------------------------------------------------------------------------------


def _page_columns(spec: TableSpec) -> list[dict[str, Any]]:
    """Return how the page shows the columns of a table, in its order."""
    rest = [name for name in spec.by_name if name not in spec.lead]
    return [
        {
            "key": column.name,
            "title": column.heading,
            "hint": column.description.removesuffix("."),
            "kind": str(column.kind),
            "is_integer": column.integer,
            "is_hidden": column.name in spec.hidden,
            "is_sum": column.is_sum,
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
        # Lists have an envelope of their own, which their schemas describe.
        return False


def finish(result: dict[str, Any], **_: object) -> dict[str, Any]:
    """Add error replies and the columns of the page's tables; share equal parameters."""
    error = reference(Error)
    body = {"type": "object", "properties": {"error": error}, "required": ["error"]}
    reply = {"content": {"application/json": {"schema": body}}, "description": ""}
    for operations in result["paths"].values():
        for operation in operations.values():
            operation["responses"] |= {"4XX": reply, "5XX": reply}
    schemas = result["components"]["schemas"]
    schemas |= components()
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
    """Return the name of a parameter, with a number where another one has it."""
    numbered = (f"{name}.{number}" for number in count(2))
    return next(key for key in chain([name], numbered) if key not in taken)
