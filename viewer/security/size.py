"""Requests are small JSON documents; anything else is not read."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from aggregator.texts import say
from viewer.api.errors import error_response


class BodySizeMiddleware:
    """Refuses a large body before it is read; one of unknown length is never read at all."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer, or refuse to."""
        length = request.headers.get("Content-Length", "")
        if length.isdecimal() and int(length) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            return error_response(
                "BODY_TOO_LARGE", say("The body is larger than any request needs."), status=413
            )
        return self._get_response(request)
