"""Uploading, registering, renaming and deleting profiles."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client

from aggregator.jobs import Outcome
from tests.contract.client import API, ApiClient, Reply
from viewer.errors import UploadNotFoundError, UploadOffsetError
from viewer.jobs.models import Job, Upload
from viewer.jobs.recorder import DatabaseRecorder
from viewer.profiles import storage, uploads

UPLOADS = f"{API}/uploads/"
PROFILES = f"{API}/profiles/"
PART = "application/offset+octet-stream"


@pytest.fixture
def folders(settings: LazySettings, tmp_path: Path) -> Path:
    """A viewer that serves a folder, has another one open, and stores in a third."""
    for name in ("served", "open", "closed", "stored"):
        (tmp_path / name).mkdir()
    settings.ENVIRONMENT = replace(
        settings.ENVIRONMENT,
        databases=(tmp_path / "served",),
        profile_folders=(tmp_path / "open",),
        upload_dir=tmp_path / "stored",
        upload_chunk_bytes=1 << 20,
        token="",
        bind="127.0.0.1",
    )
    return tmp_path


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    ids: list[str] = []

    def send(job_id: str) -> str:
        ids.append(job_id)
        return ""

    monkeypatch.setattr("viewer.jobs.service.send", send)
    return ids


def _send(method: str, path: str, body: Any = None, **headers: str) -> Reply:
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
    kind = headers.pop("content_type", "application/json")
    headers = {"host": "localhost", **{name.replace("_", "-"): headers[name] for name in headers}}
    response: Any = client.generic(method, path, data, content_type=kind, headers=headers)
    return Reply(response.status_code, response.content, dict(response.headers))


def _part(upload: dict[str, Any], data: bytes, offset: int) -> Reply:
    address = f"{UPLOADS}{upload['id']}/"
    return _send("PATCH", address, data, content_type=PART, upload_offset=str(offset))


def _begin(api: ApiClient, name: str, size: int) -> dict[str, Any]:
    reply = api.post(UPLOADS, {"file_name": name, "size_bytes": size})
    assert reply.status == 201, reply.body
    found: dict[str, Any] = reply.json
    return found


def _upload(api: ApiClient, file: Path, name: str = "", step: int = 1 << 20) -> str:
    data = file.read_bytes()
    upload = _begin(api, name or file.name, len(data))
    for offset in range(0, len(data), step):
        assert _part(upload, data[offset : offset + step], offset).status == 200
    return str(upload["id"])


def _code(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.json["error"]["code"]


# --- uploads --------------------------------------------------------------------------------------


def test_a_database_is_uploaded_in_parts_and_served(
    api: ApiClient, folders: Path, own_database: Path
) -> None:
    upload = _upload(api, own_database, step=700_000)
    reply = api.post(PROFILES, {"upload": upload, "name": "Mine"})

    assert reply.status == 201
    item = reply.json
    assert (item["name"], item["file_name"]) == ("Mine", "dlprof_dldb.sqlite")
    assert item["is_stored"]
    assert [found["id"] for found in api.get(PROFILES).json["results"]] == [item["id"]]
    summary = api.get(f"{PROFILES}{item['id']}/aggregations/1/performance-summary/")
    assert summary.status == 200
    (stored,) = [path for path in (folders / "stored").rglob("*") if path.is_file()]
    assert stored.read_bytes() == own_database.read_bytes()
    assert api.get(f"{UPLOADS}{upload}/").status == 404


def test_an_upload_is_gone_on_with_where_it_broke_off(api: ApiClient, folders: Path) -> None:
    upload = _begin(api, "a.sqlite", 10)
    assert _part(upload, b"0123", 0).json["offset"] == 4

    state = api.get(f"{UPLOADS}{upload['id']}/")
    head = _send("HEAD", f"{UPLOADS}{upload['id']}/")

    assert state.json["offset"] == 4
    assert (head.headers["Upload-Offset"], head.headers["Upload-Length"]) == ("4", "10")
    again = _part(upload, b"0123", 0)
    assert _code(again) == (409, "UPLOAD_OFFSET")
    assert again.json["error"]["details"]["offset"] == 4
    assert _part(upload, b"456789", 4).json["offset"] == 10
    (part,) = (folders / "stored" / "incoming").iterdir()
    assert part.read_bytes() == b"0123456789"


@pytest.mark.parametrize(
    ("headers", "data", "expected"),
    [
        ({}, b"x", (400, "INVALID_VALUE")),
        ({"upload_offset": "-1"}, b"x", (400, "INVALID_VALUE")),
        ({"upload_offset": "9" * 30}, b"x", (400, "INVALID_VALUE")),
        ({"upload_offset": "1"}, b"x", (409, "UPLOAD_OFFSET")),
        ({"upload_offset": "0"}, b"x" * 11, (409, "UPLOAD_OFFSET")),
        ({"upload_offset": "0"}, b"x" * (1 << 20) + b"x", (413, "BODY_TOO_LARGE")),
    ],
)
def test_a_part_that_does_not_fit_is_refused(
    api: ApiClient,
    folders: Path,
    headers: dict[str, str],
    data: bytes,
    expected: tuple[int, str],
) -> None:
    upload = _begin(api, "a.sqlite", 10)

    reply = _send("PATCH", f"{UPLOADS}{upload['id']}/", data, content_type=PART, **headers)

    assert _code(reply) == expected
    assert api.get(f"{UPLOADS}{upload['id']}/").json["offset"] == 0


def test_a_body_that_breaks_off_keeps_what_came(folders: Path) -> None:
    class Broken:
        def __init__(self) -> None:
            self.parts = [b"abc", b""]

        def read(self, size: int, /) -> bytes:
            return self.parts.pop(0)

    upload = uploads.begin("a.sqlite", 10, "")

    assert uploads.append(upload, 0, 10, Broken()) == 3
    assert uploads.offset(upload) == 3


class _Then:
    """A body of two blocks; something happens between them."""

    def __init__(self, first: bytes, between: Callable[[], object], second: bytes) -> None:
        self._parts: list[Callable[[], bytes]] = [
            lambda: first,
            lambda: (between(), second)[1],
            lambda: b"",
        ]

    def read(self, size: int, /) -> bytes:
        return self._parts.pop(0)()


def test_a_part_that_was_overtaken_writes_nothing_more(folders: Path) -> None:
    """A client that lost its connection goes on while the server still hears the old one."""
    upload = uploads.begin("a.sqlite", 10, "")
    quick = _Then(b"345", lambda: None, b"6789")
    slow = _Then(b"012", lambda: uploads.append(upload, 3, 7, quick), b"xxxxxxx")

    with pytest.raises(UploadOffsetError):
        uploads.append(upload, 0, 10, slow)

    assert uploads.content(upload).read_bytes() == b"0123456789"


def test_a_part_of_an_upload_that_is_given_up_meanwhile(folders: Path) -> None:
    upload = uploads.begin("a.sqlite", 10, "")
    body = _Then(b"012", lambda: uploads.give_up(uploads.find(upload.id)), b"3456789")

    with pytest.raises(UploadNotFoundError):
        uploads.append(upload, 0, 10, body)

    assert not list((folders / "stored" / "incoming").iterdir())


def test_a_client_that_is_gone_is_no_mistake_of_ours(folders: Path) -> None:
    def gone() -> None:
        raise ConnectionResetError("gone")

    upload = uploads.begin("a.sqlite", 10, "")

    assert uploads.append(upload, 0, 10, _Then(b"012", gone, b"")) == 3


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"file_name": "a"},
        {"file_name": "", "size_bytes": 1},
        {"file_name": "a", "size_bytes": 0},
        {"file_name": "a", "size_bytes": -1},
        {"file_name": "a", "size_bytes": True},
        {"file_name": "a", "size_bytes": 1.5},
        {"file_name": "a\n", "size_bytes": 1},
        {"file_name": "a" * 256, "size_bytes": 1},
        {"file_name": ["a"], "size_bytes": 1},
        {"file_name": "a", "size_bytes": 1, "more": 1},
        [],
        "text",
    ],
)
def test_an_upload_that_makes_no_sense(api: ApiClient, folders: Path, body: object) -> None:
    reply = api.post(UPLOADS, json.dumps(body))

    assert _code(reply) == (400, "INVALID_VALUE")
    assert not Upload.objects.exists()


def test_a_file_that_is_too_large_is_refused_before_it_is_sent(
    api: ApiClient, folders: Path, settings: LazySettings
) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, max_profile_bytes=1000)

    reply = api.post(UPLOADS, {"file_name": "a", "size_bytes": 1001})

    assert _code(reply) == (413, "PROFILE_TOO_LARGE")
    assert "1,000" in reply.json["error"]["message"]


def test_a_full_disk_is_said_before_anything_is_sent(
    api: ApiClient, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(folders)
    monkeypatch.setattr(storage, "RESERVE_BYTES", usage.free - 5)

    reply = api.post(UPLOADS, {"file_name": "a", "size_bytes": 1 << 30})

    assert _code(reply) == (507, "STORAGE_FULL")


def test_a_quota_is_kept(api: ApiClient, folders: Path, settings: LazySettings) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, upload_quota_bytes=100)
    _part(_begin(api, "a", 60), b"x" * 60, 0)

    reply = api.post(UPLOADS, {"file_name": "b", "size_bytes": 41})

    assert _code(reply) == (507, "STORAGE_FULL")


def test_a_disk_that_fills_up_keeps_what_was_written(
    api: ApiClient, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = _begin(api, "a.sqlite", 10)
    written = os.write

    def write(descriptor: int, data: bytes) -> int:
        if os.fstat(descriptor).st_size >= 4:
            raise OSError(28, "No space left on device")
        return written(descriptor, data[:4])

    monkeypatch.setattr(os, "write", write)
    reply = _part(upload, b"0123456789", 0)
    monkeypatch.undo()

    assert _code(reply) == (507, "STORAGE_FULL")
    assert api.get(f"{UPLOADS}{upload['id']}/").json["offset"] == 4
    assert _part(upload, b"456789", 4).status == 200


def test_an_upload_can_be_given_up(api: ApiClient, folders: Path) -> None:
    upload = _begin(api, "a.sqlite", 10)

    assert _send("DELETE", f"{UPLOADS}{upload['id']}/").status == 204

    assert api.get(f"{UPLOADS}{upload['id']}/").status == 404
    assert not list((folders / "stored" / "incoming").iterdir())


def test_an_upload_that_nobody_goes_on_with_is_removed(
    api: ApiClient, folders: Path, settings: LazySettings
) -> None:
    old = _begin(api, "old.sqlite", 10)
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, upload_expiry_s=-1)

    uploads.remove_stale()

    assert _code(api.get(f"{UPLOADS}{old['id']}/")) == (404, "UPLOAD_NOT_FOUND")
    assert not list((folders / "stored" / "incoming").iterdir())


def test_an_upload_is_used_only_when_all_of_it_is_here(api: ApiClient, folders: Path) -> None:
    upload = _begin(api, "a.sqlite", 10)
    _part(upload, b"0123", 0)

    assert _code(api.post(PROFILES, {"upload": upload["id"]})) == (409, "UPLOAD_INCOMPLETE")
    assert _part(upload, b"456789", 4).status == 200


def test_two_uploads_of_one_name_do_not_meet(
    api: ApiClient, folders: Path, own_database: Path
) -> None:
    ids = [api.post(PROFILES, {"upload": _upload(api, own_database)}).json["id"] for _ in range(2)]

    assert len(set(ids)) == 2
    assert api.get(PROFILES).json["count"] == 2


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "..", "a\\b", ".hidden", "x" * 255, "☃.sqlite"]
)
def test_a_files_name_leads_nowhere(
    api: ApiClient, folders: Path, own_database: Path, name: str
) -> None:
    reply = api.post(PROFILES, {"upload": _upload(api, own_database, name)})

    assert reply.status == 201
    outside = [path for path in folders.rglob("*.sqlite") if "stored" not in path.parts]
    assert not outside


# --- what is refused ------------------------------------------------------------------------------


def _refused(api: ApiClient, file: Path, name: str = "") -> tuple[int, str]:
    before = set(file.parent.parent.rglob("*"))
    upload = _upload(api, file, name)
    code = _code(api.post(PROFILES, {"upload": upload}))
    _send("DELETE", f"{UPLOADS}{upload}/")
    left = {path for path in file.parent.parent.rglob("*") if path.is_file()} - before
    assert not left
    assert api.get(PROFILES).json["count"] == 0
    return code


def test_a_file_that_is_no_profile(api: ApiClient, folders: Path) -> None:
    letter = folders / "closed" / "letter.sqlite"
    letter.write_text("Dear aunt,\n" * 100)

    assert _refused(api, letter) == (422, "PROFILE_REFUSED")


def test_a_packed_file_is_not_unpacked(api: ApiClient, folders: Path, own_database: Path) -> None:
    bomb = folders / "closed" / "bomb.sqlite.gz"
    bomb.write_bytes(gzip.compress(b"\0" * 50_000_000))

    assert _refused(api, bomb) == (422, "PROFILE_REFUSED")


def test_a_file_that_was_cut_off(api: ApiClient, folders: Path, own_database: Path) -> None:
    cut = folders / "closed" / "cut.sqlite"
    data = own_database.read_bytes()
    cut.write_bytes(data[: len(data) // 2])

    assert _refused(api, cut) == (422, "PROFILE_REFUSED")


def test_a_database_of_something_else(api: ApiClient, folders: Path) -> None:
    other = folders / "closed" / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE recipes (name)")

    assert _refused(api, other) == (422, "PROFILE_REFUSED")


@pytest.mark.parametrize(
    "sql",
    [
        (
            "CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE t(i) AS "
            "(SELECT 1 UNION ALL SELECT i + 1 FROM t) SELECT i AS start FROM t"
        ),
        "CREATE TRIGGER t AFTER INSERT ON StringIds BEGIN SELECT 1; END",
        (
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL "
            "(start, end AS (length(hex(zeroblob(100000000)))), correlationId)"
        ),
    ],
)
def test_an_export_that_computes_is_refused(api: ApiClient, folders: Path, sql: str) -> None:
    export = folders / "closed" / "export.sqlite"
    with sqlite3.connect(export) as connection:
        connection.execute("CREATE TABLE StringIds (id, value)")
        connection.execute("CREATE TABLE TARGET_INFO_SYSTEM_ENV (name, value)")
        connection.execute(sql)

    assert _refused(api, export) == (422, "PROFILE_REFUSED")


def test_a_report_without_nsys_is_refused_with_what_to_do(
    api: ApiClient, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aggregator.sources.nsys_report.INSTALL_PATTERNS", ())
    monkeypatch.setenv("PATH", str(folders))
    report = folders / "closed" / "run.nsys-rep"
    report.write_bytes(b"nsys report" * 100)

    upload = _upload(api, report)
    reply = api.post(PROFILES, {"upload": upload})

    assert _code(reply) == (422, "REPORT_NEEDS_NSYS")
    assert "nsys export" in reply.json["error"]["hint"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"path": "a", "upload": "b"},
        {"upload": ""},
        {"path": 1},
        {"path": "a", "name": "x" * 201},
        {"path": "a", "name": "two\nlines"},
        {"path": "a", "mode": "nope"},
        {"path": "a", "mode": ["auto"]},
        {"path": "a", "more": 1},
    ],
)
def test_an_addition_that_makes_no_sense(api: ApiClient, folders: Path, body: object) -> None:
    assert _code(api.post(PROFILES, body)) == (400, "INVALID_VALUE")


# --- what dies in between -------------------------------------------------------------------------


def test_an_upload_that_cannot_be_added_is_still_there(
    api: ApiClient, folders: Path, own_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = _upload(api, own_database)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(storage, "add", fail)
    assert api.post(PROFILES, {"upload": upload}).status == 500
    monkeypatch.undo()

    assert [path.name for path in (folders / "stored").iterdir()] == ["incoming"]
    assert api.post(PROFILES, {"upload": upload}).status == 201


def test_an_upload_is_used_once(
    api: ApiClient, folders: Path, own_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two requests at the same time: one profile, and one of them is told so."""
    upload = _upload(api, own_database)
    statuses = []
    place = uploads.place

    def meanwhile(found: Upload, target: Path) -> None:
        monkeypatch.setattr(uploads, "place", place)
        statuses.append(api.post(PROFILES, {"upload": upload}).status)
        place(found, target)

    monkeypatch.setattr(uploads, "place", meanwhile)
    statuses.append(api.post(PROFILES, {"upload": upload}).status)

    assert statuses == [404, 201]
    assert api.get(PROFILES).json["count"] == 1
    assert len([path for path in (folders / "stored").iterdir() if path.name != "incoming"]) == 1


