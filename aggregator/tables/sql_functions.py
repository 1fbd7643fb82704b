"""Functions of our own in the SQL of tables."""

from __future__ import annotations

import re
import sqlite3
from functools import lru_cache

from aggregator.kernels.traits import kernel_traits
from aggregator.system.sql_process import SqlProcess

# PyTorch, its relatives and Python itself; the code of models in other packages is the program.
_LIBRARY = re.compile(
    r"(?:^|/)(?:torch|apex|dlprof_nvtx|pyprof)/"
    r"|/lib/python[\d.]+/(?!site-packages|dist-packages)"
    r"|^<|^(?:threading|runpy|contextlib|functools)\.py"
)


@lru_cache(maxsize=65536)
def program_line(stack_trace: object) -> str | None:
    """The innermost frame of a call stack that lies in no library; else the innermost of all.

    Frames come one per line, outermost first. None: no stack was recorded, or it is no text.
    """
    if not isinstance(stack_trace, str):
        return None
    frames = [line.strip() for line in stack_trace.splitlines()]
    frames = [frame for frame in frames if frame]
    own = (frame for frame in reversed(frames) if not _LIBRARY.search(frame))
    return next(own, frames[-1] if frames else None)


def is_communication(kernel_name: object) -> bool:
    """Return whether a kernel moves data between GPUs, by its name."""
    return isinstance(kernel_name, str) and kernel_traits(kernel_name).is_communication


def add_functions(connection: sqlite3.Connection | SqlProcess) -> None:
    """Let the queries of a connection use the functions."""
    if isinstance(connection, SqlProcess):
        connection.add_functions(add_functions)
        return
    for function in (program_line, is_communication):
        connection.create_function(function.__name__, 1, function, deterministic=True)
