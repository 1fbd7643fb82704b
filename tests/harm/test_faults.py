"""Each function of the markers fails once: the program goes on as if nothing had happened."""

from __future__ import annotations

import pytest

from tests.harm.conftest import Server

PROGRAM = "everyday"
PHASES = ("normal", "windows")
BOUNDARIES = frozenset(
    {
        *("compiled._compiled", "control.phase", "control.init", "guard.forget", "guard.hook"),
        *("imports.find_spec", "imports.loaded", "loaders.fetched", "modules.call"),
        *("modules.compile_and_name", "modules.open", "modules.close", "modules.run_compiled"),
        *("phases.__enter__",),
        *("phases.__exit__", "phases.__init__", "profilers.enter_emit", "profilers.entered"),
        *("profilers.leave_emit", "profilers.left", "state.wrapped"),
        *("windows._watch",),
    }
)
"""Functions that the program or a thread calls: only guarded calls in them can fail."""


def functions(server: Server, phase: str, place: str) -> list[str]:
    result = server.run(PROGRAM, phase, lists=True)
    found = [name.split() for name in result["calls"]]
    return [name for where, name in found if where == place]


def check(server: Server, phase: str, name: str) -> str:
    bare = server.bare(PROGRAM)
    result = server.run(PROGRAM, phase, fault=name)
    if not result["faulted"]:
        return f"{name} was not called"
    if (result["out"], result["code"]) != (bare["out"], bare["code"]):
        return f"{name}: {result['code']} {result['err'][-2000:]}"
    if result["err"].count("dlprof_nvtx: ") > 1:
        return f"{name}: {result['err']}"
    return ""


@pytest.mark.parametrize("phase", PHASES)
def test_program_calls_only_functions_that_cannot_fail(server: Server, phase: str) -> None:
    assert set(functions(server, phase, "outer")) <= BOUNDARIES


@pytest.mark.parametrize("phase", PHASES)
def test_fault_in_any_function_leaves_the_program_as_it_is(server: Server, phase: str) -> None:
    found = [name for name in functions(server, phase, "inner") if name not in BOUNDARIES]
    assert len(found) > 40
    assert [text for text in (check(server, phase, name) for name in found) if text] == []


def test_fault_in_the_call_of_a_module_leaves_the_program_as_it_is(server: Server) -> None:
    found = [name for name in functions(server, "windows", "inner") if name.startswith("modules.")]
    found = [name for name in found if name not in BOUNDARIES][::5]
    assert len(found) > 2
    assert [text for text in (check(server, "windows", name) for name in found) if text] == []
