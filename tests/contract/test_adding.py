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
from urllib.parse import quote

import pytest
from django.conf import LazySettings
from django.test import Client

from aggregator.sources.nsys import report as report_reader
from tests.contract.client import API, ApiClient, Reply
from viewer.errors import ViewerError
from viewer.jobs.keeper import Keeper
from viewer.profiles import storage, uploads
from viewer.state.models import Job

UPLOADS = f"{API}/uploads/"
PROFILES = f"{API}/profiles/"
UPLOAD_TYPE = "application/octet-stream"


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
        token="",
        bind="127.0.0.1",
    )
    return tmp_path


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    ids: list[str] = []

    monkeypatch.setattr("viewer.jobs.service.send", lambda job: ids.append(job.id))
    return ids


def _send(method: str, path: str, body: Any = None, **headers: str) -> Reply:
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
    kind = headers.pop("content_type", "application/json")
    headers = {"host": "localhost", **{name.replace("_", "-"): headers[name] for name in headers}}
    response: Any = client.generic(method, path, data, content_type=kind, headers=headers)
    return Reply(response.status_code, response.content, dict(response.headers))


def _post_file(data: bytes, name: str = "a.sqlite", **headers: str) -> Reply:
    address = f"{UPLOADS}?file_name={quote(name)}"
    return _send("POST", address, data, **{"content_type": UPLOAD_TYPE} | headers)


def _upload(file: Path, name: str = "") -> str:
    reply = _post_file(file.read_bytes(), name or file.name)
    assert reply.status == 201, reply.body
    return str(reply.json["id"])


def _files(folders: Path) -> list[Path]:
    return [path for path in (folders / "stored").rglob("*") if path.is_file()]


def _code(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.json["error"]["code"]


# --- uploads --------------------------------------------------------------------------------------


def test_a_database_is_uploaded_and_served(
    api: ApiClient, folders: Path, own_database: Path
) -> None:
    upload = _upload(own_database)
    reply = api.post(PROFILES, {"upload": upload, "name": "Mine"})

    assert reply.status == 201
    item = reply.json
    assert (item["name"], item["file_name"]) == ("Mine", "dlprof_dldb.sqlite")
    assert item["is_stored"]
    assert [found["id"] for found in api.get(PROFILES).json["results"]] == [item["id"]]
    summary = api.get(f"{PROFILES}{item['id']}/aggregations/1/performance-summary/")
    assert summary.status == 200
    (stored,) = _files(folders)
    assert stored.read_bytes() == own_database.read_bytes()
    assert _code(_send("DELETE", f"{UPLOADS}{upload}/")) == (404, "UPLOAD_NOT_FOUND")


def test_the_reply_to_an_upload_has_its_id_and_size(folders: Path) -> None:
    upload = _post_file(b"0123456789", "a b.sqlite").json

    (file,) = (folders / "stored" / "incoming").iterdir()
    assert file.read_bytes() == b"0123456789"
    assert file.name == f"{upload['id']}-a_b.sqlite"
    assert (upload["file_name"], upload["size_bytes"]) == ("a_b.sqlite", 10)


@pytest.mark.parametrize(
    ("query", "data", "content_type", "expected"),
    [
        ("", b"x", UPLOAD_TYPE, (400, "INVALID_VALUE")),
        ("?file_name=", b"x", UPLOAD_TYPE, (400, "INVALID_VALUE")),
        ("?file_name=a%0A", b"x", UPLOAD_TYPE, (400, "INVALID_VALUE")),
        (f"?file_name={'a' * 256}", b"x", UPLOAD_TYPE, (400, "INVALID_VALUE")),
        ("?file_name=a&file_name=b", b"x", UPLOAD_TYPE, (400, "INVALID_VALUE")),
        ("?file_name=a&more=1", b"x", UPLOAD_TYPE, (400, "UNKNOWN_FILTER")),
        ("?file_name=a", b"", UPLOAD_TYPE, (400, "INVALID_VALUE")),
        ("?file_name=a", b"{}", "application/json", (415, "UNSUPPORTED_MEDIA_TYPE")),
        ("?file_name=a", b"x" * 70_000, "application/json", (413, "BODY_TOO_LARGE")),
    ],
)
def test_an_upload_that_makes_no_sense(
    folders: Path, query: str, data: bytes, content_type: str, expected: tuple[int, str]
) -> None:
    # Django's client leaves the type out where there is no body.
    headers = {} if data else {"Content-Type": content_type}
    reply = _send("POST", f"{UPLOADS}{query}", data, content_type=content_type, **headers)

    assert _code(reply) == expected
    assert not _files(folders)


@pytest.mark.parametrize("headers", [{"origin": "http://evil.example"}, {"content_type": ""}])
def test_a_page_of_another_origin_uploads_nothing(folders: Path, headers: dict[str, str]) -> None:
    assert _code(_post_file(b"x", **headers)) == (403, "CSRF_FAILED")
    assert not _files(folders)


class _Blocks:
    """A body of some blocks; each is a function, which may do something else first."""

    def __init__(self, *blocks: Callable[[], bytes]) -> None:
        self._blocks = list(blocks)

    def read(self, size: int = -1, /) -> bytes:
        return self._blocks.pop(0)() if self._blocks else b""


def _raise(error: OSError) -> bytes:
    raise error


@pytest.mark.parametrize(
    "end",
    [lambda: b"", lambda: _raise(ConnectionResetError("gone"))],
    ids=["its end", "a lost connection"],
)
def test_nothing_is_kept_of_a_body_that_breaks_off(folders: Path, end: Callable[[], bytes]) -> None:
    with pytest.raises(ViewerError, match="3 of 10 bytes"):
        uploads.receive("a.sqlite", 10, _Blocks(lambda: b"abc", end))

    assert not _files(folders)


def test_remains_of_a_killed_server_are_removed_by_the_next_upload(folders: Path) -> None:
    incoming = folders / "stored" / "incoming"
    incoming.mkdir()
    (incoming / f"{'0' * 32}-a.sqlite{storage.PART}").write_bytes(b"half")
    during: list[int] = []

    def count() -> bytes:
        uploads.remove_stale()
        during.append(len(list(incoming.iterdir())))
        return b"0123456789"

    uploads.receive("a.sqlite", 10, _Blocks(count))

    assert during == [1], "the upload that is under way stays"
    assert len(list(incoming.iterdir())) == 1


def test_a_file_that_is_too_large_is_refused(folders: Path, settings: LazySettings) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, max_profile_bytes=1000)

    reply = _post_file(b"x" * 1001)

    assert _code(reply) == (413, "PROFILE_TOO_LARGE")
    assert "1,000" in reply.json["error"]["message"]


