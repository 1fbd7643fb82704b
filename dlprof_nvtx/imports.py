"""Change modules of libraries as soon as the program imports them, and not before."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from dlprof_nvtx.guard import report, say


def after_import(changes: dict[str, Callable[[ModuleType], None]]) -> None:
    """Call each function with the module of its name: now, or when the program imports it."""
    waiting = {}
    for name, change in changes.items():
        if name in sys.modules:
            apply(change, sys.modules[name])
        else:
            waiting[name] = change
    if waiting:
        sys.meta_path.insert(0, _AfterImport(waiting))


def apply(change: Callable[[ModuleType], None], module: ModuleType) -> None:
    """Change a module; what fails leaves the program as it is."""
    try:
        change(module)
    except Exception as error:  # noqa: BLE001 - internals of other libraries
        name = module.__name__
        say(f"dlprof_nvtx: some markers of {name} are missing: {error!r}")


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds modules as the other finders do, and changes them once they are loaded."""

    def __init__(self, changes: dict[str, Callable[[ModuleType], None]]) -> None:
        self._changes = changes

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec of a module to change, with a loader that changes it."""
        change = self._changes.pop(name, None)
        if change is None:
            return None
        spec = importlib.util.find_spec(name)
        try:
            if spec is not None and spec.loader is not None:
                change_after(spec.loader, change)
        except Exception as error:  # noqa: BLE001 - markers must never stop an import
            report(error)
        return spec


def change_after(loader: Any, change: Callable[[ModuleType], None]) -> None:
    """Let a loader change the module that it loads."""
    load = loader.exec_module

    def loaded(module: ModuleType) -> None:
        load(module)
        try:
            apply(change, module)
        except Exception as error:  # noqa: BLE001 - markers must never stop an import
            report(error)

    loader.exec_module = loaded
