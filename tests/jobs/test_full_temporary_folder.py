"""Files to download while the temporary folder is full, through the web server that sends them."""

from __future__ import annotations

import http.client
import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.jobs.running import WAIT_LIMIT_S, RunningViewer, environment, running
from tests.jobs.uploading import port_of

pytestmark = pytest.mark.jobs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("full")
    (made / "tmp").mkdir()
    return made


@pytest.fixture(scope="module")
def viewer(demo_database: Path, folder: Path) -> Iterator[RunningViewer]:
    here = Path(__file__).parent
    shutil.copyfile(here / "held_engine.py", folder / "held_engine.py")
    shutil.copyfile(here / "full_folder.py", folder / "sitecustomize.py")
    env = environment(folder / "state", TMPDIR=str(folder / "tmp"))
    env |= {
        "PYTHONPATH": f"{folder}:{env['PYTHONPATH']}",
        "DLPROF_TEST_FULL": str(folder / "full"),
        "DLPROF_TEST_IN_MEMORY_BYTES": "1000",  # Less than any file.
    }
    with running([demo_database], env) as found:
        yield found


def _download(viewer: RunningViewer, path: str) -> tuple[int, bytes, str | None]:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(viewer), timeout=WAIT_LIMIT_S)
    with closing(connection):
        connection.request("GET", f"/api/v1/{path}")
        reply = connection.getresponse()
        return reply.status, reply.read(), reply.headers["Content-Length"]


_FILES = [
    *(f"ops/export/?format={name}" for name in ("csv", "json", "pdf", "xlsx")),
    *("report/", "timeline/perfetto/"),
]


@pytest.mark.parametrize("path", _FILES)
def test_a_file_is_sent_whole_or_refused_before_its_first_byte(
    viewer: RunningViewer, folder: Path, path: str
) -> None:
    address = f"profiles/{viewer.profile_id()}/aggregations/1/{path}"
    status, before, length = _download(viewer, address)
    assert (status, len(before)) == (200, int(length or -1))
    (folder / "full").touch()
    try:
        status, body, _ = _download(viewer, address)
    finally:
        (folder / "full").unlink()
    assert (status, json.loads(body)["error"]["code"]) == (507, "STORAGE_FULL")
    assert not list((folder / "tmp").glob("tmp*"))
    assert not list((folder / "tmp").glob("dlprof-xlsx*"))