def test_a_full_disk_is_reported_before_the_body_is_read(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(folders)
    monkeypatch.setattr(storage, "RESERVE_BYTES", usage.free)
    body = _Blocks(lambda: pytest.fail("read"))

    with pytest.raises(ViewerError, match="disk"):
        uploads.receive("a", 1 << 30, body)


def test_a_quota_is_kept(folders: Path, settings: LazySettings) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, upload_quota_bytes=100)
    assert _post_file(b"x" * 60).status == 201

    assert _code(_post_file(b"x" * 41)) == (507, "STORAGE_FULL")


def test_parallel_uploads_share_the_quota(folders: Path, settings: LazySettings) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, upload_quota_bytes=100)
    replies: list[Reply] = []

    def upload_meanwhile() -> bytes:
        replies.append(_post_file(b"x" * 41))
        return b"x" * 60

    uploads.receive("a", 60, _Blocks(upload_meanwhile))

    assert [_code(reply) for reply in replies] == [(507, "STORAGE_FULL")]
    assert storage.used_bytes() == 60


def test_queued_imports_share_the_quota(
    api: ApiClient, folders: Path, demo_profile: Path, settings: LazySettings
) -> None:
    size = demo_profile.stat().st_size
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, upload_quota_bytes=2 * size)
    for name in ("a", "b"):
        shutil.copyfile(demo_profile, folders / "open" / f"{name}.sqlite")
    first = api.post(PROFILES, {"path": str(folders / "open/a.sqlite")})
    second = api.post(PROFILES, {"path": str(folders / "open/b.sqlite")})

    assert first.status == 202
    assert _code(second) == (507, "STORAGE_FULL")


