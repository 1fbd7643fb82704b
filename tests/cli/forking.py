"""The command in a process of its own, forked from one that has loaded the modules already.

Loading them takes longer than most of what the command does with the small files of these tests.
Run as a program, this file is that process: it reads a command a line from standard input.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Self

REPOSITORY = Path(__file__).resolve().parents[2]
#: How long a test waits before it fails; a loaded machine may need some of it.
LIMIT_S = 180


class Forks:
    """Runs ``dlprof`` again and again."""

    def __init__(self, folder: Path) -> None:
        self._outputs = [folder / name for name in ("stdout", "stderr")]
        self._server = subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.communicate()

    def run(
        self, words: list[str], cwd: Path, environment: Mapping[str, str], setting: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end; ``setting`` is a statement about the module ``capture``."""
        order = {
            "words": words,
            "cwd": str(cwd),
            "environment": dict(environment),
            "setting": setting,
            "outputs": list(map(str, self._outputs)),
        }
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(f"{json.dumps(order)}\n")
        self._server.stdin.flush()
        assert select.select([self._server.stdout], [], [], LIMIT_S)[0], f"no end of {words}"
        code = int(self._server.stdout.readline())
        out, err = (path.read_text() for path in self._outputs)
        return subprocess.CompletedProcess(words, code, out, err)


#: Loaded before the first command; each would load them again.
LOADED = (
    *("aggregator.pipeline", "aggregator.sources.nsys.reader", "aggregator.html_report.report"),
    *("profiler_cli.commands.analyze", "adbc_driver_sqlite", "pyarrow.compute", "secrets"),
)


def _serve() -> None:
    for name in LOADED:
        import_module(name)
    from profiler_cli.capture import capture
    from profiler_cli.dlprof import main

    for line in sys.stdin:
        order = json.loads(line)
        if not os.fork():
            _become(order)
            exec(order["setting"], {"capture": capture})
            sys.exit(main())
        print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)


def _become(order: dict[str, Any]) -> None:
    """Take over folder, environment and arguments; standard input is empty."""
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv[1:] = order["words"]
    created = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for number, path in enumerate(order["outputs"], 1):
        os.dup2(os.open(path, created, 0o600), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)


if __name__ == "__main__":
    _serve()
