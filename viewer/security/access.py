"""Who may read and who may change something.

Without a token this machine may read, on a loopback address and without a proxy between; otherwise
every client with the token. Changes are made by the page, with its CSRF token, and by clients that
are not web pages.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase, HttpResponseForbidden
from django.middleware.csrf import CsrfViewMiddleware

from aggregator.system.wrong_tokens import MINUTE_S, WrongTokens
from aggregator.texts import say
from viewer.environment import Environment, is_loopback
from viewer.errors import error_response
from viewer.security.http import is_upload

_COOKIE_AGE_S = 30 * 24 * 3600
_OPEN_PATHS = ("/healthz", "/static/")

logger = logging.getLogger(__name__)


class AccessMiddleware:
    """Lets a request through, or answers 401, 403 or 429."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response
        self._wrong = WrongTokens()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request, or refuse it."""
        environment: Environment = settings.ENVIRONMENT
        if request.path_info.startswith(_OPEN_PATHS) or environment.no_auth:
            return self._get_response(request)
        if not environment.token:
            return self._answer_this_machine(request)
        if any(_is_token(shown, environment) for shown in _shown_tokens(request)):
            if "token" in request.GET and request.method == "GET":
                return _keep_token(request, environment)
            return self._get_response(request)
        address = request.META.get("REMOTE_ADDR", "")
        if self._wrong.are_too_many(address, shows_token=any(_shown_tokens(request))):
            return error_response(
                "TOO_MANY_WRONG_TOKENS",
                say("Too many requests with a wrong token came from this address."),
                hint=say("Try again in a minute."),
                status=429,
                headers={"Retry-After": str(MINUTE_S)},
            )
        return error_response(
            "TOKEN_MISSING",
            say("This viewer requires a token."),
            hint=say("Open the address that dlprofviewer printed, or send it as a bearer token."),
            status=401,
            headers={"WWW-Authenticate": "Bearer"},
        )

    def _answer_this_machine(self, request: HttpRequest) -> HttpResponse:
        if is_passed_on(request):
            return error_response(
                "PROXY_WITHOUT_TOKEN",
                say("This viewer only answers its own machine, and a proxy passed the request on."),
                hint=say("Behind a proxy start it with dlprofviewer --auth."),
                status=403,
            )
        peer = request.META.get("REMOTE_ADDR", "")
        # Empty: a Unix socket, which no other machine can reach.
        if not peer or is_loopback(peer):
            return self._get_response(request)
        return error_response(
            "NOT_THIS_MACHINE",
            say("This viewer only answers the machine that it runs on."),
            hint=say("Start it with dlprofviewer --bind, which makes a token."),
            status=403,
        )


_PROXY_HEADERS = ("HTTP_X_FORWARDED_", "HTTP_FORWARDED", "HTTP_VIA", "HTTP_X_REAL_IP")


def is_passed_on(request: HttpRequest) -> bool:
    """Return whether a proxy sent the request: its peer is then not the client.

    Without any settings nginx adds no header, but it speaks HTTP/1.0, which browsers do not.
    """
    is_old = request.META.get("SERVER_PROTOCOL") == "HTTP/1.0"
    return is_old or any(name.startswith(_PROXY_HEADERS) for name in request.META)


def has_bearer_token(request: HttpRequest, environment: Environment) -> bool:
    """Whether the request has the token in a header, which a page of another origin cannot set."""
    return _is_token(_bearer_token(request), environment)


def _bearer_token(request: HttpRequest) -> str:
    scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
    return shown.strip() if scheme.lower() == "bearer" else ""


def cookie_name(environment: Environment) -> str:
    """Name of the cookie. Browsers send a cookie to all ports of a host, so it has the port."""
    return f"dlprof_token_{environment.port}"


def _shown_tokens(request: HttpRequest) -> tuple[str, str, str]:
    environment: Environment = settings.ENVIRONMENT
    cookie = request.COOKIES.get(cookie_name(environment), "")
    return _bearer_token(request), cookie, request.GET.get("token", "")


def _is_token(shown: str, environment: Environment) -> bool:
    return bool(environment.token) and secrets.compare_digest(
        shown.encode(), environment.token.encode()
    )


def _keep_token(request: HttpRequest, environment: Environment) -> HttpResponse:
    """Move the token from the address, which is seen and shared, into a cookie."""
    rest = request.GET.copy()
    del rest["token"]
    # A relative address: it can lead nowhere but to this server.
    path = "/" + request.path.lstrip("/")
    response = HttpResponseRedirect(f"{path}?{rest.urlencode()}" if rest else path)
    response.set_cookie(
        cookie_name(environment),
        environment.token,
        max_age=_COOKIE_AGE_S,
        # Other applications on the host must not get it.
        path=f"{environment.url_prefix}/",
        httponly=True,
        # A link in a mail may open the viewer; changes are guarded separately.
        samesite="Lax",
        secure=request.is_secure(),
    )
    return response


#: A script may name itself; a false name gets at most the turns of several clients.
CLIENT_HEADER = "X-DLProf-Client"
_DIGEST_CHARACTERS = 16


def client_of(request: HttpRequest) -> str:
    """Identify the client of a request: by the name it sends, its browser, or its address.

    Browsers are distinguished by the CSRF cookie that each gets with the page. Only a digest is
    stored, which reveals neither the cookie nor the address.
    """
    if name := request.headers.get(CLIENT_HEADER, ""):
        return _digest("name", name)
    if cookie := request.COOKIES.get(settings.CSRF_COOKIE_NAME, ""):
        return _digest("browser", cookie)
    return _digest("address", request.META.get("REMOTE_ADDR", ""))


def _digest(kind: str, value: str) -> str:
    digest = hashlib.sha256(f"{settings.SECRET_KEY}{value}".encode()).hexdigest()
    return f"{kind}-{digest[:_DIGEST_CHARACTERS]}"


_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

_NO_FORM = frozenset({"PATCH", "DELETE"})


class ChangeGuardMiddleware(CsrfViewMiddleware):
    """Django's CSRF check for every view, except for requests that cannot be forged."""

    def process_view(
        self,
        request: HttpRequest,
        callback: Callable[..., HttpResponseBase],
        callback_args: tuple[Any, ...],
        callback_kwargs: dict[str, Any],
    ) -> HttpResponseForbidden | None:
        """Refuse a forged change."""
        if request.method in _SAFE_METHODS or is_trusted(request, settings.ENVIRONMENT):
            return None
        if not _can_change(callback, request.method or ""):
            return None  # the view answers 405
        # DRF marks its views as exempt; here they are checked too.
        return super().process_view(request, _not_exempt, callback_args, callback_kwargs)


