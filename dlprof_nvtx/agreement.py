"""Let the ranks of a job decide alike: the first one that gets somewhere decides for all.

Their clocks differ, so that a window that ends after some seconds would end one step earlier in one
rank than in another. Ranks ask at the same numbers of their steps. They share the folder of the
``dlprof`` that runs them: those of another machine have one of their own, and may differ.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

FOLDER_VARIABLE = "DLPROF_REFERENCE"
"""Folder for messages to and from ``dlprof``; not set: collection began with the program."""
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""Of torchrun, and where a launcher starts each process: Slurm, Open MPI, MPICH."""


def rank() -> str:
    """Return the rank of this process as its launcher gives it; empty: it gives none."""
    return next((text for name in _RANKS if (text := os.environ.get(name))), "")


def has_ranks() -> bool:
    """Return whether this process is one of several that train together."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available():
        return False
    return bool(distributed.is_initialized() and distributed.get_world_size() > 1)


def agree(question: str, answer: str) -> str:
    """Return what the first rank that asked has answered; without a folder, the own answer."""
    folder = os.environ.get(FOLDER_VARIABLE, "")
    if not folder:
        return answer
    path = Path(folder) / f"agreed.{question}"
    try:
        # A link is there at once with its text, or not at all.
        path.symlink_to(answer)
    except FileExistsError:
        return str(path.readlink())
    except OSError:
        return answer
    return answer
