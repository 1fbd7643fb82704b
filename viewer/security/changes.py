"""Who may change: a page of ours, by cookie and CSRF token, or what no foreign page can play."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase, HttpResponseForbidden
from django.middleware.csrf import CsrfViewMiddleware

from viewer.environment import Environment
from viewer.security.access import has_bearer_token

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

_NO_FORM = frozenset({"PATCH", "DELETE"})


class ChangeGuardMiddleware(CsrfViewMiddleware):
    """Django's check, for every view, unless the request proves itself otherwise."""

    def process_view(
        self,
        request: HttpRequest,
        callback: Callable[..., HttpResponseBase],
        callback_args: tuple[Any, ...],
        callback_kwargs: dict[str, Any],
    ) -> HttpResponseForbidden | None:
        """Refuse a forged change; let everything else pass."""
        if request.method in _SAFE_METHODS or is_trusted(request, settings.ENVIRONMENT):
            return None
        if not _can_change(callback, request.method or ""):
            return None  # the view answers 405
        # DRF marks its views as exempt; here none is.
        return super().process_view(request, _not_exempt, callback_args, callback_kwargs)


def _can_change(callback: Callable[..., HttpResponseBase], method: str) -> bool:
    """Whether the view does anything on that method; one that does not say so might."""
    if getattr(callback, "only_reads", False):
        return False
    view = getattr(callback, "cls", None)
    name = method.lower()
    return view is None or (name in view.http_method_names and hasattr(view, name))


def _not_exempt(request: HttpRequest) -> HttpResponse:
    """Stands for any view that carries no exemption; never called."""
    raise NotImplementedError


def is_trusted(request: HttpRequest, environment: Environment) -> bool:
    """Whether a change needs no CSRF token.

    A bearer token is shown by scripts only. On a loopback address JSON is enough, or a method that
    no form has, for a foreign page cannot send either without asking first, provided that Origin
    is our own (the Host header has been checked, which keeps out a foreign name that resolves to
    this machine).
    """
    if has_bearer_token(request, environment):
        return True
    needs_asking = request.content_type == "application/json" or request.method in _NO_FORM
    return environment.is_loopback and needs_asking and _is_own_origin(request)


def _is_own_origin(request: HttpRequest) -> bool:
    site = request.headers.get("Sec-Fetch-Site", "same-origin")
    if site not in {"same-origin", "none"}:
        return False
    origin = request.headers.get("Origin")
    if origin is None:
        return True
    parts = urlsplit(origin)
    return (parts.scheme, parts.netloc) == (request.scheme, request.get_host())
