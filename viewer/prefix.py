"""Serving below a path, where a proxy puts the viewer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def below_prefix(application: Application, prefix: str) -> Application:
    """Take a proxy's requests as they come: with the prefix on their path, or without it."""

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == prefix or path.startswith(f"{prefix}/"):
            environ["PATH_INFO"] = path[len(prefix) :] or "/"
        environ["SCRIPT_NAME"] = prefix
        return application(environ, start)

    return answer
