"""A profile without markers: what depends on ops is unknown, not zero."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.conf import LazySettings

from tests.conftest import ProfileFactory
from tests.contract.client import ApiClient, Served


@pytest.fixture
def simple(imported: ProfileFactory, settings: LazySettings) -> Served:
    database = imported("simple_no_nvtx")
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, databases=(database,), token="")
    return Served(database, aggregation=1, iteration=0, op_id="")


@pytest.mark.parametrize(
    ("address", "fields"),
    [
        ("performance-summary/", ["tc_utilization_pct"]),
        (
            "tensor-core-efficiency/",
            ["tc_utilization_pct", "using_tc_pct", "not_using_tc_pct"],
        ),
    ],
)
def test_the_share_of_eligible_ops_is_unknown(
    simple: Served, address: str, fields: list[str]
) -> None:
    reply = ApiClient().get(simple.at(address)).json
    assert set(reply["unknown"]) == set(fields)
    for name in fields:
        assert reply[name] is None
        assert "no ops" in reply["unknown"][name]


def test_its_figure_says_so(simple: Served) -> None:
    figure = ApiClient().get(simple.at("figures/tensor-core-efficiency/")).json
    assert not any(value for trace in figure["data"] for value in trace["values"])
    assert "%" not in str(figure["layout"].get("annotations"))


def test_what_follows_from_kernels_is_known(simple: Served) -> None:
    summary = ApiClient().get(simple.at("kernel-summary/")).json
    assert summary["all"]["gpu_time_ns"] > 0
    assert summary["unknown"] == {}
