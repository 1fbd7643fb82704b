"""From the views' own descriptions to OpenAPI."""

from __future__ import annotations

import re
from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter

from viewer.api.base import ResourceView

ERROR_COMPONENT = "Error"
_KINDS = ("jobs", "uploads")
_ERROR_REFERENCE = {
    "type": "object",
    "properties": {"error": {"$ref": f"#/components/schemas/{ERROR_COMPONENT}"}},
    "required": ["error"],
}


class ResourceSchema(AutoSchema):
    """Asks the view; only views of ``viewer.api.base`` know what to say."""

    def get_operation_id(self) -> str:
        """The address in words, for generated clients."""
        words = re.findall(r"[a-zA-Z_]+", self.path.removeprefix("/api/v1/"))
        return "_".join([self.method.lower(), *words])

    def get_tags(self) -> list[str]:
        """The last fixed part of the address that names a kind of thing."""
        kind = self.path.removeprefix("/api/v1/").partition("/")[0]
        return [kind if kind in _KINDS else "profiles"]

    def get_override_parameters(self) -> list[Any]:
        """Query parameters of the view, and headers that it must be sent."""
        view = self._described()
        headers = [
            OpenApiParameter(
                name=parameter.name,
                type=dict(parameter.schema),
                location=OpenApiParameter.HEADER,
                required=True,
                description=parameter.description,
            )
            for parameter in view.header_parameters(self.method)
        ]
        return headers + [
            OpenApiParameter(
                name=parameter.name,
                type=dict(parameter.schema),
                location=OpenApiParameter.QUERY,
                description=parameter.description,
            )
            for parameter in view.parameters(self.method)
        ]

    def get_request_serializer(self) -> Any:
        """The body, as a plain schema."""
        view = self._described()
        body = view.body(self.method)
        return {view.body_type(self.method): body} if body else {}

    def get_response_serializers(self) -> Any:
        """The reply, and the one error shape for everything else."""
        view = self._described()
        good = {
            (view.status_of(self.method), kind): reply
            for kind, reply in view.replies(self.method).items()
        }
        good |= {
            (status, view.media_type): reply
            for status, reply in view.other_replies(self.method).items()
        }
        return {
            **{place: reply or None for place, reply in good.items()},
            ("4XX", "application/json"): _ERROR_REFERENCE,
            ("5XX", "application/json"): _ERROR_REFERENCE,
        }

    def _described(self) -> ResourceView:
        view = self.view
        if not isinstance(view, ResourceView):
            raise TypeError(f"{type(view).__name__} does not say what it takes and answers")
        return view

    def _is_list_view(self, serializer: Any = None) -> bool:
        # Lists have an envelope of their own, which the view describes.
        return False
