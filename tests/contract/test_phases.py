"""Phases and evidence of names in the API."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import LazySettings

from tests.contract.client import ApiClient, Served
from tests.contract.test_errors import assert_error
from tests.golden.test_phases import serving


@pytest.fixture
def served(tmp_path: Path, settings: LazySettings) -> Served:
    path = serving(tmp_path).path
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, databases=(path,))
    return Served(path, 1, 0, "")


def test_phases_have_tokens_and_rates(api: ApiClient, served: Served) -> None:
    rows = api.get(served.at("phases/")).json["results"]
    assert [(row["phase"], row["iterations"], row["tokens"]) for row in rows] == [
        ("decode", 8, 32),
        ("prefill", 2, 128),
    ]
    assert rows[0]["tokens_per_second"] == pytest.approx(32 / 800e-9)
    assert (rows[0]["token_interval_ns"], rows[1]["token_interval_ns"]) == (100, None)
    iterations = api.get(served.at("iterations/?phase__in=decode")).json
    assert iterations["count"] == 8


def test_the_evidence_of_names_adds_up(api: ApiClient, served: Served) -> None:
    rows = api.get(served.at("name-evidence/")).json["results"]
    assert [(row["name_grade"], row["gpu_time_ns"], row["gpu_time_pct"]) for row in rows] == [
        ("recorded", 55, 100.0)
    ]


@pytest.mark.django_db
def test_an_aggregation_of_one_phase_is_queued(api: ApiClient, served: Served) -> None:
    reply = api.post(f"{served.profile}aggregations/", {"phase": "decode"})
    assert reply.status == 202
    assert reply.json["request"] == {
        "key_node": "",
        "iter_start": None,
        "iter_stop": None,
        "phase": "decode",
        "bare_step_ns": None,
    }
    refused = api.post(f"{served.profile}aggregations/", {"phase": "x" * 201})
    assert_error(refused, 400, "INVALID_VALUE")
