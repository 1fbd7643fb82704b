"""Which line of a call stack is the program's."""

from __future__ import annotations

import re
from functools import lru_cache

# PyTorch, its relatives and Python itself; the code of models in other packages is the program.
_LIBRARY = re.compile(
    r"(?:^|/)(?:torch|apex|dlprof_nvtx|pyprof)/"
    r"|/lib/python[\d.]+/(?!site-packages|dist-packages)"
    r"|^<|^(?:threading|runpy|contextlib|functools)\.py"
)


@lru_cache(maxsize=65536)
def program_line(stack_trace: str | None) -> str | None:
    """The innermost frame that lies in no library; the innermost of all where each does.

    Args:
        stack_trace: Frames, one per line, outermost first.

    Returns:
        The frame; None: no stack was recorded.
    """
    frames = [line.strip() for line in (stack_trace or "").splitlines()]
    frames = [frame for frame in frames if frame]
    own = (frame for frame in reversed(frames) if not _LIBRARY.search(frame))
    return next(own, frames[-1] if frames else None)
