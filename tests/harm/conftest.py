"""A process that has imported PyTorch and forks for each program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
PYTHON_VARIABLE = "DLPROF_HARM_PYTHON"
"""Another Python with another PyTorch; its environment needs nothing else."""
PYTHON = os.environ.get(PYTHON_VARIABLE) or sys.executable


class Server:
    """Runs programs, and remembers what they do without the markers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.version, self.programs, self.compiled = self._read()
        self._bare: dict[str, dict[str, Any]] = {}

    def _read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def run(self, program: str, phase: str, **more: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"program": program, "phase": phase, **more}) + "\n")
        self._process.stdin.flush()
        result: dict[str, Any] = self._read()
        return result

    def bare(self, program: str) -> dict[str, Any]:
        if program not in self._bare:
            self._bare[program] = self.run(program, "bare")
        return self._bare[program]


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DLPROF")}
    process = subprocess.Popen(
        [PYTHON, HERE / "server.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    with process:
        yield Server(process)
        assert process.stdin is not None
        process.stdin.close()
