"""Variables of the environment set what the documentation says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from viewer.environment import Environment, is_loopback, read_or_make_secret_key


def test_without_variables_only_this_machine_is_served(tmp_path: Path) -> None:
    environment = Environment.read({"XDG_STATE_HOME": str(tmp_path)})

    assert (environment.bind, environment.is_loopback, environment.token) == ("127.0.0.1", True, "")
    assert environment.databases == ()
    assert environment.allowed_hosts == ()
    assert environment.state_dir == tmp_path / "dlprof"


def test_lists_are_taken_apart(tmp_path: Path) -> None:
    environment = Environment.read(
        {
            "DLPROF_DATABASES": os.pathsep.join([str(tmp_path / "a"), str(tmp_path / "b")]),
            "DLPROF_ALLOWED_HOSTS": "one.example, two.example,",
            "DLPROF_STATE_DIR": str(tmp_path),
            "DLPROF_NO_AUTH": "1",
        }
    )

    assert environment.databases == (tmp_path / "a", tmp_path / "b")
    assert environment.allowed_hosts == ("one.example", "two.example")
    assert environment.no_auth


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("example.org", False),
        ("", False),
    ],
)
def test_loopback_addresses_are_recognized(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected


def test_without_a_home_the_state_lasts_as_long_as_the_viewer(tmp_path: Path) -> None:
    environment = Environment.read(
        {"XDG_STATE_HOME": "/dev/null/nowhere", "DLPROF_RUN_DIR": str(tmp_path)}
    )

    assert environment.state_dir == tmp_path / "state"


def test_the_secret_key_is_made_once_and_for_its_owner_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DLPROF_SECRET_KEY", raising=False)
    state = tmp_path / "state"

    first = read_or_make_secret_key(state)

    assert len(first) > 50
    assert read_or_make_secret_key(state) == first
    assert [path.name for path in state.iterdir()] == ["secret_key"]
    assert (state / "secret_key").stat().st_mode & 0o777 == 0o600