def test_folders_of_killed_servers_go_in_time(
    api: ApiClient, folders: Path, own_database: Path, settings: LazySettings
) -> None:
    api.post(PROFILES, {"upload": _upload(api, own_database)})
    with pytest.raises(KeyboardInterrupt), storage.new_folder() as failed:
        raise KeyboardInterrupt
    assert not failed.exists()
    killed = folders / "stored" / ("0" * 32)
    killed.mkdir()
    (killed / "half.sqlite").write_bytes(b"x")
    foreign = folders / "stored" / "mine"
    foreign.mkdir()

    uploads.remove_stale()
    assert killed.exists(), "somebody may be at it"
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, upload_expiry_s=-1)
    uploads.remove_stale()

    assert not killed.exists()
    assert foreign.exists()
    assert api.get(PROFILES).json["results"][0]["error"] is None


def test_what_is_stored_is_counted_while_files_come_and_go(folders: Path) -> None:
    place = folders / "stored" / "one"
    place.mkdir()
    (place / "stays").write_bytes(b"12345")
    ended = threading.Event()

    def come_and_go() -> None:
        while not ended.is_set():
            folder = place / "passing"
            folder.mkdir()
            (folder / "file").touch()
            (folder / "file").unlink()
            folder.rmdir()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        assert {storage.used_bytes() for _ in range(2_000)} == {5}
    finally:
        ended.set()
        thread.join()


