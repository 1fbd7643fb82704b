"""The OpenAPI document is valid, complete, and what the replies really look like."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any
from urllib.parse import quote

import pytest
from drf_spectacular.validation import validate_schema

from aggregator.tables.figures import FIGURES
from tests.contract.client import API, ApiClient, Served
from viewer.api.urls import urlpatterns

#: What needs more to be asked; test_comparisons.py, test_timeline.py and test_memory.py do.
NEEDS_MORE = re.compile(
    r"/(compare|history|timeline/(?:items|tiles|range|hits|event|perfetto)|memory/curve|memory/alive)/"
)


def test_it_is_valid(document: dict[str, Any]) -> None:
    """Parameters that several operations have are validated once: three of four are such."""
    parameters: dict[str, Any] = {}
    copied = deepcopy(document)
    for operations in copied["paths"].values():
        for operation in operations.values():
            named = {(one["in"], one["name"]) for one in operation.get("parameters", ())}
            assert len(named) == len(operation.get("parameters", ()))
            texts = {json.dumps(one): one for one in operation.get("parameters", ())}
            operation["parameters"] = [one for text, one in texts.items() if text not in parameters]
            parameters |= texts
    validate_schema(copied)


def test_it_holds_every_address(document: dict[str, Any]) -> None:
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
            for parameter in operation.get("parameters", []):
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
