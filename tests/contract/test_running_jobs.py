"""Who may see and record the jobs of the viewer's machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from aggregator.sources.collector import standing_by
from tests.contract.client import API, ApiClient

ADDRESS = f"{API}/running-jobs/"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a job of this process."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return standing_by.make_job(["python", "train\x1b.py"], tmp_path)


def _at(settings: LazySettings, **changes: Any) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, **changes)


def test_this_machine_sees_jobs_of_its_user_only(settings: LazySettings, folder: Path) -> None:
    _at(settings, bind="127.0.0.1", token="")
    (found,) = ApiClient().get(ADDRESS).json["results"]
    assert found["command"] == "python train\\x1b.py"
    folder.chmod(0o755)  # Others could have written what lies in it.
    assert ApiClient().get(ADDRESS).json == {"results": [], "reason": None}


@pytest.mark.usefixtures("folder")
def test_others_see_no_command_lines_unless_they_may(settings: LazySettings) -> None:
    _at(settings, bind="0.0.0.0", token="secret", allowed_hosts=("localhost",))
    client = ApiClient(authorization="Bearer secret")
    answer = client.get(ADDRESS).json
    assert answer["results"] == []
    assert "clients of that machine" in answer["reason"]
    refused = client.post(ADDRESS, {"process": 1})
    assert (refused.status, refused.json["error"]["code"]) == (403, "RECORDING_NOT_ALLOWED")
    # A proxy on this machine passes on what others ask.
    _at(settings, bind="127.0.0.1")
    assert client.get(ADDRESS, {"x-forwarded-for": "10.0.0.1"}).json["results"] == []
    _at(settings, bind="0.0.0.0", record_jobs=True)
    assert len(client.get(ADDRESS).json["results"]) == 1


@pytest.mark.parametrize(
    "body", [{}, {"process": "1"}, {"process": 0}, {"process": 1, "steps": 0}, {"process": None}]
)
def test_a_window_needs_a_process_and_a_number_of_steps(
    settings: LazySettings, body: dict[str, object]
) -> None:
    _at(settings, bind="127.0.0.1", token="")
    refused = ApiClient().post(ADDRESS, body)
    assert refused.status == 400
    assert "must be a whole number from 1 to" in refused.json["error"]["message"]
