"""Programs print the same, and end with the same exit code, with and without the markers."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from tests.harm.conftest import Server
from tests.harm.server import PHASES

HERE = Path(__file__).resolve().parent
QUICK = ("normal", "windows")
"""Markers in a few steps, and what ``dlprof`` does by default."""
OTHERS = tuple(phase for phase in PHASES if phase not in QUICK)


def names(decorator: str) -> list[str]:
    """The programs, read without PyTorch."""
    tree = ast.parse((HERE / "programs.py").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [
        function.name
        for function in functions
        if decorator in [getattr(one, "id", "") for one in function.decorator_list]
    ]


def lines(result: dict[str, Any]) -> list[str]:
    return [line for line in result["out"].splitlines() if not line.startswith("frames ")]


def frames(result: dict[str, Any]) -> int:
    return sum(int(ln.split()[1]) for ln in result["out"].splitlines() if ln.startswith("frames "))


def check(server: Server, program: str, phase: str) -> dict[str, Any]:
    """Run a program with and without the markers, and compare."""
    bare, marked = server.bare(program), server.run(program, phase)
    assert "Traceback" not in bare["err"] or bare["code"] == 1, bare["err"]
    assert (lines(marked), marked["code"]) == (lines(bare), bare["code"]), marked["err"]
    assert marked["open"] == 0
    assert "dlprof_nvtx: " not in marked["err"], marked["err"]
    return marked


@pytest.mark.parametrize("phase", QUICK)
@pytest.mark.parametrize("program", names("program"))
def test_program_runs_as_without_markers(server: Server, program: str, phase: str) -> None:
    marked = check(server, program, phase)
    # Otherwise markers that failed to load would pass.
    assert marked["opened"] or phase != "normal"


@pytest.mark.parametrize("phase", OTHERS)
@pytest.mark.parametrize("program", names("program"))
def test_program_runs_the_same_in_other_phases(server: Server, program: str, phase: str) -> None:
    marked = check(server, program, phase)
    assert marked["opened"] or phase != "high"


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("program", names("compiled"))
def test_same_graphs_are_compiled(server: Server, program: str, phase: str) -> None:
    marked = check(server, program, phase)
    assert marked["opened"] or phase not in ("high", "normal")
    assert frames(marked) <= frames(server.bare(program))


def test_all_programs_are_run(server: Server) -> None:
    assert (server.programs, server.compiled) == (names("program"), names("compiled"))
