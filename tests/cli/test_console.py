"""Verbosity, stamps, timings and the bar."""

from __future__ import annotations

import io
import re

import pytest

from aggregator.system.progress import Level
from profiler_cli.console import Console, Verbosity


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def talk(verbosity: Verbosity) -> str:
    """Call every method of a console, to see what it prints."""
    out = io.StringIO()
    console = Console(verbosity, out, io.StringIO())
    with console.working():
        console.phase("read", 10)
        console.advance(4)
        console.advance(6)
        for level in Level:
            console.message(level.name.lower(), level)
        console.result("result")
    return out.getvalue()


@pytest.mark.parametrize(
    ("verbosity", "words"),
    [
        (Verbosity.QUIET, []),
        (Verbosity.MINIMAL, ["minimal", "result"]),
        (Verbosity.NORMAL, ["minimal", "normal", "result"]),
        (Verbosity.DETAILED, ["minimal", "normal", "detailed", "result"]),
    ],
)
def test_each_verbosity_says_its_levels_and_those_below(
    verbosity: Verbosity, words: list[str]
) -> None:
    said = [line.split("] ")[-1] for line in talk(verbosity).splitlines()]
    assert said == words


def test_diagnostic_also_times_the_phases() -> None:
    assert re.search(r"Phase read: \d+\.\d\d s, 10 rows\n$", talk(Verbosity.DIAGNOSTIC))


def test_messages_carry_the_time_and_results_do_not() -> None:
    lines = talk(Verbosity.MINIMAL).splitlines()
    assert re.fullmatch(r"\[DLProf-\d\d:\d\d:\d\d\] minimal", lines[0])
    assert lines[1] == "result"


def test_the_bar_is_drawn_on_a_terminal_and_says_phase_rows_and_rate() -> None:
    err = Terminal()
    out = io.StringIO()
    console = Console(Verbosity.NORMAL, out, err)
    with console.working():
        console.phase("read", 2_000)
        console.advance(1_000)
        console.message("hello")
    drawn = err.getvalue()
    assert "Reading profile" in drawn
    assert "1.0k of 2.0k" in drawn
    assert out.getvalue().endswith("] hello\n")


def test_text_and_bar_share_a_screen_without_markup() -> None:
    err = Terminal()
    console = Console(Verbosity.NORMAL, Terminal(), err)
    with console.working():
        console.phase("write")
        console.message("[bold]name[/bold] " + "x" * 200)
    assert "[bold]name[/bold] " + "x" * 200 in err.getvalue()


@pytest.mark.parametrize("verbosity", [Verbosity.QUIET, Verbosity.MINIMAL])
def test_no_bar_is_drawn_when_little_is_to_be_said(verbosity: Verbosity) -> None:
    err = Terminal()
    console = Console(verbosity, io.StringIO(), err)
    with console.working():
        console.phase("read", 2)
        console.advance(1)
    assert err.getvalue() == ""