def test_an_import_that_exceeds_the_quota_is_deleted(
    api: ApiClient, folders: Path, demo_profile: Path, settings: LazySettings
) -> None:
    source = folders / "open" / "a.sqlite"
    shutil.copyfile(demo_profile, source)
    database = Path(
        Job.objects.get(pk=api.post(PROFILES, {"path": str(source)}).json["id"]).database
    )
    database.write_bytes(b"x" * 1000)
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, upload_quota_bytes=999)

    with pytest.raises(ViewerError, match="bytes"):
        storage.publish(database)

    assert _files(folders) == []
    assert api.get(PROFILES).json["count"] == 0


def test_a_disk_that_fills_up_keeps_nothing(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: _raise(OSError(28, "No space left on device")))

    assert _code(_post_file(b"0123456789")) == (507, "STORAGE_FULL")
    assert not _files(folders)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to(folders: Path) -> None:
    (folders / "stored").chmod(0o500)

    assert _code(_post_file(b"x")) == (507, "STORAGE_FULL")


def test_a_folder_that_cannot_be_made(
    api: ApiClient, folders: Path, own_database: Path, settings: LazySettings
) -> None:
    (folders / "file").touch()
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, upload_dir=folders / "file" / "stored")
    reply = _post_file(b"x")

    assert _code(reply) == (507, "STORAGE_FULL")
    assert "DLPROF_UPLOAD_DIR" in reply.json["error"]["hint"]
    assert api.get(PROFILES).status == 200
    assert api.get("/metrics").status == 200


def test_an_upload_can_be_deleted(folders: Path) -> None:
    upload = _post_file(b"0123456789").json

    assert _send("DELETE", f"{UPLOADS}{upload['id']}/").status == 204

    assert not _files(folders)


def test_an_upload_that_is_not_used_expires(
    api: ApiClient, folders: Path, settings: LazySettings
) -> None:
    upload = _post_file(b"0123456789").json
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, upload_expiry_s=-1)

    uploads.remove_stale()

    assert _code(api.post(PROFILES, {"upload": upload["id"]})) == (404, "UPLOAD_NOT_FOUND")
    assert not _files(folders)


def test_two_uploads_of_one_name_do_not_meet(
    api: ApiClient, folders: Path, own_database: Path
) -> None:
    ids = [api.post(PROFILES, {"upload": _upload(own_database)}).json["id"] for _ in range(2)]

    assert len(set(ids)) == 2
    assert [item["id"] for item in api.get(PROFILES).json["results"]] == ids  # oldest first


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "..",
        "a\\b",
        ".hidden",
        "x" * 255,
        "☃.sqlite",
        f"a{storage.PART}",
    ],
)
def test_a_files_name_leads_nowhere(
    api: ApiClient, folders: Path, own_database: Path, name: str
) -> None:
    reply = api.post(PROFILES, {"upload": _upload(own_database, name)})

    assert reply.status == 201
    outside = [path for path in folders.rglob("*.sqlite") if "stored" not in path.parts]
    assert not outside


# --- what is refused ------------------------------------------------------------------------------


def _refused(api: ApiClient, file: Path, name: str = "") -> tuple[int, str]:
    before = set(file.parent.parent.rglob("*"))
    upload = _upload(file, name)
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


def test_database_of_another_program_is_refused(api: ApiClient, folders: Path) -> None:
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
    monkeypatch.setattr(report_reader, "INSTALL_PATTERNS", ())
    monkeypatch.setenv("PATH", str(folders))
    report = folders / "closed" / "run.nsys-rep"
    report.write_bytes(b"nsys report" * 100)

    upload = _upload(report)
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
    upload = _upload(own_database)

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
    """Two requests at the same time: one profile is made, and one request gets a conflict."""
    upload = _upload(own_database)
    statuses = []
    place = uploads.link_into_place

    def meanwhile(found: uploads.Upload, target: Path) -> None:
        monkeypatch.setattr(uploads, "link_into_place", place)
        statuses.append(api.post(PROFILES, {"upload": upload}).status)
        place(found, target)

    monkeypatch.setattr(uploads, "link_into_place", meanwhile)
    statuses.append(api.post(PROFILES, {"upload": upload}).status)

    assert statuses == [404, 201]
    assert api.get(PROFILES).json["count"] == 1
    assert len([path for path in (folders / "stored").iterdir() if path.name != "incoming"]) == 1


