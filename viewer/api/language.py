"""Replies in the client's language: what reads the wish, and what writes the words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers
from rest_framework.renderers import JSONRenderer

from aggregator.query.connection import plain_tree
from aggregator.texts import localized
from aggregator.texts.language import current_language, preferred_language, speaking


class LanguageMiddleware:
    """Sets the language for everything that a request leads to."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer in the language asked for."""
        with speaking(preferred_language(request.headers.get("Accept-Language", ""))):
            response = self._get_response(request)
        if request.path_info.startswith("/api/"):
            patch_vary_headers(response, ["Accept-Language"])
        return response


class LocalizedJSONRenderer(JSONRenderer):
    """JSON with its sentences in the client's language."""

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Any = None,
    ) -> bytes:
        """The bytes of a reply."""
        spoken = localized(data, current_language())
        try:
            rendered: bytes = super().render(spoken, accepted_media_type, renderer_context)
        except ValueError:
            # A damaged database: infinities and bytes where numbers and texts belong.
            spoken = plain_tree(spoken)
            rendered = super().render(spoken, accepted_media_type, renderer_context)
        return rendered
