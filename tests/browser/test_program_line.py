"""Where ops and kernels were called from: the program's line in tables, the stack below a row."""

from __future__ import annotations

import lzma
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import MakeDatabase, Viewer

TRACE = Path(__file__).parents[1] / "data/captures/kineto/bert.json.xz"


@pytest.fixture(scope="module")
def bert(
    make_database: MakeDatabase,
    viewer_on: Callable[[Path], Viewer],
    tmp_path_factory: pytest.TempPathFactory,
) -> Viewer:
    """A run that was recorded with Python's stacks."""
    trace = tmp_path_factory.mktemp("trace") / "bert.json"
    trace.write_bytes(lzma.decompress(TRACE.read_bytes()))
    return viewer_on(make_database(trace))


def rows(table: Locator) -> Locator:
    return table.locator("tbody tr[aria-rowindex]")


def test_kernels_name_the_line_that_launched_them(page: Page, bert: Viewer) -> None:
    # GIVEN the stacks as the database has them: the innermost frame outside PyTorch is the line
    with sqlite3.connect(f"file:{bert.database}?mode=ro", uri=True) as connection:
        longest = connection.execute(
            "SELECT readable_name, op_node_id, stack_trace FROM view_kernels_by_full_name"
            " WHERE instr(stack_trace, 'modeling_bert.py') ORDER BY gpu_time_sum DESC LIMIT 1"
        ).fetchone()
    kernel, op, stack = longest
    frames = [frame.strip() for frame in stack.splitlines()]
    line = [frame for frame in frames if "modeling_bert.py" in frame][-1]
    # WHEN the kernels of all ops are shown, and searched for that op
    page.goto(bert.address(view="ops", rows="op", kernels__q=op))
    table = page.get_by_role("grid", name="Kernels of all ops", exact=True)
    header = table.get_by_role("columnheader", name=re.compile("^Program line"))
    expect(header).to_be_visible()
    row = rows(table).filter(has_text=kernel).first
    expect(row).to_contain_text(line)
    # THEN its stack opens below it, with the program's line marked
    row.get_by_role("button", name="See more").click()
    unfolded = table.locator("tr.unfolded")
    expect(unfolded.locator("li")).to_have_text(frames)
    expect(unfolded.locator("li.own")).to_have_text([line])
    row.get_by_role("button", name="See less").click()
    expect(unfolded).to_have_count(0)