def _can_change(callback: Callable[..., HttpResponseBase], method: str) -> bool:
    """Return whether the view handles the method; a view without a declaration might."""
    if getattr(callback, "only_reads", False):
        return False
    view = getattr(callback, "cls", None)
    name = method.lower()
    return view is None or (name in view.http_method_names and hasattr(view, name))


def _not_exempt(request: HttpRequest) -> HttpResponse:
    """Stand for a view without an exemption; never called."""
    raise NotImplementedError


def is_trusted(request: HttpRequest, environment: Environment) -> bool:
    """Return whether a change needs no CSRF token.

    A page of another origin cannot send a bearer token. On a loopback address it is enough that the
    request is one that a page of another origin cannot send without a CORS preflight (JSON, an
    upload, or a method that no form has), and that its Origin is this server. The Host header has
    been checked, which excludes foreign names that resolve to this machine.
    """
    if has_bearer_token(request, environment):
        return True
    needs_preflight = (
        request.content_type == "application/json"
        or request.method in _NO_FORM
        or is_upload(request)
    )
    return environment.is_loopback and needs_preflight and _is_own_origin(request)


def _is_own_origin(request: HttpRequest) -> bool:
    site = request.headers.get("Sec-Fetch-Site", "same-origin")
    if site not in {"same-origin", "none"}:
        return False
    origin = request.headers.get("Origin")
    if origin is None:
        return True
    parts = urlsplit(origin)
    return (parts.scheme, parts.netloc) == (request.scheme, request.get_host())
