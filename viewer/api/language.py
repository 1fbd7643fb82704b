"""Replies in the client's language: what reads the wish, and what writes the words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers
from django.utils.translation.trans_real import parse_accept_lang_header
from rest_framework.renderers import JSONRenderer

from aggregator.system.replies import message_encoder
from aggregator.tables.connection import plain_tree
from aggregator.texts import ENGLISH, LANGUAGES, current_language, localized, use_language


def preferred_language(header: str) -> str:
    """Return the supported language with the highest weight in an ``Accept-Language`` header.

    Returns English if the header names no supported language.
    """
    weighted = [(tag.partition("-")[0], q) for tag, q in parse_accept_lang_header(header)]
    return next((name for name, q in weighted if name in LANGUAGES and q > 0), ENGLISH)


class LanguageMiddleware:
    """Sets the language for everything that a request leads to."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Return the answer in the language asked for."""
        with use_language(preferred_language(request.headers.get("Accept-Language", ""))):
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
        if isinstance(data, msgspec.Struct):
            return msgspec.json.encode(data, enc_hook=message_encoder(current_language()))
        spoken = localized(data, current_language())
        try:
            rendered: bytes = super().render(spoken, accepted_media_type, renderer_context)
        except ValueError:
            # A damaged database: infinities and bytes where numbers and texts belong.
            spoken = plain_tree(spoken)
            rendered = super().render(spoken, accepted_media_type, renderer_context)
        return rendered
