"""Replies to HEAD: the headers, and not the body that they tell of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from viewer.prefix import Application


def without_bodies(application: Application) -> Application:
    """Drop the body of a reply to HEAD before it is made; the web server would complain of it."""

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        body = application(environ, start)
        if environ.get("REQUEST_METHOD") != "HEAD":
            return body
        close = getattr(body, "close", None)
        if close is not None:
            close()
        return ()

    return answer
