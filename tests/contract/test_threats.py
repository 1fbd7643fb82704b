"""The threats of THREAT_MODEL.md, each tried.

Databases with malicious SQL, malicious texts, addresses without a token, changes by reading.
"""

from __future__ import annotations

import csv
import io
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from aggregator.tables.declared.profile import profile_id
from tests.contract.client import API, ApiClient, Served
from viewer.state.models import Job, StoredProfile

TOKEN = "a-token-that-is-hard-to-guess"
ENDLESS = "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t)"
HUGE = "hex(zeroblob(400000000))"


# --- every address --------------------------------------------------------------------------------


def _addresses() -> list[str]:
    return sorted(set(_walk(get_resolver().url_patterns, "/")))


def _walk(patterns: list[URLPattern | URLResolver], before: str) -> Iterator[str]:
    for pattern in patterns:
        address = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern.url_patterns, address)
        else:
            yield re.sub(r"<int:\w+>", "1", re.sub(r"<(str|path):\w+>", "x", address))


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"])
def test_other_machines_get_only_401_without_a_token(method: str, settings: LazySettings) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, bind="0.0.0.0", token=TOKEN)
    client = Client(headers={"host": "localhost"}, REMOTE_ADDR="192.0.2.7")

    replies = {
        address: client.generic(method, address, b"{}", content_type="application/json")
        for address in _addresses()
    }

    health = replies.pop("/healthz")
    # Says whether it runs to who watches it, and nothing about profiles.
    assert set(health.json()) <= {"status"} if method == "GET" else True
    assert [path for path, reply in replies.items() if reply.status_code not in {401, 403}] == []


def test_no_other_host_name_is_answered(settings: LazySettings) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, token="", bind="127.0.0.1")
    client = Client(headers={"host": "evil.example"})

    replies = {address: client.get(address) for address in _addresses()}

    refused = {
        address
        for address, reply in replies.items()
        if reply.status_code == 400 and reply.json()["error"]["code"] == "HOST_NOT_ALLOWED"
    }
    assert set(replies) - refused == set()


def _state() -> list[object]:
    return [
        list(model.objects.order_by("pk").values())
        for model in (Job, StoredProfile)
    ]  # fmt: skip


def test_reading_changes_nothing(ours: Served, api: ApiClient) -> None:
    Job.objects.create(profile_id=ours.id, database=str(ours.path), state="running")
    Job.objects.create(profile_id=ours.id, database=str(ours.path))
    before, content = _state(), ours.path.read_bytes()
    files = sorted(ours.path.parent.iterdir())

    for address in _addresses():
        for path in {address, address.replace("/x/", f"/{ours.id}/")}:
            api.get(path)
            api.request("HEAD", path)
            api.request("OPTIONS", path)

    assert _state() == before
    assert ours.path.read_bytes() == content
    assert sorted(ours.path.parent.iterdir()) == files


# --- databases with malicious SQL -----------------------------------------------------------------


def _poisoned(original: Path, folder: Path, view: str, sql: str) -> Path:
    """A copy with one view replaced."""
    file = folder / "poisoned.sqlite"
    file.write_bytes(original.read_bytes())
    with closing(sqlite3.connect(file)) as connection:
        columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{view}")')]
        connection.execute("PRAGMA legacy_alter_table = ON")
        connection.execute(f'DROP VIEW "{view}"')
        listed = ", ".join(f'{sql} AS "{column}"' for column in columns)
        source = "t" if sql == "i" else "(SELECT 1)"
        head = f"{ENDLESS} " if sql == "i" else ""
        connection.execute(f'CREATE VIEW "{view}" AS {head}SELECT {listed} FROM {source}')
        connection.commit()
    return file


@pytest.mark.parametrize(
    ("view", "sql"),
    [
        ("view_db_version", HUGE),
        ("view_aggregations", "i"),
        ("view_op_nodes", "i"),
        ("view_op_nodes", HUGE),
        ("view_system_config", "load_extension('/tmp/evil.so')"),
        ("view_domains", "readfile('/etc/passwd')"),
        ("view_op_nodes", "randomblob(1e9)"),
    ],
)
def test_a_view_that_is_somebodys_sql(
    view: str, sql: str, own_database: Path, tmp_path: Path, settings: LazySettings
) -> None:
    file = _poisoned(own_database, tmp_path, view, sql)
    settings.ENVIRONMENT = replace(
        settings.ENVIRONMENT, databases=(file,), query_timeout_s=0.5, token="", bind="127.0.0.1"
    )
    api = ApiClient()
    root = f"{API}/profiles/{profile_id(file)}/"
    began = sum(os.times()[:4])

    replies = [api.get(root), api.get(f"{root}aggregations/1/ops/"), api.get(f"{API}/profiles/")]

    assert {reply.status for reply in replies} <= {200, 404, 422, 503}
    assert b"root:" not in b"".join(reply.body for reply in replies)
    # Three requests of a limit each, and opening has one of its own. What is endless computes, in
    # processes that were ended.
    assert sum(os.times()[:4]) - began < 30


_VALUES = ("'²x'", "NULL", "9e999", "-9223372036854775808", "x'ff00'", "''", "'9' || hex(1e300)")
_READ_VIEWS = (
    *("view_aggregations", "view_op_nodes", "view_domains", "view_iterations_all"),
    *("view_system_config", "view_profile_info", "view_gpu_devices", "view_kernel_metrics"),
    *("view_model_summary", "view_advice", "view_expert_systems", "view_texts"),
)


_SLOW_ADDRESSES = ("/report/", "/events/export/", "/perfetto/")  # Read for the first cases only.


