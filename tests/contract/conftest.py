"""The two databases behind the API: one of NVIDIA's DLProf and one of this program."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from jsonschema import Draft202012Validator

from aggregator.options import ImportOptions
from aggregator.system.progress import NullProgress
from tests.conftest import made_once
from tests.contract.client import API, ApiClient, Served

#: Databases and the rows in them that tests ask for; found once per process.
_SERVED: dict[Path, Served] = {}


@pytest.fixture(autouse=True)
def _state(db: None) -> None:
    """Names of profiles, and what was added, are rows of the viewer's own."""


@pytest.fixture(scope="session")
def golden_database(golden_dir: Path) -> Path:
    return golden_dir / "dlprof_dldb.sqlite"


#: When the eighth of the demo profile's 20 steps ends; later events repeat what is before.
_LAST_NS = 4_480_000_000
_EVENTS = ("NVTX_EVENTS", *(f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("RUNTIME", "KERNEL")))


@pytest.fixture(scope="session")
def own_database(demo_profile: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of the demo profile's first steps, made once for all test processes.

    No test writes to it.
    """
    from aggregator.pipeline import import_profile

    def make(path: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            begin = _first_steps(demo_profile, Path(folder) / demo_profile.name)
            import_profile(ImportOptions(begin, path, profile_name="demo"), NullProgress())

    return made_once(tmp_path_factory, "own/dlprof_dldb.sqlite", make)


def _first_steps(profile: Path, target: Path) -> Path:
    shutil.copyfile(profile, target)
    with closing(sqlite3.connect(target)) as connection:
        for table in _EVENTS:
            connection.execute(f"DELETE FROM {table} WHERE start > ?", (_LAST_NS,))
        connection.commit()
    return target


@pytest.fixture(params=["nvidia", "ours"])
def served(request: pytest.FixtureRequest, settings: LazySettings) -> Served:
    """Each test that asks for it runs with both databases."""
    name = "golden_database" if request.param == "nvidia" else "own_database"
    return serve(request.getfixturevalue(name), settings)


@pytest.fixture
def ours(own_database: Path, settings: LazySettings) -> Served:
    return serve(own_database, settings)


@pytest.fixture
def nvidia(golden_database: Path, settings: LazySettings) -> Served:
    return serve(golden_database, settings)


@pytest.fixture
def api() -> ApiClient:
    return ApiClient()


@pytest.fixture(scope="session")
def document() -> dict[str, Any]:
    """The OpenAPI document as the server makes it."""
    reply = ApiClient().get(f"{API}/schema/")
    assert reply.status == 200
    found: dict[str, Any] = reply.json
    return found


@pytest.fixture(scope="session")
def assert_described(document: dict[str, Any]) -> Callable[[Any, dict[str, Any]], None]:
    """Checks a reply by a schema of the document, whose own validity a test of its own checks."""

    def check(reply: Any, schema: dict[str, Any]) -> None:
        whole = schema | {"components": document["components"]}
        Draft202012Validator(whole).validate(reply)

    return check


def serve(path: Path, settings: LazySettings) -> Served:
    """Serve one database."""
    wanted = replace(settings.ENVIRONMENT, databases=(path,))
    if path not in _SERVED:
        settings.ENVIRONMENT = replace(wanted, token="", bind="127.0.0.1")
        _SERVED[path] = _find_served(path)
    settings.ENVIRONMENT = wanted
    return _SERVED[path]


def _find_served(path: Path) -> Served:
    found = Served(path, aggregation=1, iteration=0, op_id="")
    api = ApiClient()
    busy = api.get(found.at("iterations/"), total_kernel_count__gte=1).json["results"][0]
    kernels = api.get(found.at("kernels/"), page_size=10).json["results"]
    return replace(found, iteration=busy["iteration_index"], op_id=kernels[0]["op_id"])
