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


def _hold(original: Any) -> Any:
    def phase(self: Any, name: str, total_rows: int | None = None) -> None:
        original(self, name, total_rows)
        while HOLD and Path(HOLD).exists():
            self.advance(0)
            time.sleep(0.02)

    return phase


class _Patch:
    """Changes the class once the module that holds it has been loaded."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "aggregator.tasks":
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec

        spec = find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            module.JobProgress.phase = _hold(module.JobProgress.phase)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if HOLD:
    sys.meta_path.insert(0, _Patch())
