"""Addresses outside the API, which can only be read."""

from __future__ import annotations

import functools
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from viewer.api.errors import method_not_allowed

_METHODS = ("GET", "HEAD")

View = Callable[[HttpRequest], HttpResponse]


def read_only(view: View) -> View:
    """Answer 405, in the one error shape, to any method but GET and HEAD."""

    @functools.wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        return view(request) if request.method in _METHODS else method_not_allowed(_METHODS)

    # Nothing to guard: nobody is asked for a CSRF token to be told that there is nothing to do.
    answer.only_reads = True  # type: ignore[attr-defined]
    return answer
