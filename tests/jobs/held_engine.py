"""Copied as ``sitecustomize.py`` before a worker: its aggregations wait while a file is there.

The engine is the real one; only its first report of progress takes as long as the test wants.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

HOLD = os.environ.get("DLPROF_TEST_HOLD")
HOLD_PARTS = os.environ.get("DLPROF_TEST_HOLD_PARTS")


def _hold(original: Any, file: str | None) -> Any:
    def phase(self: Any, name: str, total_rows: int | None = None) -> None:
        original(self, name, total_rows)
        while file and Path(file).exists():
            self.advance(0)
            time.sleep(0.02)

    return phase


class _Patch:
    """Changes the class once the module that holds it has been loaded."""

    def __init__(self, module: str, class_name: str, file: str) -> None:
        self._module, self._class, self._file = module, class_name, file

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self._module:
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec

        spec = find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            patched = getattr(module, self._class)
            patched.phase = _hold(patched.phase, self._file)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if HOLD:
    sys.meta_path.insert(0, _Patch("aggregator.tasks", "JobProgress", HOLD))
if HOLD_PARTS:
    # A rank file of a job, whoever imports it.
    sys.meta_path.insert(0, _Patch("aggregator.rank_parts", "_Watching", HOLD_PARTS))
