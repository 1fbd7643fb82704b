"""Brings the PyTorch markers into the application without a change to its script.

In the modes of other frameworks only the import path ``nvtx.plugins.tf`` is brought in.

Python imports a module ``sitecustomize`` at its start, before any script, in every process that
the application starts: ranks of ``torchrun`` and plain subprocesses alike. Ours waits for torch.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aggregator.options import Mode

if TYPE_CHECKING:
    from profiler_cli.options import Options

PACKAGE: Final = "dlprof_nvtx"
FOLDER: Final = "inject"
ENABLE_VARIABLE: Final = "DLPROF_NVTX"
_MODES: Final = frozenset({Mode.AUTO, Mode.PYTORCH})


def application_environment(options: Options) -> dict[str, str]:
    """The environment for the application; ``DLPROF_NVTX=0`` in the user's leaves markers out."""
    environment = dict(os.environ)
    folder = _folder()
    if folder is None or environment.get(ENABLE_VARIABLE) == "0":
        return environment
    before = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = f"{folder}{os.pathsep}{before}" if before else str(folder)
    environment[ENABLE_VARIABLE] = "1" if options.mode in _MODES else "plugins"
    return environment


def _folder() -> Path | None:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / FOLDER
    return folder if folder.is_dir() else None