# --- registering ----------------------------------------------------------------------------------


def test_a_database_in_an_open_folder_is_registered_where_it_is(
    api: ApiClient, folders: Path, own_database: Path
) -> None:
    file = folders / "open" / "run.sqlite"
    shutil.copyfile(own_database, file)

    reply = api.post(PROFILES, {"path": str(file)})

    assert reply.status == 201
    assert not reply.json["is_stored"]
    assert api.get(PROFILES).json["count"] == 1
    assert not list((folders / "stored").iterdir())


@pytest.mark.parametrize(
    "path",
    ["closed/run.sqlite", "open/../closed/run.sqlite", "open/link.sqlite", "open/folder",
     "open/nope.sqlite", "open/pipe", "/etc/passwd", "relative.sqlite", "a\u0000b", ""],
)  # fmt: skip
def test_nothing_else_can_be_registered(
    api: ApiClient, folders: Path, own_database: Path, path: str
) -> None:
    shutil.copyfile(own_database, folders / "closed" / "run.sqlite")
    (folders / "open" / "link.sqlite").symlink_to(folders / "closed" / "run.sqlite")
    (folders / "open" / "folder").mkdir()
    os.mkfifo(folders / "open" / "pipe")
    named = str(folders / path) if "/" in path and not path.startswith("/") else path

    reply = api.post(PROFILES, {"path": named})

    assert _code(reply) in {(403, "PATH_NOT_ALLOWED"), (400, "INVALID_VALUE")}
    assert api.get(PROFILES).json["count"] == 0


