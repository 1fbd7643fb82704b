"""Comparisons of profiles and the history of those of one name."""

from __future__ import annotations

from fractions import Fraction

import jsonschema
import pytest

from tests.contract.client import API, ApiClient, Served
from tests.contract.test_errors import assert_error


def compare(api: ApiClient, ours: Served):
    profile = api.get("/api/v1/profiles/").json["results"][0]["id"]
    aggregations = api.get(f"/api/v1/profiles/{profile}/aggregations/").json["results"]
    first, second = sorted(row["id"] for row in aggregations)[:2]
    return {"base": f"{profile}@{first}", "new": f"{profile}@{second}"}


def exact(value: int | str) -> Fraction:
    return Fraction(str(value))


def test_rows_and_classes_add_up_to_the_difference(api: ApiClient, ours: Served) -> None:
    found = api.get("/api/v1/compare/", **compare(api, ours)).json
    difference = exact(found["new"]["step_ns"]) - exact(found["base"]["step_ns"])
    assert exact(found["difference_ns"]) == difference
    for part in ("rows", "classes"):
        assert sum(exact(one["difference_ns"]) for one in found[part]) == difference
        assert sum(exact(one["new_ns"]) for one in found[part]) == exact(found["new"]["step_ns"])
    assert found["verdict"] in ("faster", "slower", "same", "cannot tell")
    assert found["rows"][0]["class"]


def test_a_row_has_its_time_in_every_iteration(api: ApiClient, ours: Served) -> None:
    sides = compare(api, ours)
    found = api.get("/api/v1/compare/", **sides).json
    samples = api.get("/api/v1/compare/row/", **sides, row=0).json
    for side in ("base", "new"):
        values = [value for capture in samples[f"{side}_ns"] for value in capture]
        assert len(values) == found[side]["iterations"]
        mean = sum(values) / len(values)
        assert mean == pytest.approx(float(found["rows"][0][f"{side}_ns"]))


def test_what_cannot_be_compared_is_said(api: ApiClient, ours: Served) -> None:
    sides = compare(api, ours)
    assert_error(api.get("/api/v1/compare/", base=sides["base"]), 400, "INVALID_VALUE")
    assert_error(
        api.get("/api/v1/compare/", base="missing", new=sides["new"]), 404, "PROFILE_NOT_SERVED"
    )
    bad = {**sides, "new": sides["base"].split("@")[0] + "@x"}
    assert_error(api.get("/api/v1/compare/", **bad), 400, "INVALID_VALUE")
    assert_error(api.get("/api/v1/compare/", **{**sides, "new": sides["base"]}), 400, "USAGE_ERROR")
    assert_error(api.get("/api/v1/compare/", **sides, nope=1), 400, "UNKNOWN_FILTER")
    assert_error(api.get("/api/v1/compare/row/", **sides, row=10**9), 400, "INVALID_VALUE")


def test_a_database_of_dlprof_is_not_compared(api: ApiClient, nvidia: Served) -> None:
    profile = api.get("/api/v1/profiles/").json["results"][0]["id"]
    reply = api.get("/api/v1/compare/", base=profile, new=f"{profile}@1")
    assert 400 <= reply.status < 500
    assert reply.json["error"]["hint"]
    assert "NVIDIA" in reply.json["error"]["message"]


def test_the_history_of_a_name(api: ApiClient, ours: Served) -> None:
    profile = api.get("/api/v1/profiles/").json["results"][0]
    found = api.get("/api/v1/history/", name=profile["name"]).json
    assert [one["name"] for one in found["captures"]] == [profile["id"]]
    step = next(one for one in found["trends"] if one["kind"] == "step")
    classes = [one["values_ns"][0] for one in found["trends"] if one["kind"] == "class"]
    assert sum(classes) == pytest.approx(step["values_ns"][0], abs=len(classes))
    assert_error(api.get("/api/v1/history/", name="no such name"), 400, "INVALID_VALUE")


@pytest.mark.parametrize("path", ["compare/", "compare/row/", "history/"])
def test_replies_are_as_described(api: ApiClient, ours: Served, path: str) -> None:
    document = api.get(f"{API}/schema/").json
    more = {} if path == "history/" else compare(api, ours)
    reply = api.get(f"{API}/{path}", **more, **({"row": 1} if path == "compare/row/" else {}))
    assert reply.status == 200
    described = document["paths"][f"{API}/{path}"]["get"]["responses"]["200"]
    schema = described["content"]["application/json"]["schema"]
    jsonschema.validate(reply.json, schema | {"components": document["components"]})
