"""Error replies. All have one shape: ``{"error": {"code", "message", "hint", "details"}}``."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from django.core.exceptions import DisallowedHost
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from rest_framework import exceptions
from rest_framework.response import Response

from aggregator.errors import DlprofError, JSONValue
from aggregator.texts import current_language, localized, say

_READING = ("GET", "HEAD")
_RETRY_AFTER_S = "5"
_DRF_CODES: dict[type[exceptions.APIException], tuple[str, str, str]] = {
    exceptions.NotFound: ("NOT_FOUND", say("There is nothing at this address."), ""),
    exceptions.MethodNotAllowed: (
        "METHOD_NOT_ALLOWED",
        say("This address does not support the method."),
        say("The Allow header lists the supported methods."),
    ),
    exceptions.ParseError: (
        "INVALID_JSON",
        say("The body is not valid JSON."),
        say("Send one JSON object."),
    ),
    exceptions.UnsupportedMediaType: (
        "UNSUPPORTED_MEDIA_TYPE",
        say("The content type of the body is not supported."),
        say("Send JSON, with Content-Type: application/json."),
    ),
    exceptions.NotAcceptable: (
        "NOT_ACCEPTABLE",
        say("The client accepts no content type of the replies."),
        say("Replies are application/json."),
    ),
}


_CODES: dict[int, str] = {
    400: "UNKNOWN_DOMAIN UPLOAD_INCOMPLETE",
    403: "PATH_NOT_ALLOWED RECORDING_NOT_ALLOWED",
    404: "ITERATION_NOT_FOUND JOB_NOT_FOUND OP_NOT_FOUND PROFILE_NOT_SERVED UPLOAD_NOT_FOUND",
    409: "CANNOT_REAGGREGATE JOB_STATE PROFILE_BUSY READ_ONLY_PROFILE TIMELINE_CHANGED",
    413: "PROFILE_TOO_LARGE",
    422: "PROFILE_REFUSED REPORT_NEEDS_NSYS",
    429: "TOO_MANY_JOBS",
    500: "INTERNAL_ERROR WORKER_LOST",
    503: "STATE_UNAVAILABLE",
    507: "STORAGE_FULL",
}
_STATUS = {code: status for status, codes in _CODES.items() for code in codes.split()}


class ViewerError(DlprofError):
    """A request that cannot be served: what is named does not exist, or is not allowed now."""

    def __init__(self, message: str, code: str, *, hint: str = "", **details: JSONValue) -> None:
        super().__init__(message, hint=hint, **details)
        self.code, self.http_status = code, _STATUS[code]


def error_body(
    code: str, message: str, hint: str = "", details: Mapping[str, JSONValue] | None = None
) -> dict[str, Any]:
    """Return the body of every error reply."""
    error = {"code": code, "message": message, "hint": hint, "details": dict(details or {})}
    return {"error": error}


def error_response(
    code: str,
    message: str,
    *,
    status: int,
    hint: str = "",
    headers: Mapping[str, str] | None = None,
) -> JsonResponse:
    """Return an error reply from outside the API's views."""
    body = localized(error_body(code, message, hint), current_language())
    return JsonResponse(body, status=status, headers=headers)


def exception_handler(exc: Exception, context: Mapping[str, Any]) -> Response | None:
    """Turn an exception of a view into a reply; None leaves it to ``server_error``."""
    if isinstance(exc, DlprofError):
        return Response(
            {"error": exc.to_dict()}, status=exc.http_status, headers=_when(exc.http_status)
        )
    if isinstance(exc, OperationalError):
        # The only database of Django's is the viewer's own state.
        logging.getLogger(__name__).error("the state cannot be used: %s", exc)
        error = ViewerError(
            say("The viewer's own state cannot be used: {reason}.", reason=exc),
            "STATE_UNAVAILABLE",
            hint=say("Its disk may be full, or its folder not be writable."),
        )
        return Response({"error": error.to_dict()}, status=503, headers=_when(503))
    if isinstance(exc, exceptions.APIException):
        return _drf_response(exc, context)
    return None


def _when(status: int) -> dict[str, str]:
    """Return when to ask again what was refused because the server, or a file, is busy."""
    return {"Retry-After": _RETRY_AFTER_S} if status == HTTPStatus.SERVICE_UNAVAILABLE else {}


def bad_request(request: HttpRequest, exception: Exception | None = None) -> JsonResponse:
    """Return Django's 400, in most cases for a Host header that is not allowed."""
    if isinstance(exception, DisallowedHost):
        return error_response(
            "HOST_NOT_ALLOWED",
            say("This viewer does not answer to that host name."),
            hint=say("Start it with dlprofviewer --allowed-host NAME."),
            status=400,
        )
    return error_response("BAD_REQUEST", say("The request is not valid."), status=400)


def forbidden(request: HttpRequest, exception: Exception | None = None) -> JsonResponse:
    """Return Django's 403."""
    return error_response("FORBIDDEN", say("That is not allowed."), status=403)


def read_only(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Make a view outside the API answer 405 to any method but GET and HEAD."""

    @functools.wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        if request.method in _READING:
            return view(request)
        code, message, hint = _DRF_CODES[exceptions.MethodNotAllowed]
        headers = {"Allow": ", ".join(_READING)}
        return error_response(code, message, hint=hint, status=405, headers=headers)

    # The change guard asks for no CSRF token where nothing can be changed.
    answer.only_reads = True  # type: ignore[attr-defined]
    return answer


def csrf_failure(request: HttpRequest, reason: str = "") -> JsonResponse:
    """Return a change without a valid CSRF token or origin."""
    return error_response(
        "CSRF_FAILED",
        say("The change was refused: {reason}", reason=reason or say("its origin is unknown")),
        hint=say("Reload the page, or send a bearer token."),
        status=403,
    )


def not_found(request: HttpRequest, exception: Exception | None = None) -> JsonResponse:
    """The 404 of the API and of clients that are no browser: an address that does not exist."""
    hint = "" if request.path.endswith("/") else say("Addresses end with a slash.")
    return error_response(
        "NOT_FOUND", say("There is nothing at this address."), hint=hint, status=404
    )


def server_error(request: HttpRequest) -> JsonResponse:
    """Return Django's 500: an internal error; the traceback is in the server's log."""
    return error_response(
        "INTERNAL_ERROR",
        say("Internal error of the viewer."),
        hint=say(
            "The server's log has the details (DLPROF_LOG_FORMAT=line shows it); please report it."
        ),
        status=500,
    )


def _drf_response(exc: exceptions.APIException, context: Mapping[str, Any]) -> Response:
    plain = (exc.default_code.upper(), str(exc.detail), "")
    code, message, hint = _DRF_CODES.get(type(exc), plain)
    headers = {}
    if isinstance(exc, exceptions.MethodNotAllowed):
        headers["Allow"] = ", ".join(context["view"].allowed_methods)
    return Response(error_body(code, message, hint), status=exc.status_code, headers=headers)