def test_what_the_viewer_stores_itself_is_not_registered_again(
    api: ApiClient, folders: Path, own_database: Path, settings: LazySettings
) -> None:
    """As with compose: uploads lie below the folder that is served."""
    settings.ENVIRONMENT = replace(
        settings.ENVIRONMENT, databases=(folders,), upload_dir=folders / "stored"
    )
    made = api.post(PROFILES, {"upload": _upload(api, own_database)}).json
    (stored,) = (folders / "stored").glob("*/*.sqlite")
    waiting = _upload(api, own_database)

    for path in (stored, folders / "stored" / "incoming" / f"{waiting}.part",
                 folders / "stored" / "*" / "*.sqlite", stored.parent):  # fmt: skip
        assert _code(api.post(PROFILES, {"path": str(path)})) == (403, "PATH_NOT_ALLOWED")

    # It is still the viewer's own, and goes when it is deleted.
    assert _send("DELETE", f"{PROFILES}{made['id']}/").json["deleted_files"] == [stored.name]
    assert not stored.exists()


def test_links_that_lead_nowhere_are_passed_over(
    api: ApiClient, folders: Path, own_database: Path
) -> None:
    served = folders / "served"
    shutil.copyfile(own_database, served / "run.sqlite")
    (served / "broken.sqlite").symlink_to(served / "nowhere.sqlite")
    (served / "loop.sqlite").symlink_to(served / "loop.sqlite")
    (served / "run.open.sqlite").symlink_to(served / "gone.sqlite")
    (served / "folder.sqlite").mkdir()
    os.mkfifo(served / "pipe.sqlite")

    reply = api.get(PROFILES)

    assert reply.status == 200
    assert [item["file_name"] for item in reply.json["results"]] == ["run.sqlite"]


