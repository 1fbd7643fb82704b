"""Copied as ``sitecustomize.py`` before a viewer: a file makes its temporary folder a full one.

What is kept in memory, and what has been written before, stays as it is.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from held_engine import Patch  # type: ignore[import-not-found]  # copied beside it

FULL = os.environ.get("DLPROF_TEST_FULL", "")
IN_MEMORY_BYTES = os.environ.get("DLPROF_TEST_IN_MEMORY_BYTES", "")


def _refusing(original: Any) -> Any:
    def make(*args: Any, **kwargs: Any) -> Any:
        if Path(FULL).exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(*args, **kwargs)

    return make


def _failing(original: Any) -> Any:
    def make(*args: Any, **kwargs: Any) -> Any:
        # Opening such a file succeeds, writing does not.
        if Path(FULL).exists():
            return Path("/dev/full").open("w+b")
        return original(*args, **kwargs)

    return make


def _keep_less(module: Any) -> None:
    module._SPOOLED_BYTES = int(IN_MEMORY_BYTES)


if FULL:
    sys.meta_path.insert(0, Patch("viewer.api.tables", _keep_less))
    tempfile.TemporaryFile = _failing(tempfile.TemporaryFile)
    for name in ("mkdtemp", "mkstemp"):
        setattr(tempfile, name, _refusing(getattr(tempfile, name)))