def test_folders_of_killed_servers_go_in_time(
    api: ApiClient, folders: Path, own_database: Path, settings: LazySettings
) -> None:
    api.post(PROFILES, {"upload": _upload(own_database)})
    with pytest.raises(KeyboardInterrupt), storage.new_folder() as failed:
        raise KeyboardInterrupt
    assert not failed.exists()
    killed = folders / "stored" / ("0" * 32)
    killed.mkdir()
    (killed / "half.sqlite").write_bytes(b"x")
    foreign = folders / "stored" / "mine"
    foreign.mkdir()

    uploads.remove_stale()
    assert killed.exists(), "a process may still be using it"
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, upload_expiry_s=-1)
    uploads.remove_stale()

    assert not killed.exists()
    assert foreign.exists()
    assert api.get(PROFILES).json["results"][0]["error"] is None


def test_the_stored_size_is_counted_while_files_change(folders: Path) -> None:
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


def test_a_file_that_the_viewer_stores_is_not_registered_again(
    api: ApiClient, folders: Path, own_database: Path, settings: LazySettings
) -> None:
    """As with compose: uploads lie below the folder that is served."""
    settings.ENVIRONMENT = replace(
        settings.ENVIRONMENT, databases=(folders,), upload_dir=folders / "stored"
    )
    made = api.post(PROFILES, {"upload": _upload(own_database)}).json
    (stored,) = (folders / "stored").glob("*/*.sqlite")
    waiting = _upload(own_database)

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
    api: ApiClient, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folders / "open" / "secret.sqlite"
    file.write_bytes(b"a database that SQLite may not open either")
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

    reply = api.post(PROFILES, {"upload": _upload(file)})

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
    job = api.post(PROFILES, {"upload": _upload(demo_profile)}).json
    row = Job.objects.get(pk=job["id"])
    assert row.kind == "import"
    assert [Path(source).read_bytes() for source in row.sources] == [demo_profile.read_bytes()]
    shutil.copyfile(own_database, row.database)

    result = {"end": "done", "aggregation_id": 1, "database": row.database, "note": ""}
    Keeper().finish(row, result)

    assert api.get(f"{PROFILES}{job['profile_id']}/").status == 200
    done = api.get(f"{API}/jobs/{job['id']}/").json
    assert (done["state"], done["result_profile_id"]) == ("done", job["profile_id"])
    assert [path for path in (folders / "stored").rglob("*") if path.is_file()] == [
        Path(row.database)
    ]


def test_a_failed_import_can_be_tried_again_or_deleted(
    api: ApiClient, folders: Path, demo_profile: Path
) -> None:
    job = api.post(PROFILES, {"upload": _upload(demo_profile)}).json
    reserved = Path(Job.objects.get(pk=job["id"]).database).with_name(".reserved")
    assert reserved.stat().st_size == int(1.5 * demo_profile.stat().st_size)
    error = {"code": "X", "message": "", "hint": "", "details": {}}
    Keeper().finish(Job.objects.get(pk=job["id"]), {"end": "failed", "error": error})

    # What has failed takes no room but that of its file; it is reserved again for the next attempt.
    assert storage.used_bytes() == demo_profile.stat().st_size
    assert api.get(f"{PROFILES}{job['profile_id']}/").status == 404
    assert api.post(f"{API}/jobs/{job['id']}/retry/").status == 202
    assert reserved.is_file()
    assert api.post(f"{API}/jobs/{job['id']}/cancel/").json["state"] == "cancelled"
    assert not reserved.exists()
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


def test_a_stored_profile_is_deleted_with_its_folder(
    api: ApiClient, folders: Path, own_database: Path
) -> None:
    item = api.post(PROFILES, {"upload": _upload(own_database)}).json

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
    item = api.post(PROFILES, {"upload": _upload(own_database)}).json
    job = api.post(f"{PROFILES}{item['id']}/aggregations/", {"iter_start": 3}).json

    assert _code(_send("DELETE", f"{PROFILES}{item['id']}/")) == (409, "PROFILE_BUSY")
    api.post(f"{API}/jobs/{job['id']}/cancel/")
    assert _send("DELETE", f"{PROFILES}{item['id']}/").status == 200


def test_a_folder_of_another_program_is_never_deleted(
    api: ApiClient, folders: Path, own_database: Path
) -> None:
    from viewer.state.models import StoredProfile

    item = api.post(PROFILES, {"upload": _upload(own_database)}).json
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
