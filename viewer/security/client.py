"""Who asks, as far as it can be told: jobs of different clients take turns."""

from __future__ import annotations

import hashlib

from django.conf import settings
from django.http import HttpRequest

#: A script may name itself; whoever lies gets at most the turns of several clients.
CLIENT_HEADER = "X-DLProf-Client"
_DIGEST_CHARACTERS = 16


def client_of(request: HttpRequest) -> str:
    """A name for who asks: the one it gives, its browser, or its address.

    Browsers are told apart by the cookie that each of them gets with the page. What is kept is a
    digest, from which nobody learns the cookie or the address.
    """
    if name := request.headers.get(CLIENT_HEADER, ""):
        return _digest("name", name)
    if cookie := request.COOKIES.get(settings.CSRF_COOKIE_NAME, ""):
        return _digest("browser", cookie)
    return _digest("address", request.META.get("REMOTE_ADDR", ""))


def _digest(kind: str, value: str) -> str:
    digest = hashlib.sha256(f"{settings.SECRET_KEY}{value}".encode()).hexdigest()
    return f"{kind}-{digest[:_DIGEST_CHARACTERS]}"
