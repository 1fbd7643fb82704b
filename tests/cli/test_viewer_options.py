"""dlprofviewer checks its options before it starts a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_cli import dlprofviewer, viewer_processes
from profiler_cli.dlprofviewer import AddressError, Options
from profiler_cli.options.token import TokenError, read_token


def _options(address: str = "127.0.0.1", port: int = 0) -> Options:
    return Options(address, port, auth=False, no_auth=False, allowed_hosts=(), databases=())


@pytest.mark.parametrize(
    ("words", "variables", "is_required"),
    [
        ([], {}, False),
        (["-b", "::1"], {}, False),
        (["--auth"], {}, True),
        (["-b", "0.0.0.0"], {}, True),
        (["--allowed-host", "profiles.example.org"], {}, True),
        ([], {"DLPROF_TOKEN": "0123456789abcdef"}, True),
        ([], {"DLPROF_TOKEN_FILE": "/etc/dlprof.token"}, True),
        ([], {"DLPROF_ALLOWED_HOSTS": "profiles.example.org"}, True),
        ([], {"DLPROF_URL_PREFIX": "/dlprof"}, True),
        ([], {"FORWARDED_ALLOW_IPS": "10.0.0.1"}, True),
        (["--no-auth"], {"DLPROF_TOKEN": "0123456789abcdef"}, False),
    ],
)
def test_only_a_viewer_for_its_own_machine_needs_no_token(
    words: list[str],
    variables: dict[str, str],
    is_required: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    options = dlprofviewer.parse_options([*words, "x.sqlite"])

    assert dlprofviewer._requires_token(options) is is_required
    assert ("warning: --no-auth: everybody" in capsys.readouterr().err) is options.no_auth


@pytest.mark.parametrize(
    "address", ["\u00b2", "1\u0662.0.0.1", "x" * 300, "a..b", "nowhere.invalid"]
)
def test_invalid_address_is_refused(address: str) -> None:
    with (
        pytest.raises(AddressError, match="cannot listen on"),
        dlprofviewer._listening(_options(address)),
    ):
        pass


@pytest.mark.parametrize("port", ["\u0662", "\u00b2", "65536", "-1", "9" * 5_000])
def test_invalid_port_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        dlprofviewer.parse_options(["--port", port, "x.sqlite"])
    assert "is no port" in capsys.readouterr().err


@pytest.mark.parametrize("token", [" ", "short", "two words, long enough", "\u00e4" * 20])
def test_a_token_that_is_easily_guessed_is_refused(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLPROF_TOKEN", token)
    with pytest.raises(TokenError):
        read_token()


def test_a_token_may_come_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    file.write_text("0123456789abcdef\n")
    monkeypatch.setenv("DLPROF_TOKEN_FILE", str(file))

    assert read_token() == "0123456789abcdef"
    file.unlink()
    with pytest.raises(TokenError, match="cannot be read"):
        read_token()


def test_a_log_that_grows_keeps_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewer_processes, "_MAX_LOG_BYTES", 10_000)
    log = tmp_path / "web.log"
    viewer_processes._limit_log(log)
    with log.open("ab") as writer:
        writer.write(b"first" + b"x" * 10_000 + b"last")
        writer.flush()
        viewer_processes._limit_log(log)
        writer.write(b" and more")

    assert log.read_bytes().startswith(b"x")
    assert log.read_bytes().endswith(b"last and more")
    assert log.stat().st_size < 5_000
