"""All errors of the API have one shape."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from aggregator.tables import figures
from aggregator.tables.counts import QueryCache
from tests.contract.client import API, ApiClient, Reply, Served
from viewer.api.tables import TableView


def assert_error(reply: Reply, status: int, code: str) -> dict[str, Any]:
    assert reply.status == status
    assert reply.headers["Content-Type"] == "application/json"
    assert set(reply.json) == {"error"}
    error: dict[str, Any] = reply.json["error"]
    assert set(error) == {"code", "message", "hint", "details"}
    assert error["code"] == code
    assert error["message"].endswith((".", "?"))
    assert isinstance(error["details"], dict)
    return error


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/nope", "NOT_FOUND"),
        ("/nope/", "NOT_FOUND"),
        ("/static/nope.js", "NOT_FOUND"),
        (f"{API}/", "NOT_FOUND"),
        (f"{API}/nope/", "NOT_FOUND"),
        (f"{API}/profiles", "NOT_FOUND"),
        (f"{API}/profiles/nope/", "PROFILE_NOT_SERVED"),
        (f"{API}/profiles/nope/aggregations/", "PROFILE_NOT_SERVED"),
        (f"{API}/profiles/nope/aggregations/1/ops/", "PROFILE_NOT_SERVED"),
    ],
)
def test_missing_resources_are_not_found(api: ApiClient, path: str, code: str) -> None:
    assert_error(api.get(path), 404, code)


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("nope/", "NOT_FOUND"),
        ("figures/nope/", "FIGURE_NOT_FOUND"),
        ("ops/NOPE_1/", "OP_NOT_FOUND"),
        ("ops/NOPE_1/kernels/", "OP_NOT_FOUND"),
        ("iterations/987654/kernels/", "ITERATION_NOT_FOUND"),
        ("iterations/987654/ops/", "ITERATION_NOT_FOUND"),
        ("iterations/{iteration}/ops/NOPE_1/kernels/", "OP_NOT_FOUND"),
    ],
)
def test_objects_of_other_aggregations_are_not_found(
    api: ApiClient, served: Served, address: str, code: str
) -> None:
    assert_error(api.get(served.at(address)), 404, code)


def test_an_aggregation_that_does_not_exist(api: ApiClient, served: Served) -> None:
    other = replace(served, aggregation=99)

    assert_error(api.get(other.at("ops/")), 404, "AGGREGATION_NOT_FOUND")


def test_the_nearest_op_is_named(api: ApiClient, served: Served) -> None:
    wrong = replace(served, op_id=f"{served.op_id}x")

    error = assert_error(api.get(wrong.at("ops/{op_id}/")), 404, "OP_NOT_FOUND")

    assert served.op_id in error["hint"]


@pytest.mark.django_db
def test_a_job_that_does_not_exist(api: ApiClient) -> None:
    assert_error(api.get(f"{API}/jobs/nope/"), 404, "JOB_NOT_FOUND")
    assert_error(api.post(f"{API}/jobs/nope/cancel/"), 404, "JOB_NOT_FOUND")
    assert_error(api.post(f"{API}/jobs/nope/retry/"), 404, "JOB_NOT_FOUND")


@pytest.mark.parametrize(
    "address",
    [
        "performance-summary/",
        "gpu-utilization/",
        "resource-usage/",
        "kernel-summary/",
        "op-summary/",
        "tensor-core-efficiency/",
        "top-ops/",
        "top-kernels/",
        "verdict/",
        "timeline/",
        "timeline/range/",
        "memory/",
        "memory/curve/",
        "memory/alive/",
        "critical-path/",
        "op-sensitivity/",
        "what-if/",
        "stragglers/",
        "recommendations/",
        "ops/{op_id}/",
        "figures/gpus/",
    ],
)
def test_unknown_parameter_is_refused(api: ApiClient, served: Served, address: str) -> None:
    assert_error(api.get(served.at(address), nope="1"), 400, "UNKNOWN_FILTER")


def test_a_figure_takes_only_its_own_parameters(api: ApiClient, served: Served) -> None:
    assert_error(api.get(served.at("figures/gpus/"), start="1"), 400, "UNKNOWN_FILTER")
    assert_error(api.get(served.at("figures/gpus/"), theme="pink"), 400, "INVALID_VALUE")
    summary = served.at("figures/iteration-summary/")
    assert_error(api.get(summary, start="x"), 400, "INVALID_VALUE")
    assert_error(api.get(summary, view="some"), 400, "INVALID_VALUE")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_method_that_is_not_offered(served: Served, method: str) -> None:
    api = ApiClient(**{"content-type": "application/json"})

    reply = api.request(method, served.at("ops/"))

    assert_error(reply, 405, "METHOD_NOT_ALLOWED")
    assert reply.headers["Allow"] == "GET, HEAD, OPTIONS"


def test_an_unsupported_method_is_reported_without_the_right_to_change(served: Served) -> None:
    foreign = ApiClient(**{"sec-fetch-site": "cross-site"})

    reply = foreign.request("DELETE", served.at("ops/"))

    assert_error(reply, 405, "METHOD_NOT_ALLOWED")
    assert_error(foreign.request("POST", f"{served.profile}aggregations/"), 403, "CSRF_FAILED")


def test_a_body_that_is_not_json(api: ApiClient, ours: Served) -> None:
    address = f"{ours.profile}aggregations/"

    assert_error(api.post(address, "{broken"), 400, "INVALID_JSON")
    assert_error(api.post(address, "[1]"), 400, "INVALID_VALUE")
    # As deep as the longest body that is taken can be.
    for deep in ("[" * 60_000, '{"a":' * 12_000, "[" * 30_000 + "]" * 30_000):
        assert_error(api.post(address, deep), 400, "INVALID_JSON")


def test_a_body_of_another_type_needs_the_page_and_then_is_refused(ours: Served) -> None:
    api = ApiClient()
    api.get("/")
    token = {"X-CSRFToken": api.cookies["csrftoken"]}

    reply = api.post(f"{ours.profile}aggregations/", "a=1", "text/plain", headers=token)

    assert_error(reply, 415, "UNSUPPORTED_MEDIA_TYPE")


def test_reply_of_another_type_is_refused(api: ApiClient, served: Served) -> None:
    reply = api.get(served.at("ops/"), {"Accept": "text/html"})

    assert_error(reply, 406, "NOT_ACCEPTABLE")


def test_an_internal_error_reveals_no_details(
    api: ApiClient, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise RuntimeError("secret inside")

    monkeypatch.setattr(TableView, "get", fail)
    monkeypatch.setitem(figures.FIGURES, "gpus", fail)
    monkeypatch.setattr(figures, "_drawn", QueryCache(1))

    for address in ("ops/", "figures/gpus/"):
        reply = api.get(served.at(address))
        assert_error(reply, 500, "INTERNAL_ERROR")
        assert b"secret" not in reply.body


def test_a_file_that_is_lost_while_it_is_served(
    api: ApiClient, settings: LazySettings, tmp_path: Path
) -> None:
    lost = tmp_path / "lost.sqlite"
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, databases=(lost,))

    (item,) = api.get(f"{API}/profiles/").json["results"]

    assert item["error"]["code"] == "DATABASE_NOT_FOUND"
    assert item["aggregation_count"] is None
    assert_error(api.get(f"{API}/profiles/{item['id']}/"), 422, "DATABASE_NOT_FOUND")


def test_a_file_that_is_replaced_by_something_else(
    api: ApiClient, settings: LazySettings, tmp_path: Path
) -> None:
    other = tmp_path / "other.sqlite"
    other.write_text("This is a letter to my aunt, not a database.\n" * 100)
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, databases=(other,))

    (item,) = api.get(f"{API}/profiles/").json["results"]

    assert_error(api.get(f"{API}/profiles/{item['id']}/"), 422, "DATABASE_FOREIGN")


def test_a_parameter_given_twice_is_refused(api: ApiClient, ours: Served) -> None:
    reply = api.get(f"{ours.at('ops/')}?page=1&page=2")

    assert (reply.status, reply.json["error"]["code"]) == (400, "INVALID_VALUE")
    assert "page" in reply.json["error"]["message"]
