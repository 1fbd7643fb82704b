"""The commands: ``dlprof`` and ``dlprofviewer``.

Importing them makes Python find the packages of this distribution beside this one first. Training
repositories may have a folder of their own named ``aggregator`` or ``viewer``, and ``PYTHONPATH=.``
is usual there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_OWN_PACKAGES = frozenset({"aggregator", "viewer"})
_FOLDER = __file__.rpartition("/profiler_cli/")[0]


class _OwnPackages:
    """Finds these packages in their folder; all others are found as ever.

    The folder at the front of ``sys.path`` would hide modules of the standard library: it is
    usually that of all installed packages.
    """

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a package is, if it is one of these."""
        return PathFinder.find_spec(name, [_FOLDER], target) if name in _OWN_PACKAGES else None


sys.meta_path.insert(0, _OwnPackages)
