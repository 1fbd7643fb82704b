"""Let a process stand by that runs already, and was not started with dlprof.

``dlprof attach`` has Python 3.14 run this between two instructions of the program's main thread,
after it has set the variables with which ``dlprof --standby`` would have started the program.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from dlprof_nvtx import agreement, control

_LIBRARY = "CUDA_INJECTION64_PATH"


def stand_by() -> str:
    """Stand by from the next step on; returns why this process cannot, empty if it does."""
    # Who decides when to record, to the library: see ``inject/sitecustomize.py``.
    Path(os.environ[agreement.FOLDER_VARIABLE], f"hold.{os.getpid()}").touch()
    if not control.init():
        return "it can have no markers: the reason is in its own output"
    # CUDA loads the library when it is initialized, which has happened long ago.
    ctypes.CDLL(os.environ[_LIBRARY]).InitializeInjection()
    return ""
