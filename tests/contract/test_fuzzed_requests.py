"""Requests made up from the OpenAPI document: no 500, and every reply is as described there.

``SCHEMATHESIS_EXAMPLES`` sets how many are made up for each operation (CONTRIBUTING.md). Jobs that
a request queues are done at once, as a worker would do them.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from django.conf import LazySettings
from django.core.wsgi import get_wsgi_application
from hypothesis import HealthCheck, Phase, seed, settings
from schemathesis import Case
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation import GenerationMode
from schemathesis.pytest.lazy import get_all_tests
from schemathesis.python._constants.orchestrator import make_constants_value_source

from scripts.write_openapi import document
from tests.builders import analyze_file
from tests.contract.client import ApiClient, Served
from tests.fuzz.exports import small_export
from tests.jobs.in_process import do_queued_jobs
from viewer.state.models import Job

EXAMPLES = int(os.environ.get("SCHEMATHESIS_EXAMPLES", "2"))
DOCUMENT = document()
OPERATIONS = [(method, path) for path, item in DOCUMENT["paths"].items() for method in item]
CHECKED = (
    *("not_a_server_error", "status_code_conformance", "content_type_conformance"),
    *("response_headers_conformance", "response_schema_conformance"),
    *("negative_data_rejection", "unsupported_method"),
)


@pytest.fixture(scope="session")
def schema() -> Any:
    """The whole document; the tests of its operations share what is found out about it."""
    load_all_checks()
    whole = schemathesis.openapi.from_dict(DOCUMENT)
    whole.app = get_wsgi_application()
    whole.location = "/api/v1/schema/"
    make_constants_value_source(whole)
    return whole


@pytest.fixture(params=OPERATIONS, ids=[f"{method.upper()} {path}" for method, path in OPERATIONS])
def operation(request: pytest.FixtureRequest, schema: Any) -> Any:
    """One operation. Its requests are made up when its test runs, not in each test process."""
    method, path = request.param
    return schema.include(method=method.upper(), path=path)


@pytest.fixture(scope="session")
def made_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile with everything in it, small: each request reads all of it."""
    folder = tmp_path_factory.mktemp("made")
    small_export().write(folder / "export.sqlite")
    analyze_file(folder / "export.sqlite", folder / "dldb.sqlite")
    return folder / "dldb.sqlite"


@pytest.fixture
def known(
    made_database: Path, tmp_path: Path, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> Served:
    """A viewer that serves a copy of it, for requests change it."""
    served = tmp_path / "served"
    served.mkdir()
    shutil.copyfile(made_database, served / "dldb.sqlite")
    settings.ENVIRONMENT = replace(
        settings.ENVIRONMENT,
        databases=(served,), upload_dir=tmp_path / "stored", token="", bind="127.0.0.1",
    )  # fmt: skip
    page = tmp_path / "page.html"
    page.write_text("<title><!--dlprof:title--></title><!--dlprof:data-->")
    monkeypatch.setattr("aggregator.html_report.template.PAGE", page)
    monkeypatch.setattr("viewer.jobs.service.send", lambda job: None)
    found = Served(served / "dldb.sqlite", aggregation=1, iteration=2, op_id="")
    kernels = ApiClient().get(found.at("kernels/"), page_size=10).json["results"]
    return replace(found, op_id=kernels[0]["op_id"])


def test_replies_are_as_described(operation: Any, known: Served) -> None:
    made: Any
    (made,) = get_all_tests(schema=operation, test_func=_ask, settings=None, given_kwargs={})
    _, ask_often = made.ok()
    ask_often(known=known)


@seed(20_251)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=False,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def _ask(case: Case, known: Served) -> None:
    _aim(case, known)
    response: Any = case.call(headers={"Host": "localhost", "Accept-Encoding": "identity"})
    checks: list[Any] = [CHECKS.get_one(name) for name in CHECKED]
    case.validate_response(response, checks=checks)

    if Job.objects.exists():
        do_queued_jobs()
        assert not Job.objects.filter(error__code="INTERNAL_ERROR").exists()


def _aim(case: Case, known: Served) -> None:
    """Most of the requests reach what exists; the rest ends at a 404."""
    path = case.meta.components.get(ParameterLocation.PATH) if case.meta else None
    if len(str(case.query)) % 5 == 0 or (path and path.mode == GenerationMode.NEGATIVE):
        # A path that is meant to be wrong stays so: the reply has to refuse it.
        return
    there = {
        "profile": known.id,
        "aggregation": known.aggregation,
        "iteration": known.iteration,
        "op_id": known.op_id,
        "name": "iteration-summary",
    }
    for name in set(case.path_parameters) & set(there):
        case.path_parameters[name] = there[name]
