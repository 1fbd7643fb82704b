"""The guide's five error pages.

Four of them end the command when it starts with such a file; here the file becomes such a one
while the viewer runs.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Viewer, Watch, settled


def open_then_lose(page: Page, viewer: Viewer, watch: Watch) -> None:
    """The dashboard is open when the file is removed."""
    watch.expect(r"status of 4\d\d")
    page.goto(viewer.address())
    expect(page.get_by_role("region", name="Performance summary")).to_be_visible()
    settled(page)
    viewer.database.unlink()


def write_version(path: Path, version: str) -> None:
    """A DLProf database that says that it is of this version."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE VIEW view_db_version AS "
            f"SELECT '{version}' AS current_version, '{version}' AS original_version"
        )
        connection.execute("CREATE VIEW view_aggregations AS SELECT 1 AS aggr_id")
        connection.execute("CREATE VIEW view_op_nodes AS SELECT 1 AS aggr_id")


def alert(page: Page, title: str) -> Locator:
    found = page.get_by_role("alert")
    expect(found.get_by_role("heading", name=title, exact=True)).to_be_visible()
    return found


def test_page_says_what_became_of_the_file_and_comes_back_with_it(
    page: Page, viewer_of_a_copy: Viewer, watch: Watch
) -> None:
    database = viewer_of_a_copy.database
    kept = database.read_bytes()
    open_then_lose(page, viewer_of_a_copy, watch)
    page.reload()
    found = alert(page, "DLProf database not found")
    expect(found).to_contain_text("DATABASE_NOT_FOUND")
    expect(found).to_contain_text(database.name)
    # How the viewer is started, as the guide's page says.
    expect(found).to_contain_text("dlprofviewer dlprof_dldb.sqlite")
    database.write_text("Dear aunt,\n" * 500)
    page.reload()
    found = alert(page, "The file is not a DLProf database")
    expect(found).to_contain_text("DATABASE_FOREIGN")
    expect(found).to_contain_text("dlprofviewer dlprof_dldb.sqlite")
    for version, title in (
        ("1.1.0", "An older database was found"),
        ("99.0.0", "A newer database was found"),
    ):
        database.unlink()
        write_version(database, version)
        page.reload()
        found = alert(page, title)
        expect(found).to_contain_text("DATABASE_VERSION")
        expect(found).to_contain_text(version)
    database.write_bytes(kept)
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("region", name="Performance summary")).to_be_visible()


def test_an_address_of_no_profile_lists_those_that_there_are_once(
    page: Page, viewer: Viewer
) -> None:
    profile = viewer.get("profiles/")["results"][0]
    page.goto(f"{viewer.url}/?profile=none-such")
    found = page.get_by_role("alert")
    expect(found).to_contain_text("There is no profile “none-such” on this server.")
    expect(found.get_by_role("link")).to_have_text([profile["name"] or profile["file_name"]])
    expect(found).not_to_contain_text(profile["id"])
