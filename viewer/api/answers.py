"""The answers of the engine's registry, each at its address."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from aggregator.answers.registry import ANSWERS, Answer, Parameter
from viewer.api.schema import DOMAIN, ResourceView, query, reply
from viewer.api.scope import open_event_scope, open_scope, timeline_folder


class AnswerView(ResourceView):
    """An answer about an aggregation and domain."""

    answer: ClassVar[Answer] = ANSWERS["what-if"]

    @property
    def query_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The parameters of the answer."""
        return ("domain", *self.answer.parameters)

    def parameters(self) -> Iterable[OpenApiParameter]:
        """The domain, and the parameters of the answer."""
        return (DOMAIN, *map(_described, self.answer.parameters.values()))

    def replies(self) -> Any:
        """The struct of the answer."""
        return reply(self.answer.reply)

    def description(self) -> str:
        """The words of the function."""
        return self.answer.meaning

    def get(self, request: Request, **parts: Any) -> Response:
        """Answer the request."""
        arguments = self.answer.arguments(request.query_params.dict())
        arguments |= {name: parts[name] for name in self.answer.parts}
        if self.answer.shows_events:
            arguments["folder"] = timeline_folder()
        opened = open_event_scope if self.answer.shows_events else open_scope
        with opened(request, parts) as scope:
            return Response(self.answer.read(scope.data, **arguments))


def _described(parameter: Parameter) -> OpenApiParameter:
    more: dict[str, Any] = {}
    if parameter.type is bool:
        more["enum"] = ["0", "1"]
    elif issubclass(parameter.type, StrEnum):
        more["enum"] = list(parameter.type)
    elif parameter.default is not None:
        more["default"] = parameter.default
    bounds = {"minimum": parameter.note.ge, "maximum": parameter.note.le}
    more |= {name: bound for name, bound in bounds.items() if bound is not None}
    return query(
        parameter.name,
        parameter.note.description or "",
        "integer" if parameter.type is int else "string",
        required=parameter.is_required,
        **more,
    )
