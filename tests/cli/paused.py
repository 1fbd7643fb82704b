"""``dlprof`` that stops at a word of its progress and waits there for a test to end it.

``python paused.py METHOD WORD MARK ...``: once the console's ``METHOD`` is called (``phase`` or
``message``) of something that begins with ``WORD``, the file ``MARK`` appears; what follows are
the words of ``dlprof``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from profiler_cli.console import Console
from profiler_cli.dlprof import main


def pausing(original: Callable[..., None], word: str, mark: Path) -> Callable[..., None]:
    """A method that does not come back from such a word."""

    def paused(self: Console, text: str, *more: Any) -> None:
        original(self, text, *more)
        if text.startswith(word):
            mark.touch()
            while True:
                time.sleep(0.02)

    return paused


if __name__ == "__main__":
    method, wanted, reached = sys.argv[1:4]
    setattr(Console, method, pausing(getattr(Console, method), wanted, Path(reached)))
    sys.exit(main(sys.argv[4:]))
