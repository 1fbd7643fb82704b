"""The page; the application in it shows everything from the API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie

from viewer.errors import read_only

ENTRY = "src/main.tsx"
APPLICATION = "dlprof"


def read_bundle(static_files: Path) -> dict[str, Any] | None:
    """Addresses of what the build made of the application; None if it has not been built."""
    manifest = static_files / APPLICATION / ".vite" / "manifest.json"
    try:
        chunks: dict[str, dict[str, Any]] = json.loads(manifest.read_text())
    except FileNotFoundError:
        return None
    entry = chunks[ENTRY]
    imported = [chunks[name] for name in entry.get("imports", [])]
    styles = dict.fromkeys(name for chunk in [*imported, entry] for name in chunk.get("css", []))
    return {
        "script": _static(entry["file"]),
        "styles": [_static(name) for name in styles],
        "imports": [_static(chunk["file"]) for chunk in imported],
    }


@read_only
@ensure_csrf_cookie
def shell(request: HttpRequest) -> HttpResponse:
    """The page, with the application or with how to build it."""
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


def _static(name: str) -> str:
    return f"{settings.STATIC_URL}{APPLICATION}/{name}"