def test_a_file_that_the_viewers_user_may_not_read(
    api: ApiClient, folders: Path, own_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folders / "open" / "secret.sqlite"
    shutil.copyfile(own_database, file)
    opened = Path.open

    def refused(path: Path, *words: Any, **more: Any) -> Any:
        if path == file:  # root, as whom tests may run, reads everything
            raise PermissionError(13, "Permission denied")
        return opened(path, *words, **more)

    monkeypatch.setattr(Path, "open", refused)
    reply = api.post(PROFILES, {"path": str(file)})

    assert _code(reply) == (422, "PROFILE_REFUSED")
    assert reply.json["error"]["message"] == "'secret.sqlite' cannot be read: Permission denied."


def test_an_export_is_queued_to_be_imported(
    api: ApiClient, folders: Path, demo_profile: Path, sent: list[str]
) -> None:
    file = folders / "open" / "run.sqlite"
    shutil.copyfile(demo_profile, file)

    reply = api.post(PROFILES, {"path": str(file), "name": "Run 7", "mode": "pytorch"})

    assert reply.status == 202
    job = reply.json
    assert (job["kind"], job["state"], job["profile_name"]) == ("import", "queued", "Run 7")
    assert sent == [job["id"]]
    row = Job.objects.get(pk=job["id"])
    assert (row.sources, row.mode) == ([str(file)], "pytorch")
    assert api.get(PROFILES).json["count"] == 0


_TRACE = """{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "kernel", "name": "k",
"pid": 0, "tid": 7, "ts": 1, "dur": 2, "args": {"device": 0, "stream": 7}}]}"""


@pytest.mark.parametrize("name", ["run.pt.trace.json", "run.json.gz"])
def test_a_trace_of_torch_is_queued_under_its_kind(
    api: ApiClient, folders: Path, sent: list[str], name: str
) -> None:
    text = _TRACE.encode()
    file = folders / "closed" / name
    file.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)

    reply = api.post(PROFILES, {"upload": _upload(api, file)})

    assert (reply.status, sent) == (202, [reply.json["id"]])
    (source,) = Job.objects.get(pk=reply.json["id"]).sources
    assert Path(source).name == ("run.json.gz" if name.endswith(".gz") else "run.json")


