"""dlprof's own collector in this process: begin to record, and get out of the process again."""

from __future__ import annotations

import ctypes
import os
from typing import Any

FOLDER_VARIABLE = "DLPROF_COLLECT"
_LIBRARY_VARIABLE = "NVTX_INJECTION64_PATH"


def _call(name: str) -> bool:
    library = os.environ.get(_LIBRARY_VARIABLE, "")
    if not library or not os.environ.get(FOLDER_VARIABLE):
        return False
    try:
        function: Any = getattr(ctypes.CDLL(library), name)
        return bool(function())
    except (OSError, AttributeError):
        return False


def begin() -> bool:
    """Record from now on; returns whether the collector does."""
    return _call("dlprof_collector_begin")


def detach() -> bool:
    """Record no more, and give CUPTI back; returns whether the process runs as without it."""
    return _call("dlprof_collector_detach")


def is_loaded() -> bool:
    """Return whether this process has the collector, and it can be detached."""
    library = os.environ.get(_LIBRARY_VARIABLE, "")
    if not library or not os.environ.get(FOLDER_VARIABLE):
        return False
    try:
        return hasattr(ctypes.CDLL(library), "dlprof_collector_detach")
    except OSError:
        return False
