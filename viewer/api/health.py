"""Whether the server runs."""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse


def healthz(request: HttpRequest) -> JsonResponse:
    """Answer without touching a database, so that it says only what it says."""
    return JsonResponse({"status": "ok"})
