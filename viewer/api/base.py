"""What all views of the API have in common: they know what they take and what they answer."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.views import APIView

from aggregator.errors import InvalidValueError
from aggregator.texts import say
from viewer.api.documents import Parameter, Schema


class ResourceView(APIView):
    """A view that documents itself; the OpenAPI document is made of these attributes.

    Attributes:
        success_status: Status of a reply that is no error.
        media_type: Type of that reply.
    """

    http_method_names = ["get", "head", "options"]
    success_status: ClassVar[int] = 200
    media_type: ClassVar[str] = "application/json"

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse what would be read in part: of two values of a parameter only one counts."""
        super().initial(request, *args, **kwargs)
        for name, values in request.query_params.lists():
            if len(values) > 1:
                raise InvalidValueError(
                    say("The parameter {name} is given more than once.", name=name), parameter=name
                )

    def parameters(self, method: str) -> tuple[Parameter, ...]:
        """Query parameters."""
        return ()

    def body(self, method: str) -> Schema | None:
        """Schema of the request's body, if it takes one."""
        return None

    def body_type(self, method: str) -> str:
        """Media type of the request's body."""
        return "application/json"

    def header_parameters(self, method: str) -> tuple[Parameter, ...]:
        """Headers that the request must have."""
        return ()

    def other_replies(self, method: str) -> dict[int, Schema]:
        """Further replies that are no error, by their status."""
        return {}

    def reply(self, method: str) -> Schema:
        """Schema of a reply that is no error."""
        return {"type": "object", "additionalProperties": True}

    def replies(self, method: str) -> dict[str, Schema]:
        """Schemas of a reply that is no error, by media type."""
        return {self.media_type: self.reply(method)}

    def status_of(self, method: str) -> int:
        """Status of a reply that is no error."""
        return self.success_status
