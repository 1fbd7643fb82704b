"""Profiles: several of them, folders of them, and what each says about itself."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections import Counter
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from aggregator.tables.connection import ProfileDatabase, opened
from aggregator.tables.declared.profile import profile_id, profile_item
from tests.contract.client import API, ApiClient, Served
from viewer.api.profiles import PROFILES
from viewer.api.replies import profiles
from viewer.profiles import registry

pytestmark = pytest.mark.django_db

ENDLESS = """
    DROP VIEW view_system_config;
    CREATE VIEW view_system_config AS
        WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t) SELECT i AS num_gpus FROM t
"""


@pytest.fixture
def folder(golden_database: Path, tmp_path: Path, settings: LazySettings) -> Path:
    """Three databases, and files that are none."""
    for name in ("b.sqlite", "a.sqlite", "c.sqlite"):
        shutil.copyfile(golden_database, tmp_path / name)
    (tmp_path / "notes.txt").write_text("not a database")
    (tmp_path / "export.sqlite").write_text("nor this")
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, databases=(tmp_path,))
    return tmp_path


@pytest.fixture
def impatient_with_b(settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short time limit, from which the other databases are exempt: the machine may be busy."""
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, query_timeout_s=0.5)

    def limited(path: Path, *, time_limit_s: float, keep: bool) -> Any:
        limit_s = time_limit_s if path.name == "b.sqlite" else 240.0
        return opened(path, time_limit_s=limit_s, keep=keep)

    monkeypatch.setattr(profiles, "opened", limited)


def test_an_id_names_one_file_of_a_folder(api: ApiClient, folder: Path) -> None:
    for name in ("a.sqlite", "b.sqlite", "c.sqlite"):
        item = api.get(f"{API}/profiles/{profile_id(folder / name)}/").json
        assert item["file_name"] == name
    assert api.get(f"{API}/profiles/{profile_id(folder / 'd.sqlite')}/").status == 404


def test_a_folder_serves_its_databases_and_nothing_else(api: ApiClient, folder: Path) -> None:
    body = api.get(f"{API}/profiles/").json

    assert [item["file_name"] for item in body["results"]] == ["a.sqlite", "b.sqlite", "c.sqlite"]
    assert len({item["id"] for item in body["results"]}) == 3


def test_a_database_that_appears_later_is_served_too(
    api: ApiClient, folder: Path, golden_database: Path
) -> None:
    shutil.copyfile(golden_database, folder / "d.sqlite")

    assert api.get(f"{API}/profiles/").json["count"] == 4


def test_an_id_is_the_same_in_every_run(folder: Path) -> None:
    assert profile_id(folder / "a.sqlite") == profile_id(folder / "a.sqlite")
    assert profile_id(folder / "a.sqlite") != profile_id(folder / "sub" / "a.sqlite")


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE read_only_system_config SET num_gpus = '\u00b2'",
        "UPDATE read_only_system_config SET num_gpus = printf('%.5000d', 1)",
        ENDLESS,
    ],
    ids=["no ASCII digit", "5,000 digits", "a view that never ends"],
)
def test_one_strange_database_does_not_hide_the_others(
    api: ApiClient, folder: Path, impatient_with_b: None, sql: str
) -> None:
    with closing(sqlite3.connect(folder / "b.sqlite")) as connection:
        connection.executescript(sql)

    reply = api.get(f"{API}/profiles/")

    assert (reply.status, reply.json["count"]) == (200, 3)
    first, _, last = reply.json["results"]
    assert first["error"] is None
    assert last["error"] is None


def test_whatever_one_database_does_the_others_are_listed(
    api: ApiClient, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def fail(path: Path, *rest: Any) -> dict[str, Any]:
        if path.name == "b.sqlite":
            raise ZeroDivisionError
        return profile_item(path, *rest)

    monkeypatch.setattr(profiles, "profile_item", fail)

    errors = [item["error"] for item in api.get(f"{API}/profiles/").json["results"]]

    assert [error and error["code"] for error in errors] == [None, "DATABASE_ERROR", None]


def test_a_locked_database_stays_in_the_list(
    api: ApiClient, folder: Path, impatient_with_b: None
) -> None:
    with closing(sqlite3.connect(folder / "b.sqlite")) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        locked = api.get(f"{API}/profiles/").json["results"]
        connection.rollback()
    free = api.get(f"{API}/profiles/").json["results"]

    assert [item["error"] and item["error"]["code"] for item in locked] == [
        None,
        "DATABASE_BUSY",
        None,
    ]
    assert [item["error"] for item in free] == [None, None, None]


def test_a_link_that_leads_out_of_a_served_folder_is_not_followed(
    api: ApiClient, folder: Path, own_database: Path
) -> None:
    (folder / "out.sqlite").symlink_to(own_database)
    (folder / "in.sqlite").symlink_to(folder / "a.sqlite")

    names = [item["file_name"] for item in api.get(f"{API}/profiles/").json["results"]]

    assert names == ["a.sqlite", "b.sqlite", "c.sqlite", "in.sqlite"]


def test_profiles_sort_by_every_column(api: ApiClient, folder: Path) -> None:
    for column in PROFILES.by_name:
        for sign in ("", "-"):
            reply = api.get(f"{API}/profiles/", ordering=f"{sign}{column}")
            assert (reply.status, reply.json["count"]) == (200, 3), column


def test_profiles_are_filtered_and_paged_like_every_list(api: ApiClient, folder: Path) -> None:
    assert api.get(f"{API}/profiles/", file_name__icontains="A.SQL").json["count"] == 1
    assert api.get(f"{API}/profiles/", search="nothing").json["count"] == 0
    assert api.get(f"{API}/profiles/", ordering="nope").status == 400
    assert api.get(f"{API}/profiles/", nope="1").status == 400


def test_a_database_of_nvidias_says_so(api: ApiClient, nvidia: Served) -> None:
    (item,) = api.get(f"{API}/profiles/").json["results"]
    detail = api.get(nvidia.profile).json

    assert (item["is_foreign"], item["db_version"], item["mode"]) == (True, "1.8.0", "pytorch")
    assert (detail["info"], detail["warnings"], detail["converted_from"]) == ({}, [], None)


@pytest.mark.parametrize("which", ["golden_database", "own_database"])
def test_where_nothing_can_be_written_nothing_can_be_aggregated(
    api: ApiClient,
    settings: LazySettings,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    which: str,
) -> None:
    path: Path = request.getfixturevalue(which)
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, databases=(path,))
    monkeypatch.setattr("viewer.api.replies.profiles.os.access", lambda path, mode: mode == os.R_OK)
    profile = f"{API}/profiles/{profile_id(path)}/"

    detail = api.get(profile).json
    reply = api.post(f"{profile}aggregations/", {"iter_start": 0})

    assert not detail["can_reaggregate"]
    assert "cannot be written" in detail["cannot_reaggregate_reason"]
    assert (reply.status, reply.json["error"]["code"]) == (409, "CANNOT_REAGGREGATE")
    assert api.get(f"{API}/jobs/").json["count"] == 0


