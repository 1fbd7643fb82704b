"""Who may look: on a loopback address this machine, elsewhere whoever has the token."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from aggregator.texts import say
from viewer.api.errors import error_response
from viewer.environment import Environment, is_loopback

_COOKIE_AGE_S = 30 * 24 * 3600
_OPEN_PATHS = ("/healthz", "/static/")


class AccessMiddleware:
    """Lets a request through, or answers 401 or 403."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer, or refuse to."""
        environment: Environment = settings.ENVIRONMENT
        if request.path_info.startswith(_OPEN_PATHS) or environment.no_auth:
            return self._get_response(request)
        if not environment.token:
            return self._answer_this_machine(request)
        if _has_token(request, environment):
            if "token" in request.GET and request.method == "GET":
                return _keep_token(request, environment)
            return self._get_response(request)
        return error_response(
            "TOKEN_MISSING",
            say("This viewer asks for a token."),
            hint=say("Open the address that dlprofviewer printed, or send it as a bearer token."),
            status=401,
            headers={"WWW-Authenticate": "Bearer"},
        )

    def _answer_this_machine(self, request: HttpRequest) -> HttpResponse:
        peer = request.META.get("REMOTE_ADDR", "")
        # Empty: a Unix socket, which no other machine can reach.
        if not peer or is_loopback(peer):
            return self._get_response(request)
        return error_response(
            "NOT_THIS_MACHINE",
            say("This viewer answers the machine that it runs on only."),
            hint=say("Start it with dlprofviewer --bind, which makes a token."),
            status=403,
        )


def has_bearer_token(request: HttpRequest, environment: Environment) -> bool:
    """Whether the request shows the token in a header, which no foreign page can make it do."""
    scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
    return scheme.lower() == "bearer" and _is_token(shown.strip(), environment)


def cookie_name(environment: Environment) -> str:
    """Cookies do not tell ports apart, so that the name has to."""
    return f"dlprof_token_{environment.port}"


def _has_token(request: HttpRequest, environment: Environment) -> bool:
    return (
        has_bearer_token(request, environment)
        or _is_token(request.COOKIES.get(cookie_name(environment), ""), environment)
        or _is_token(request.GET.get("token", ""), environment)
    )


def _is_token(shown: str, environment: Environment) -> bool:
    return bool(environment.token) and secrets.compare_digest(
        shown.encode(), environment.token.encode()
    )


def _keep_token(request: HttpRequest, environment: Environment) -> HttpResponse:
    """Move the token from the address, which is seen and shared, into a cookie."""
    rest = [(name, value) for name, value in _pairs(request) if name != "token"]
    # A relative address: it can lead nowhere but to this server.
    path = "/" + request.path.lstrip("/")
    response = HttpResponseRedirect(f"{path}?{urlencode(rest)}" if rest else path)
    response.set_cookie(
        cookie_name(environment),
        environment.token,
        max_age=_COOKIE_AGE_S,
        # What else the host serves beside our path is not to get it.
        path=f"{environment.url_prefix}/",
        httponly=True,
        # A link in a mail may open the viewer; changes are guarded separately.
        samesite="Lax",
        secure=request.is_secure(),
    )
    return response


def _pairs(request: HttpRequest) -> list[tuple[str, str]]:
    return [(name, value) for name, values in request.GET.lists() for value in values]
