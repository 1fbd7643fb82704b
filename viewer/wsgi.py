"""The server's entry point."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from django.core.wsgi import get_wsgi_application

from viewer.loading import block_imports, load

_BODY_S = 20
_SLOWEST_BYTES_PER_S = 16 * 1024
_MAX_DIGITS = 18

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def below_prefix(application: Application, prefix: str) -> Application:
    """Serve below a path, whether or not the proxy in front removes the prefix from the path."""

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == prefix or path.startswith(f"{prefix}/"):
            environ["PATH_INFO"] = path[len(prefix) :] or "/"
        environ["SCRIPT_NAME"] = prefix
        return application(environ, start)

    return answer


def without_bodies(application: Application) -> Application:
    """Drop the body of a reply to HEAD; the web server would log a warning about it."""

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        body = application(environ, start)
        if environ.get("REQUEST_METHOD") != "HEAD":
            return body
        close = getattr(body, "close", None)
        if close is not None:
            close()
        return ()

    return answer


def with_body_deadline(application: Application) -> Application:
    """Limit how long the body of a request may take; a silent client is stopped by the socket."""

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        length = environ.get("CONTENT_LENGTH") or "0"
        connection = environ.get("gunicorn.socket")
        if length == "0" or len(length) > _MAX_DIGITS or connection is None:
            return application(environ, start)
        limit_s = _BODY_S + int(length) / _SLOWEST_BYTES_PER_S
        timer = threading.Timer(limit_s, _stop_reading, [connection])
        timer.daemon = True
        timer.start()
        try:
            return application(environ, start)
        finally:
            timer.cancel()

    return answer


def _stop_reading(connection: socket.socket) -> None:
    """Let the thread that reads a body see its end."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RD)


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "viewer.settings")
# Of Django REST framework's test client and pages, and of Django's own tests.
with block_imports("jinja2", "markdown", "pygments", "requests"):
    application: Application = get_wsgi_application()
    load("rest_framework.test")

# Django's applications have to be loaded first.
from viewer.settings import ENVIRONMENT  # noqa: E402
from viewer.state.prepare import prepare_state  # noqa: E402

if ENVIRONMENT.url_prefix:
    application = below_prefix(application, ENVIRONMENT.url_prefix)
application = with_body_deadline(without_bodies(application))
prepare_state()
