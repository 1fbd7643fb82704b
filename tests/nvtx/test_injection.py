"""What an application gets from dlprof, and what the boundary asks of the package nvtx."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aggregator.options import Mode
from dlprof_nvtx import domains
from profiler_cli.injection import application_environment

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mode", list(Mode))
def test_torch_is_marked_in_its_own_modes_and_the_plugins_are_found_in_all(
    mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DLPROF_NVTX", raising=False)
    options: Any = SimpleNamespace(mode=mode)
    environment = application_environment(options)
    marks_torch = mode in {Mode.AUTO, Mode.PYTORCH}
    assert environment["DLPROF_NVTX"] == ("1" if marks_torch else "plugins")
    code = "import sys, nvtx.plugins; print(nvtx.plugins.__file__); import nvtx; nvtx.annotate"
    pytest.importorskip("nvtx", reason="the package nvtx is not installed")
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip().endswith("nvtx_plugins/__init__.py"), done.stderr
    monkeypatch.setenv("DLPROF_NVTX", "0")
    assert "nvtx" not in application_environment(options).get("PYTHONPATH", "")


def test_installed_plugins_are_left_alone(tmp_path: Path) -> None:
    plugins = tmp_path / "nvtx" / "plugins"
    plugins.mkdir(parents=True)
    (tmp_path / "nvtx" / "__init__.py").write_text("")
    (plugins / "__init__.py").write_text("print('installed')")
    inject = REPOSITORY / "dlprof_nvtx" / "inject"
    done = subprocess.run(
        [sys.executable, "-c", "import nvtx.plugins"],
        env={"PYTHONPATH": f"{inject}:{tmp_path}", "DLPROF_NVTX": "1"},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "installed\n", done.stderr


def test_no_domain_is_the_default_one_and_ranges_end_in_their_domain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An empty name would make a nameless domain of its own."""
    told: list[tuple[str | None, str, object]] = []

    def domain(name: str | None) -> SimpleNamespace:
        return SimpleNamespace(
            get_event_attributes=lambda message: message,
            push_range=lambda text: told.append((name, "push", text)),
            pop_range=lambda: told.append((name, "pop", None)),
            start_range=lambda text: [told.append((name, "start", text)), 7][1],  # type: ignore[func-returns-value]
            end_range=lambda number: told.append((name, "end", number)),
        )

    monkeypatch.setitem(sys.modules, "nvtx", SimpleNamespace(get_domain=domain))
    nvtx = domains.PackageNvtx()
    nvtx.push("a", "")
    nvtx.pop("")
    nvtx.end(nvtx.start("b", "Forward"))
    assert told == [
        (None, "push", "a"),
        (None, "pop", None),
        ("Forward", "start", "b"),
        ("Forward", "end", 7),
    ]


def test_a_missing_package_is_told_once_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)
    domains.use(None)
    for _ in range(2):
        domains.boundary().push("a", "")
        domains.boundary().pop("")
    domains.use(None)
    assert capsys.readouterr().err.count("pip install nvtx") == 1
