"""The program's own line is found in a call stack."""

from __future__ import annotations

import pytest

from aggregator.tables.sql_functions import program_line
from tests.builders import table


@pytest.mark.parametrize(("frames", "expected"), table("program_lines"))
def test_the_innermost_frame_outside_libraries_is_the_programs(
    frames: list[str], expected: str | None
) -> None:
    assert program_line("\n".join(frames)) == expected
    assert program_line("\r\n".join(frames)) == expected