def test_a_database_of_this_program_is_described(api: ApiClient, ours: Served) -> None:
    detail = api.get(ours.profile).json

    assert detail["is_foreign"] is False
    assert detail["name"] == "demo"
    assert (detail["can_reaggregate"], detail["cannot_reaggregate_reason"]) == (True, "")
    assert detail["aggregation_count"] == 2
    assert detail["info"]["source_file"].endswith(".sqlite")
    assert "/" not in detail["info"]["source_file"]


def test_aggregations_are_a_list(api: ApiClient, served: Served) -> None:
    body = api.get(f"{served.profile}aggregations/").json

    item = body["results"][0]
    assert item["id"] == 1
    assert [bool(row["is_steady"]) for row in body["results"]] in ([False], [False, True])
    assert item["iter_start"] <= item["iter_stop"]
    assert item["iter_aggregated"] == item["iter_stop"] - item["iter_start"] + 1


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"nope": 1}, "INVALID_VALUE"),
        ({"iter_start": "1"}, "INVALID_VALUE"),
        ({"iter_start": True}, "INVALID_VALUE"),
        ({"iter_start": 1.5}, "INVALID_VALUE"),
        ({"iter_stop": -1}, "INVALID_VALUE"),
        ({"iter_stop": 2**70}, "INVALID_VALUE"),
        ({"key_node": 5}, "INVALID_VALUE"),
        ({"key_node": "x" * 5_000}, "INVALID_VALUE"),
        ({"iter_start": 5, "iter_stop": 4}, "ITERATION_RANGE"),
    ],
)
def test_a_request_that_makes_no_sense_makes_no_job(
    api: ApiClient, ours: Served, body: dict[str, object], code: str
) -> None:
    reply = api.post(f"{ours.profile}aggregations/", body)

    assert (reply.status, reply.json["error"]["code"]) == (400, code)
    assert api.get(f"{API}/jobs/").json["count"] == 0


def test_an_iteration_beyond_the_last_is_refused_at_once(api: ApiClient, ours: Served) -> None:
    first = api.get(f"{ours.profile}aggregations/").json["results"][0]
    last = api.get(ours.at("performance-summary/")).json["total_iterations"] - 1

    reply = api.post(
        f"{ours.profile}aggregations/", {"key_node": first["key_node"], "iter_stop": last + 1}
    )

    assert (reply.status, reply.json["error"]["code"]) == (400, "ITERATION_RANGE")
    assert str(last) in reply.json["error"]["hint"]


@pytest.fixture
def with_endless(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """A folder with a file that never answers; how often each file is opened."""
    path = folder / "a.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            f"{ENDLESS}; CREATE VIEW view_profile_info AS"
            " SELECT num_gpus AS key, max(num_gpus) AS value FROM view_system_config"
        )
    asked: Counter[str] = Counter()
    for module in (registry, profiles):

        def limited(path: Path, **options: Any) -> AbstractContextManager[ProfileDatabase]:
            asked[path.name] += 1
            limit_s = 0.2 if path.name == "a.sqlite" else 240.0
            return opened(path, **options | {"time_limit_s": limit_s})

        monkeypatch.setattr(module, "opened", limited)
    monkeypatch.setattr(profiles, "_SLOW_S", 0.0)
    monkeypatch.setattr(profiles, "_FAILED", {})
    registry._probe.cache_clear()
    return asked


def test_a_file_that_never_answers_is_waited_for_once(
    api: ApiClient, with_endless: Counter[str]
) -> None:
    errors = [
        {item["file_name"]: item["error"] for item in api.get(f"{API}/profiles/").json["results"]}
        for _ in range(3)
    ]

    assert [error["a.sqlite"]["code"] for error in errors] == 3 * ["QUERY_TIMEOUT"]
    assert [error["b.sqlite"] for error in errors] == 3 * [None]
    assert with_endless["a.sqlite"] == 2  # to know whether it is served, and to list it


def test_a_slow_file_is_read_again_when_it_changes(
    api: ApiClient, folder: Path, with_endless: Counter[str]
) -> None:
    api.get(f"{API}/profiles/")
    shutil.copy(folder / "b.sqlite", folder / "a.sqlite")

    items = api.get(f"{API}/profiles/").json["results"]

    assert {item["file_name"]: item["error"] for item in items}["a.sqlite"] is None
