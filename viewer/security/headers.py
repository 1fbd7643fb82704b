"""Headers that tell the browser what a page of ours may do."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

#: Plotly sets style attributes and draws images from data and blob addresses.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # The first address may carry the access token.
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_KEPT = (200, 304)
_ASK_AGAIN = "private, no-cache"


class SecurityHeadersMiddleware:
    """Adds them to every reply, errors and static files included."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer, with the headers."""
        response = self._get_response(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if not request.path_info.startswith("/static/"):
            # A reply shows the state of a file and of jobs; ask again each time. What has not
            # changed since is not sent again: the browser keeps it and shows its tag.
            kept = response.status_code in _KEPT and "ETag" in response.headers
            response.headers.setdefault("Cache-Control", _ASK_AGAIN if kept else "no-store")
        return response