def _misvalued(original: Path, folder: Path, view: str, value: str, *, are_kept: bool) -> Path:
    """A copy whose view has rows with one column after the other replaced by a value.

    Args:
        original: The database.
        folder: Where the copy is made.
        view: The view.
        value: The SQL of the value.
        are_kept: Whether it has the good rows, too.
    """
    file = folder / "misvalued.sqlite"
    file.write_bytes(original.read_bytes())
    with closing(sqlite3.connect(file)) as connection:
        columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{view}")')]
        (text,) = connection.execute(
            "SELECT sql FROM sqlite_master WHERE name = ?", (view,)
        ).fetchone()
        connection.execute("PRAGMA legacy_alter_table = ON")
        connection.execute(text.replace(f"VIEW {view}", f"VIEW {view}_before", 1))
        connection.execute(f'DROP VIEW "{view}"')
        rows = [
            ", ".join(
                f'{value if one == wrong else chr(34) + one + chr(34)} AS "{one}"'
                for one in columns
            )
            for wrong in columns
        ]
        every = ", ".join(f'{value} AS "{one}"' for one in columns)
        source = f"(SELECT * FROM {view}_before LIMIT 3)"
        selects = " UNION ALL ".join(f"SELECT {row} FROM {source}" for row in [*rows[:20], every])
        good = f"SELECT * FROM {view}_before UNION ALL " if are_kept else ""
        connection.execute(f'CREATE VIEW "{view}" AS {good}{selects}')
        connection.commit()
    return file


@pytest.mark.parametrize("value", ["'²x'", "NULL"])
def test_no_id_of_a_file_is_an_internal_error(
    value: str, own_database: Path, tmp_path: Path, settings: LazySettings
) -> None:
    file = _misvalued(own_database, tmp_path, "view_aggregations", value, are_kept=False)
    _expect_no_internal_error(file, settings, without=())


@pytest.mark.parametrize("are_kept", [True, False])
@pytest.mark.parametrize("view", _READ_VIEWS)
@pytest.mark.parametrize("value", _VALUES)
def test_no_value_of_a_file_is_an_internal_error(
    view: str,
    value: str,
    *,
    are_kept: bool,
    own_database: Path,
    tmp_path: Path,
    settings: LazySettings,
) -> None:
    file = _misvalued(own_database, tmp_path, view, value, are_kept=are_kept)
    _expect_no_internal_error(file, settings, without=_SLOW_ADDRESSES)


def _expect_no_internal_error(file: Path, settings: LazySettings, without: tuple[str, ...]) -> None:
    settings.ENVIRONMENT = replace(
        settings.ENVIRONMENT, databases=(file,), token="", bind="127.0.0.1"
    )
    api = ApiClient()
    found = {
        address: api.get(address.replace("/x/", f"/{profile_id(file)}/", 1)).status
        for address in _addresses()
        if "/profiles/" in address and not address.endswith(without)
    }
    assert {address: status for address, status in found.items() if status == 500} == {}


def test_nothing_can_be_attached_or_written(ours: Served, tmp_path: Path) -> None:
    from aggregator.errors import DatabaseError
    from aggregator.tables.connection import opened

    with opened(ours.path, time_limit_s=5) as database:
        for sql in (
            f"ATTACH '{tmp_path}/new.sqlite' AS other",
            "PRAGMA writable_schema = ON",
            "CREATE TABLE evil (x)",
            "DELETE FROM aggregations",
            "SELECT load_extension('/tmp/evil.so')",
        ):
            with pytest.raises(DatabaseError):
                database.rows(sql)
    assert not list(tmp_path.iterdir())


# --- texts that bite ------------------------------------------------------------------------------

TEXTS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "=HYPERLINK(\"http://evil.example\")",
    "+1+1", "-1+1", "@SUM(1)", "\t=1+1", "\r=1+1",
    "a\x00\x01\x1b[31m\u202eb",
    "n" * (1 << 20),
)  # fmt: skip


@pytest.fixture
def hostile(own_database: Path, tmp_path: Path, settings: LazySettings) -> str:
    """A database whose ops carry such names."""
    file = tmp_path / "hostile.sqlite"
    file.write_bytes(own_database.read_bytes())
    with closing(sqlite3.connect(file)) as connection:
        ids = [row[0] for row in connection.execute("SELECT rowid FROM ops ORDER BY rowid")]
        for row, text in zip(ids, TEXTS * 3, strict=False):
            connection.execute("UPDATE ops SET op_name = ? WHERE rowid = ?", (text, row))
        connection.commit()
    settings.ENVIRONMENT = replace(
        settings.ENVIRONMENT, databases=(file,), token="", bind="127.0.0.1"
    )
    return f"{API}/profiles/{profile_id(file)}/aggregations/1/"


def test_hostile_names_are_data(hostile: str, api: ApiClient) -> None:
    reply = api.get(f"{hostile}ops/", page_size=200)

    assert reply.status == 200
    assert reply.headers["Content-Type"].startswith("application/json")
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    names = {row["op_name"] for row in reply.json["results"]}
    assert "<script>alert(1)</script>" in names
    assert b"<script>" not in api.get("/").body.replace(b"<script ", b"")


@pytest.mark.parametrize("kind", ["csv", "xlsx", "pdf", "json"])
def test_hostile_names_can_be_exported(hostile: str, api: ApiClient, kind: str) -> None:
    reply = api.get(f"{hostile}ops/export/", format=kind)

    assert reply.status == 200
    if kind == "csv":
        csv.field_size_limit(1 << 24)
        cells = [cell for row in csv.reader(io.StringIO(reply.body.decode())) for cell in row]
        text = [cell for cell in cells if not re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", cell)]
        assert not [cell[:20] for cell in text if cell[:1] in {"=", "+", "-", "@", "\t", "\r"}]
