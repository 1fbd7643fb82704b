"""``dlprof --list_key_nodes``: the candidates for the key node, and nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_cli.dlprof import main
from tests.builders import Trace, analyze

MS = 1_000_000


@pytest.fixture
def database(tmp_path: Path) -> Path:
    trace = Trace()
    trace.gpu()
    main_thread = trace.thread()
    for step in range(6):
        at = step * 10 * MS
        main_thread.range(f"step {step}", at, at + 9 * MS)
        main_thread.op("conv2d", at + MS, at + 2 * MS)
        main_thread.launch("conv", at + MS + 10, gpu=(at + MS + 20, at + 5 * MS))
    return analyze(trace, tmp_path).path


@pytest.mark.parametrize("name", ["profile.sqlite", "dlprof_dldb.sqlite"])
def test_candidates_are_listed(
    name: str,
    database: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(database.parent)
    before = sorted(path.name for path in database.parent.iterdir())
    source = database.with_name(name) if name == "profile.sqlite" else database
    assert main([f"--database={source}", "--list-key-nodes", "-v=quiet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        *("score", "kind", "instances", "iterations", "median", "even", "alike", "name")
    ]
    assert lines[1].split()[0] == "*"
    assert "counted range" in lines[1]
    assert "10.00 ms" in lines[1]
    assert lines[1].endswith("step #")
    assert lines[-1].startswith("Key node: ")
    assert "confidence high" in lines[-1]
    assert sorted(path.name for path in database.parent.iterdir()) == before


def test_listing_needs_a_profile(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list-key-nodes", "python", "train.py"]) == 2
    assert "--database" in capsys.readouterr().err
