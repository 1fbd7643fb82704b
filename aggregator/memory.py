"""Memory that is free again, given back to the operating system; and less search for it."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pyarrow as pa


def give_back() -> None:
    """Return freed memory: the C library and Arrow keep that of many small arrays for themselves.

    Of the C library's nothing is returned where it has no such call.
    """
    pa.default_memory_pool().release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)


@contextmanager
def spared_from_collection() -> Iterator[None]:
    """What exists when the block begins is not searched for garbage again and again within it.

    The collector runs as often as new objects are made, and looks through all modules every time.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@cache
def _trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