@pytest.mark.parametrize("content", [b"{}", b"[1, 2]", b'{"traceEv', b"{" + b" " * 100])
def test_json_that_is_no_trace_is_refused(api: ApiClient, folders: Path, content: bytes) -> None:
    letter = folders / "closed" / "letter.json"
    letter.write_bytes(content)

    assert _refused(api, letter) == (422, "PROFILE_REFUSED")


def test_an_imported_profile_is_served_and_the_uploaded_copy_dropped(
    api: ApiClient, folders: Path, demo_profile: Path, own_database: Path
) -> None:
    job = api.post(PROFILES, {"upload": _upload(api, demo_profile)}).json
    recorder = DatabaseRecorder()
    claimed = recorder.claim("token")
    assert claimed is not None
    assert claimed.is_import
    assert [source.read_bytes() for source in claimed.sources] == [demo_profile.read_bytes()]
    shutil.copyfile(own_database, claimed.database)

    recorder.finish(claimed, Outcome(1, claimed.database, ""))

    assert api.get(f"{PROFILES}{job['profile_id']}/").status == 200
    done = api.get(f"{API}/jobs/{job['id']}/").json
    assert (done["state"], done["result_profile_id"]) == ("done", job["profile_id"])
    assert [path for path in (folders / "stored").rglob("*") if path.is_file()] == [
        claimed.database
    ]


def test_a_failed_import_can_be_tried_again_or_deleted(
    api: ApiClient, folders: Path, demo_profile: Path
) -> None:
    job = api.post(PROFILES, {"upload": _upload(api, demo_profile)}).json
    recorder = DatabaseRecorder()
    claimed = recorder.claim("token")
    assert claimed is not None
    recorder.fail(claimed, {"code": "X", "message": "", "hint": "", "details": {}})

    assert api.get(f"{PROFILES}{job['profile_id']}/").status == 404
    assert api.post(f"{API}/jobs/{job['id']}/retry/").status == 202
    assert api.post(f"{API}/jobs/{job['id']}/cancel/").json["state"] == "cancelled"
    assert _send("DELETE", f"{PROFILES}{job['profile_id']}/").status == 200

    assert not [path for path in (folders / "stored").rglob("*") if path.is_file()]
    assert _code(api.post(f"{API}/jobs/{job['id']}/retry/")) == (409, "JOB_STATE")


