"""Let a process stand by that runs already, and was not started with dlprof.

``dlprof attach`` has Python 3.14 run this between two instructions of the program's main thread.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dlprof_nvtx import agreement

_LIBRARY = "CUDA_INJECTION64_PATH"


def stand_by(environment: Mapping[str, str]) -> str:
    """Stand by from the next step on; returns why this process cannot, empty if it does.

    Args:
        environment: What ``dlprof --standby`` would have started this process with.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return "it has not imported PyTorch"
    if os.environ.get(agreement.FOLDER_VARIABLE):
        return "dlprof has started it"
    os.environ.update(environment)
    # Who decides when to record, to the library: see ``inject/sitecustomize.py``.
    Path(environment[agreement.FOLDER_VARIABLE], f"hold.{os.getpid()}").touch()
    from dlprof_nvtx import control

    if not control.init():
        return "it can have no markers: the reason is in its own output"
    # CUDA loads the library when it is initialized, which has happened long ago.
    ctypes.CDLL(environment[_LIBRARY]).InitializeInjection()
    return ""
