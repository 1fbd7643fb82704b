"""What an application gets from dlprof, and what the boundary asks of the package nvtx."""

from __future__ import annotations

import ast
import subprocess
import sys
import venv
from pathlib import Path
from types import SimpleNamespace

import pytest

from aggregator.options import Mode
from dlprof_nvtx import domains
from profiler_cli.capture.processes import application_environment
from profiler_cli.options.declared import Options

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mode", list(Mode))
def test_torch_is_marked_in_its_own_modes_and_the_plugins_are_found_in_all(
    mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvtx").mkdir()
    (tmp_path / "nvtx" / "__init__.py").write_text("annotate = None\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("DLPROF_NVTX", raising=False)
    options = Options(mode=mode)
    environment = application_environment(options)
    marks_torch = mode in {Mode.AUTO, Mode.PYTORCH}
    assert environment["DLPROF_NVTX"] == ("1" if marks_torch else "plugins")
    code = "import sys, nvtx.plugins; print(nvtx.plugins.__file__); import nvtx; nvtx.annotate"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip().endswith("nvtx_plugins/__init__.py"), done.stderr
    assert done.returncode == 0, done.stderr
    monkeypatch.setenv("DLPROF_NVTX", "0")
    assert application_environment(options)["PYTHONPATH"] == str(tmp_path)


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
    calls: list[tuple[str | None, str, object]] = []

    def domain(name: str | None) -> SimpleNamespace:
        return SimpleNamespace(
            get_event_attributes=lambda message: message,
            push_range=lambda text: calls.append((name, "push", text)),
            pop_range=lambda: calls.append((name, "pop", None)),
            start_range=lambda text: [calls.append((name, "start", text)), 7][1],  # type: ignore[func-returns-value]
            end_range=lambda number: calls.append((name, "end", number)),
        )

    monkeypatch.setitem(sys.modules, "nvtx", SimpleNamespace(get_domain=domain))
    nvtx = domains.PackageNvtx()
    nvtx.push("a", "")
    nvtx.pop("")
    nvtx.end(nvtx.start("b", "Forward"))
    assert calls == [
        (None, "push", "a"),
        (None, "pop", None),
        ("Forward", "start", "b"),
        ("Forward", "end", 7),
    ]


def test_a_missing_package_is_reported_once_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)
    domains.use(None)
    for _ in range(2):
        domains.boundary().push("a", "")
        domains.boundary().pop("")
    domains.use(None)
    assert capsys.readouterr().err.count("pip install nvtx") == 1


MARKERS = REPOSITORY / "dlprof_nvtx"
OLDEST_PYTHON = (3, 8)
"""Of PyTorch 2.0."""


def test_the_markers_need_nothing_but_the_python_of_the_training() -> None:
    imported: set[str | None] = set()
    for path in MARKERS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(), feature_version=OLDEST_PYTHON)):
            if isinstance(node, ast.Import):
                imported.update(name.name for name in node.names)
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module)
    frameworks = {"torch", "tensorflow", "jax", "nvtx", "dlprof_nvtx"}
    found = {(name or "").partition(".")[0] for name in imported}
    assert found - sys.stdlib_module_names == frameworks


def test_a_training_without_dlprof_gets_the_markers_and_nothing_else_of_dlprofs_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN the environment of a training that has a torch of its own and no dlprof
    venv.create(tmp_path / "training")
    site = next((tmp_path / "training/lib").glob("python*/site-packages"))
    (site / "torch.py").write_text("__version__ = '1.9'\n")
    before = sorted(site.rglob("*"))
    monkeypatch.delenv("DLPROF_NVTX", raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    options = Options(mode=Mode.AUTO)
    code = (
        "import importlib.util, torch, dlprof_nvtx; print(dlprof_nvtx.__file__)\n"
        "names = ('aggregator', 'profiler_cli', 'numpy', 'pyarrow', 'rich')\n"
        "print([name for name in names if importlib.util.find_spec(name)])"
    )
    # WHEN its python runs under dlprof
    done = subprocess.run(
        [tmp_path / "training/bin/python", "-B", "-c", code],
        env=application_environment(options),
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    # THEN the markers are those of dlprof, nothing else is visible and nothing was written
    assert done.stdout.splitlines() == [str(MARKERS / "__init__.py"), "[]"]
    assert done.stderr == "dlprof_nvtx: no markers are written: PyTorch 1.9 is older than 2.0\n"
    assert sorted(site.rglob("*")) == before


@pytest.mark.parametrize("version", ["1.9", "unknown"])
@pytest.mark.parametrize("stderr", [">/dev/full", ">&-"])
def test_message_that_cannot_be_written_ends_no_program(
    tmp_path: Path, version: str, stderr: str
) -> None:
    (tmp_path / "torch.py").write_text(f"__version__ = '{version}'\n")
    inject = REPOSITORY / "dlprof_nvtx" / "inject"
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -c "import torch; print(1)" 2{stderr}', sys.executable],
        env={"PYTHONPATH": f"{inject}:{tmp_path}", "DLPROF_NVTX": "1"},
        cwd="/",
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("1\n", 0)


def test_markers_print_in_one_place_that_cannot_fail() -> None:
    package = REPOSITORY / "dlprof_nvtx"
    users = {path.name for path in package.rglob("*.py") if "print(" in path.read_text()}
    assert users == {"guard.py"}