# --- renaming and deleting ------------------------------------------------------------------------


@pytest.fixture
def served_file(api: ApiClient, folders: Path, own_database: Path) -> tuple[Path, str]:
    """A user's own file in the folder served."""
    file = folders / "served" / "own.sqlite"
    shutil.copyfile(own_database, file)
    (item,) = api.get(PROFILES).json["results"]
    return file, f"{PROFILES}{item['id']}/"


def test_a_profile_is_renamed_and_its_file_is_not(
    api: ApiClient, served_file: tuple[Path, str]
) -> None:
    file, address = served_file
    before = file.read_bytes()

    renamed = _send("PATCH", address, {"name": "Better"})

    assert renamed.json["name"] == "Better"
    assert api.get(address).json["name"] == "Better"
    assert [item["name"] for item in api.get(PROFILES, search="bett").json["results"]] == ["Better"]
    assert file.read_bytes() == before
    assert _send("PATCH", address, {"name": ""}).json["name"] == "demo"


@pytest.mark.parametrize("body", [{}, {"name": 1}, {"name": "a\tb"}, {"nope": "x"}, []])
def test_a_name_that_makes_no_sense(served_file: tuple[Path, str], body: Any) -> None:
    reply = _send("PATCH", served_file[1], json.dumps(body).encode())

    assert _code(reply) == (400, "INVALID_VALUE")


def test_a_users_own_file_is_unlisted_and_never_deleted(
    api: ApiClient, served_file: tuple[Path, str]
) -> None:
    file, address = served_file

    reply = _send("DELETE", address)

    assert reply.json["is_unlisted"]
    assert reply.json["deleted_files"] == []
    assert file.is_file()
    assert api.get(PROFILES).json["count"] == 0
    assert _code(api.get(address)) == (404, "PROFILE_NOT_SERVED")
    assert _send("DELETE", address).status == 404
    assert api.post(PROFILES, {"path": str(file)}).status == 201
    assert api.get(address).status == 200


def test_a_file_that_is_named_at_the_next_start_is_listed_again(
    api: ApiClient, folders: Path, own_database: Path, settings: LazySettings
) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, databases=(own_database,))
    (item,) = api.get(PROFILES).json["results"]
    _send("DELETE", f"{PROFILES}{item['id']}/")
    before = api.get(PROFILES).json["count"]

    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, started_at=4e9)

    assert (before, api.get(PROFILES).json["count"]) == (0, 1)


def test_what_the_viewer_stored_is_deleted_with_its_folder(
    api: ApiClient, folders: Path, own_database: Path
) -> None:
    item = api.post(PROFILES, {"upload": _upload(api, own_database)}).json

    reply = _send("DELETE", f"{PROFILES}{item['id']}/")

    assert reply.json == {
        "id": item["id"],
        "deleted_files": ["dlprof_dldb.sqlite"],
        "is_unlisted": False,
    }
    assert not [path for path in (folders / "stored").rglob("*") if path.is_file()]
    assert own_database.is_file()


def test_a_profile_that_jobs_work_on_is_not_deleted(
    api: ApiClient, folders: Path, own_database: Path
) -> None:
    item = api.post(PROFILES, {"upload": _upload(api, own_database)}).json
    job = api.post(f"{PROFILES}{item['id']}/aggregations/", {"iter_start": 3}).json

    assert _code(_send("DELETE", f"{PROFILES}{item['id']}/")) == (409, "PROFILE_BUSY")
    api.post(f"{API}/jobs/{job['id']}/cancel/")
    assert _send("DELETE", f"{PROFILES}{item['id']}/").status == 200


def test_a_folder_that_is_not_ours_is_never_deleted(
    api: ApiClient, folders: Path, own_database: Path
) -> None:
    from viewer.jobs.models import StoredProfile

    item = api.post(PROFILES, {"upload": _upload(api, own_database)}).json
    StoredProfile.objects.filter(pk=item["id"]).update(folder=str(folders / "closed"))
    (folders / "closed" / "precious").touch()

    assert _send("DELETE", f"{PROFILES}{item['id']}/").status == 404
    assert (folders / "closed" / "precious").exists()


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_a_foreign_page_changes_nothing(
    served_file: tuple[Path, str], method: str, headers: dict[str, str]
) -> None:
    reply = _send(method, served_file[1], {"name": "x"}, **headers)

    assert _code(reply) == (403, "CSRF_FAILED")
