"""Modules that are loaded when they are first used, so that the server starts without them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

_lock = threading.RLock()


def load(name: str) -> ModuleType:
    """Import a module in one thread at a time.

    Some libraries have modules that import each other. Two threads that begin with different ones
    would find modules of which only a part has been run.
    """
    with _lock:
        return import_module(name)


@contextmanager
def block_imports(*names: str) -> Iterator[None]:
    """Let imports of these modules fail within the block, unless they are loaded already.

    Libraries import them where they happen to be installed, for parts that are not used here.
    """
    hidden = [name for name in names if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment] # as the documentation of Python says
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
