"""Copied as ``sitecustomize.py`` before a worker: its aggregations wait while a file is there.

The engine is the real one; only its first report of progress takes as long as the test wants.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HOLD = os.environ.get("DLPROF_TEST_HOLD")
HOLD_RANKS = os.environ.get("DLPROF_TEST_HOLD_RANKS")


def _hold(original: Any, file: str) -> Any:
    def phase(self: Any, name: str, total_rows: int | None = None) -> None:
        original(self, name, total_rows)
        _wait(self, file)

    return phase


def _hold_import(original: Any, file: str) -> Any:
    def import_rank_file(options: Any, progress: Any) -> Any:
        _wait(progress, file)
        return original(options, progress)

    return import_rank_file


def _wait(progress: Any, file: str) -> None:
    if Path(file).exists() and Path(file).read_text() == "with Python's lock":
        Path(file).unlink()  # the next job is not held up
        re.match("(a+)+b", "a" * 60)
    while Path(file).exists():
        progress.advance(0)
        time.sleep(0.02)


class Patch:
    """Changes a module once it has been loaded."""

    def __init__(self, module: str, patch: Callable[[Any], None]) -> None:
        self._module, self._patch = module, patch

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
            self._patch(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _hold_jobs(module: Any) -> None:
    module.JobProgress.phase = _hold(module.JobProgress.phase, str(HOLD))


def _hold_rank_files(module: Any) -> None:
    module.import_rank_file = _hold_import(module.import_rank_file, str(HOLD_RANKS))


if HOLD:
    sys.meta_path.insert(0, Patch("aggregator.jobs.tasks", _hold_jobs))
if HOLD_RANKS:
    # A rank file of a job, in whatever process.
    sys.meta_path.insert(0, Patch("aggregator.ranks.pool", _hold_rank_files))
