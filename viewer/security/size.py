"""Requests are small JSON documents or parts of an upload; anything else is not read."""

from __future__ import annotations

import re
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from aggregator.texts import say
from viewer.api.errors import error_response

_UPLOAD = re.compile(r"^/api/v1/uploads/[^/]+/$")
_MAX_DIGITS = 18


class BodySizeMiddleware:
    """Refuses a large body before it is read; one of unknown length is never read at all."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer, or refuse to."""
        length = request.headers.get("Content-Length", "")
        limit = _limit(request)
        # No request of ours has so many digits, and int() refuses thousands of them.
        if length.isdecimal() and (len(length) > _MAX_DIGITS or int(length) > limit):
            return error_response(
                "BODY_TOO_LARGE",
                say("The body is larger than the {limit:,} bytes that it may have.", limit=limit),
                status=413,
            )
        return self._get_response(request)


def _limit(request: HttpRequest) -> int:
    if is_upload_part(request):
        return int(settings.ENVIRONMENT.upload_chunk_bytes)
    return int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)


def is_upload_part(request: HttpRequest) -> bool:
    """Whether the body is a part of a file."""
    return request.method == "PATCH" and bool(_UPLOAD.match(request.path_info))
