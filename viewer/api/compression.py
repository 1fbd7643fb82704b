"""Replies as zstd where the client takes it and a library for it is installed, else as gzip.

For these replies zstd takes a third to an eighth of gzip's time and is a little smaller.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import cast

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils.cache import patch_vary_headers

#: In Python's library since 3.14; before, the same module is a package of its own.
_MODULES = ("compression.zstd", "backports.zstd")
_LEVEL = 3
_SHORTEST = 200


def _find_zstd() -> ModuleType | None:
    for name in _MODULES:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


ZSTD = _find_zstd()


class CompressionMiddleware(GZipMiddleware):
    """Compresses replies of some length."""

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        """The reply in the best coding that both sides know."""
        accepted = request.headers.get("Accept-Encoding", "")
        known = ZSTD is not None and _takes_zstd(accepted)
        if not known or response.has_header("Content-Encoding"):
            return super().process_response(request, response)
        if isinstance(response, HttpResponse):
            return _compressed(response)
        if isinstance(response, StreamingHttpResponse) and not response.is_async:
            chunks = cast("Iterable[bytes]", response.streaming_content)
            response.streaming_content = _compressed_stream(chunks)
            del response.headers["Content-Length"]
            _say_so(response)
        return response


def _takes_zstd(accepted: str) -> bool:
    """Whether a client names zstd, and not with the weight of what it does not want."""
    for coding in accepted.split(","):
        name, _, weight = coding.partition(";")
        if name.strip().lower() == "zstd":
            return re.fullmatch(r"\s*q\s*=\s*0(\.0*)?\s*", weight) is None
    return False


def _compressed(response: HttpResponse) -> HttpResponse:
    if len(response.content) < _SHORTEST:
        return response
    assert ZSTD is not None
    packed: bytes = ZSTD.compress(response.content, _LEVEL)
    if len(packed) < len(response.content):
        response.content = packed
        response.headers["Content-Length"] = str(len(packed))
        _say_so(response)
    else:
        patch_vary_headers(response, ("Accept-Encoding",))
    return response


def _compressed_stream(chunks: Iterable[bytes]) -> Iterator[bytes]:
    assert ZSTD is not None
    compressor = ZSTD.ZstdCompressor(_LEVEL)
    for chunk in chunks:
        if packed := compressor.compress(chunk):
            yield packed
    yield compressor.flush()


def _say_so(response: HttpResponseBase) -> None:
    """Headers of a compressed reply; its ETag is that of another representation, so a weak one."""
    patch_vary_headers(response, ("Accept-Encoding",))
    etag = response.headers.get("ETag", "")
    if etag.startswith('"'):
        response.headers["ETag"] = f"W/{etag}"
    response.headers["Content-Encoding"] = "zstd"
