"""Security headers of replies, and limits on the bodies of requests."""

from __future__ import annotations

import functools
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse, UnreadablePostError

from aggregator.tables.connection import ABANDONED
from aggregator.texts import say
from viewer.errors import error_response
from viewer.security.places import PLACES, NoPlaceError, has_left

#: Plotly sets style attributes and draws images from data and blob addresses.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # The first address may carry the access token.
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_KEPT = (200, 304)
_ASK_AGAIN = "private, no-cache"


class SecurityHeadersMiddleware:
    """Adds the headers to every reply, errors and static files included."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request, with the headers."""
        response = self._get_response(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if not request.path_info.startswith("/static/"):
            # A reply depends on files and jobs, so the browser has to ask again each time. It sends
            # the ETag of what it has, and gets 304 if that has not changed.
            kept = response.status_code in _KEPT and "ETag" in response.headers
            response.headers.setdefault("Cache-Control", _ASK_AGAIN if kept else "no-store")
        return response


_UPLOADS = "/api/v1/uploads/"
UPLOAD_TYPE = "application/octet-stream"
_MAX_DIGITS = 18
_PROFILES = "/api/v1/profiles/"
_BUSY_S = 5


class RequestLimitsMiddleware:
    """Refuses large bodies before they are read, and limits the requests worked on at a time.

    The server has a thread for each slow client. A body is read before the request takes one of
    the few places, so that slow clients do not occupy them.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request, or refuse it with 408, 413 or 503."""
        if is_upload(request) or not request.path_info.startswith("/api/"):
            return self._get_response(request)
        length = request.headers.get("Content-Length", "")
        limit = int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        if length.isdecimal() and (len(length) > _MAX_DIGITS or int(length) > limit):
            return error_response(
                "BODY_TOO_LARGE",
                say("The body is larger than the {limit:,} bytes that it may have.", limit=limit),
                status=413,
            )
        try:
            _ = request.body
        except UnreadablePostError:
            return error_response(
                "REQUEST_TIMEOUT", say("The body of the request did not arrive."), status=408
            )
        left = functools.partial(has_left, request.META.get("gunicorn.socket"))
        path = request.path_info
        profile = path[len(_PROFILES) :].partition("/")[0] if path.startswith(_PROFILES) else ""
        # Queries of a client that has left end, and free the place.
        token = ABANDONED.set(left)
        try:
            with PLACES.take(profile, left):
                return self._get_response(request)
        except NoPlaceError:
            return error_response(
                "SERVER_BUSY",
                say("The viewer has more requests than it can answer."),
                hint=say("Try again in a moment."),
                status=503,
                headers={"Retry-After": str(_BUSY_S)},
            )
        finally:
            ABANDONED.reset(token)


def is_upload(request: HttpRequest) -> bool:
    """Return whether the body is a file. A page of another origin cannot send this type unasked."""
    return (
        request.method == "POST"
        and request.path_info == _UPLOADS
        and request.content_type == UPLOAD_TYPE
    )
