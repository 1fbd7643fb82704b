"""The page; the application in it shows everything from the API."""

from __future__ import annotations

import json
from http import HTTPStatus
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie

from viewer import errors
from viewer.errors import read_only

ENTRY = "src/main.tsx"
APPLICATION = "dlprof"
_NO_PAGES = ("/api/", "/static/")


def read_bundle(static_files: Path) -> dict[str, Any] | None:
    """Return addresses of what the build made of the application; None if it has not been built."""
    manifest = static_files / APPLICATION / ".vite" / "manifest.json"
    try:
        chunks: dict[str, dict[str, Any]] = json.loads(manifest.read_text())
    except FileNotFoundError:
        return None
    entry = chunks[ENTRY]
    imported = [chunks[name] for name in _imported(chunks, ENTRY)]
    styles = dict.fromkeys(name for chunk in [*imported, entry] for name in chunk.get("css", []))
    return {
        "script": _static(entry["file"]),
        "styles": [_static(name) for name in styles],
        "imports": [_static(chunk["file"]) for chunk in imported],
    }


def _imported(chunks: dict[str, dict[str, Any]], name: str) -> list[str]:
    """Return the chunks that one needs to run: what it imports, and what those import."""
    found: dict[str, None] = {}
    for imported in chunks[name].get("imports", []):
        found |= dict.fromkeys([imported, *_imported(chunks, imported)])
    return list(found)


@read_only
@ensure_csrf_cookie
def shell(request: HttpRequest) -> HttpResponse:
    """Return the page, with the application or with how to build it."""
    bundle = read_bundle(settings.STATIC_FILES)
    if bundle is None:
        return render(request, "not_built.html", status=503)
    values = {
        "prefix": settings.ENVIRONMENT.url_prefix,
        "bundle": bundle,
        "static": _static(""),
        "feedback": settings.ENVIRONMENT.feedback,
    }
    return render(request, "shell.html", values)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Return Django's 404: the page, for a browser; for other clients the error of the API."""
    is_page = request.method == "GET" and not request.path_info.startswith(_NO_PAGES)
    if not (is_page and "text/html" in request.headers.get("Accept", "")):
        return errors.not_found(request, exception)
    response = shell(request)
    response.status_code = max(response.status_code, HTTPStatus.NOT_FOUND)
    return response


def _static(name: str) -> str:
    return f"{settings.STATIC_URL}{APPLICATION}/{name}"
