"""Run the tutorial for PyTorch on a GPU: ``python3 -m tests.gpu.tutorial FOLDER``.

Its commands run in their order, in a folder of their own; FOLDER gets what each printed. The trial
is a short one, so that all of it takes about three minutes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PAGE: Final = REPOSITORY / "docs/tutorial-pytorch.md"
SHORT: Final = "dlprof trial --repeats=3 --steps=60"
LIMIT_S: Final = 110
"""For a command; "timeout" ends it as Ctrl-C does, and a trial then says what it has measured."""
_BLOCK: Final = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def main() -> int:
    """Print and keep the output of each command; returns how many failed unexpectedly."""
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        programs = Path(folder, "bin")
        programs.mkdir()
        for name, words in {"dlprof": "-m profiler_cli.dlprof", "python": ""}.items():
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
            program.chmod(0o755)
        Path(folder, "demo").symlink_to(REPOSITORY / "demo")
        environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": f"{REPOSITORY}:{os.environ.get('PYTHONPATH', '')}",
        }
        commands = "".join(_BLOCK.findall(PAGE.read_text("utf-8"))).splitlines()
        for number, command in enumerate(commands, start=1):
            short = command.replace("dlprof trial", SHORT)
            done = subprocess.run(
                ["timeout", "--signal=INT", str(LIMIT_S), "bash", "-c", f"exec {short}"],
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            text = f"$ {command}\n{done.stdout}exit code {done.returncode}\n"
            print(text, flush=True)
            (target / f"{number}.txt").write_text(text, encoding="utf-8")
            # Advice and comparisons answer by their exit codes, too.
            failed += done.returncode not in {0, 10, 11, 12, 13, 14}
    return failed


if __name__ == "__main__":
    sys.exit(main())
