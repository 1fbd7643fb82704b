"""Let the ranks of a job decide alike: the first one that gets somewhere decides for all.

Their clocks differ, so that a window that ends after some seconds would end one step earlier in one
rank than in another. Ranks ask at the same numbers of their steps. Those that one ``dlprof`` runs
share its folder; all others share the store by which their process group found itself.
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
_SIZE_OF_LAUNCHER = "LOCAL_WORLD_SIZE"
"""Processes that one torchrun runs on its machine; others start each process by itself."""


def rank() -> str:
    """Return the rank of this process as its launcher gives it; empty: it gives none."""
    return next((text for name in _RANKS if (text := os.environ.get(name))), "")


def has_ranks() -> bool:
    """Return whether this process is one of several that train together."""
    return _ranks() > 1


def _ranks() -> int:
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 0
    return int(distributed.get_world_size())


def agree(question: str, answer: str) -> str:
    """Return what the first rank that asked has answered; without a folder, the own answer."""
    folder = os.environ.get(FOLDER_VARIABLE, "")
    if not folder:
        return answer
    path = Path(folder) / f"agreed.{question}"
    try:
        if _is_spread():
            if path.is_symlink():
                return str(path.readlink())
            answer = _first_answer(question, answer)
        # A link is there at once with its text, or not at all.
        path.symlink_to(answer)
    except FileExistsError:
        return str(path.readlink())
    except OSError:
        return answer
    return answer


def _is_spread() -> bool:
    """Return whether some ranks of the job have another launcher, and so another ``dlprof``."""
    size = os.environ.get(_SIZE_OF_LAUNCHER, "")
    return _ranks() > (int(size) if size.isdecimal() else 1)


def _first_answer(question: str, answer: str) -> str:
    """Ask the store of the process group; the own answer is the last resort.

    The store is not kept: its server would outlive the group, and hold its port.
    """
    try:
        module: Any = sys.modules["torch.distributed.distributed_c10d"]
        found: bytes = module._get_default_store().compare_set(f"dlprof.{question}", "", answer)
        return found.decode()
    except (KeyError, AttributeError, RuntimeError, ValueError):
        return answer
