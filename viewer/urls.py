"""Addresses of the server."""

from __future__ import annotations

from django.urls import include, path

from viewer.api.health import healthz, metrics
from viewer.shell import shell

urlpatterns = [
    path("", shell, name="shell"),
    path("healthz", healthz, name="healthz"),
    path("metrics", metrics, name="metrics"),
    path("api/v1/", include("viewer.api.urls")),
]

handler400 = "viewer.errors.bad_request"
handler403 = "viewer.errors.forbidden"
handler404 = "viewer.shell.not_found"
handler500 = "viewer.errors.server_error"
