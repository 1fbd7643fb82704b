"""Addresses of the server."""

from __future__ import annotations

from django.urls import include, path

from viewer.api.health import healthz
from viewer.api.metrics import metrics
from viewer.pages.shell import shell

urlpatterns = [
    path("", shell, name="shell"),
    path("healthz", healthz, name="healthz"),
    path("metrics", metrics, name="metrics"),
    path("api/v1/", include("viewer.api.urls")),
]

handler400 = "viewer.api.errors.bad_request"
handler403 = "viewer.api.errors.forbidden"
handler404 = "viewer.api.errors.not_found"
handler500 = "viewer.api.errors.server_error"
