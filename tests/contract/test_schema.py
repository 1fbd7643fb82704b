"""The OpenAPI document is valid, complete, and what the replies really look like."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from drf_spectacular.validation import validate_schema

from aggregator.tables.figures import FIGURES
from tests.contract.client import API, ApiClient, Served
from viewer.api.urls import urlpatterns

#: What needs more to be asked; test_comparisons.py, test_timeline.py and test_memory.py do.
NEEDS_MORE = re.compile(
    r"/(compare|history|timeline/(?:tiles|range|hits|event|perfetto)|memory/curve|memory/alive)/"
)


def test_schema_is_valid(document: dict[str, Any]) -> None:
    validate_schema(document)


def test_an_operation_has_each_parameter_once(document: dict[str, Any]) -> None:
    for operations in document["paths"].values():
        for operation in operations.values():
            places = [(one["in"], one["name"]) for one in _parameters(document, operation)]
            assert len(set(places)) == len(places)


def test_equal_parameters_are_written_once(document: dict[str, Any]) -> None:
    written = [json.dumps(one) for one in document["components"]["parameters"].values()]
    used = {ref for _, refs in _own_and_shared(document) for ref in refs}
    own = [json.dumps(one) for parameters, _ in _own_and_shared(document) for one in parameters]

    assert len(set(written + own)) == len(written + own)
    assert used == {
        f"#/components/parameters/{key}" for key in document["components"]["parameters"]
    }


def _own_and_shared(document: dict[str, Any]) -> Iterator[tuple[list[Any], list[str]]]:
    for operations in document["paths"].values():
        for operation in operations.values():
            parameters = operation.get("parameters", [])
            refs = [one["$ref"] for one in parameters if "$ref" in one]
            yield [one for one in parameters if "$ref" not in one], refs


def _parameters(document: dict[str, Any], operation: dict[str, Any]) -> list[dict[str, Any]]:
    shared = document["components"]["parameters"]
    return [
        shared[one["$ref"].rsplit("/", 1)[1]] if "$ref" in one else one
        for one in operation.get("parameters", [])
    ]


def test_schema_has_every_address(document: dict[str, Any]) -> None:
    described = {re.sub(r"\{[^}]+\}", "*", path) for path in document["paths"]}

    addresses = {
        f"{API}/" + re.sub(r"<[^>]+>", "*", str(pattern.pattern)) for pattern in urlpatterns
    }

    assert described == addresses - {f"{API}/schema/"}


def test_operation_ids_are_unique(document: dict[str, Any]) -> None:
    ids = [
        operation["operationId"]
        for operations in document["paths"].values()
        for operation in operations.values()
    ]

    assert len(ids) == len(set(ids))


def test_every_column_and_parameter_is_described(document: dict[str, Any]) -> None:
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for parameter in _parameters(document, operation):
                if parameter["in"] == "query":
                    assert parameter["description"], (path, parameter["name"])


@pytest.mark.django_db
def test_every_reply_is_as_described(
    api: ApiClient,
    served: Served,
    document: dict[str, Any],
    assert_described: Callable[[Any, dict[str, Any]], None],
) -> None:
    checked = 0
    row = api.get(served.at("kernels/")).json["results"][0]
    kernel = quote(row["kernel_long_name"] or row["kernel_name"], safe="")
    for path, operations in document["paths"].items():
        content = operations.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        if "application/json" not in content or "{job}" in path or "{upload}" in path:
            continue
        if NEEDS_MORE.search(path):
            continue
        more = {"format": "json"} if path.endswith("/export/") else {}
        for address in _addresses(path.replace("{kernel}", kernel), served):
            reply = api.get(address, **({"column": "op_id"} if "distinct" in path else more))
            if "distinct" in path and reply.status == 400:
                continue
            if reply.status == 422 and reply.json["error"]["code"] == "CANNOT_REPLAY":
                continue
            assert reply.status == 200, address
            assert_described(reply.json, content["application/json"]["schema"])
            checked += 1
    assert checked > 30


def _addresses(path: str, served: Served) -> list[str]:
    filled = (
        path.replace("{profile}", served.id)
        .replace("{aggregation}", str(served.aggregation))
        .replace("{iteration}", str(served.iteration))
        .replace("{op_id}", served.op_id)
    )
    return [filled.replace("{name}", name) for name in FIGURES] if "{name}" in path else [filled]
