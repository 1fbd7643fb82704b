"""``--help``: a snapshot, and that it leaves nothing out."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_cli.dlprof import main
from profiler_cli.options.declared import OPTIONS
from profiler_cli.options.parser import HELP_WIDTH, format_help
from profiler_cli.reports.declared import REPORTS

SNAPSHOT = Path(__file__).with_name("help.txt")


def test_the_help_is_as_recorded() -> None:
    """To record a change that is meant: python -m tests.cli.test_help."""
    assert format_help() == SNAPSHOT.read_text()


def test_the_help_names_every_spelling_default_and_report() -> None:
    text = " ".join(format_help().split())
    for option in OPTIONS:
        assert ", ".join(option.spellings) in text
        assert option.default in text
    assert ", ".join(name for name in REPORTS if not REPORTS[name].is_addition) in text


def test_the_help_fits_a_terminal() -> None:
    assert max(len(line) for line in format_help().splitlines()) <= HELP_WIDTH


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_is_printed_and_is_no_error(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 0
    assert capsys.readouterr().out == format_help()


@pytest.mark.parametrize("word", ["-V", "--version"])
def test_the_version_is_printed(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 0
    assert capsys.readouterr().out.startswith("dlprof ")


if __name__ == "__main__":
    SNAPSHOT.write_text(format_help())
