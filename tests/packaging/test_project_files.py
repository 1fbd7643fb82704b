"""The project's own description of itself agrees with itself."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from hatch_metadata import AddressesHook

REPOSITORY = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
REQUIREMENTS = [
    line
    for lines in (PROJECT["dependencies"], *EXTRAS.values())
    for line in lines
    if not line.startswith(PROJECT["name"])
]


def pinned_versions() -> dict[str, Version]:
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if "==" in line]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


@pytest.mark.parametrize("line", sorted(set(REQUIREMENTS)))
def test_every_dependency_is_pinned_to_a_version_that_its_range_allows(line: str) -> None:
    requirement = Requirement(line)
    assert pinned_versions()[canonicalize_name(requirement.name)] in requirement.specifier


@pytest.mark.parametrize("target", sorted(PROJECT["scripts"].values()))
def test_every_command_names_a_function_that_exists(target: str) -> None:
    module, _, function = target.partition(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_the_classifiers_name_the_versions_that_a_release_is_checked_with() -> None:
    text = (REPOSITORY / "scripts/release.py").read_text("utf-8")
    checked = re.search(r"^PYTHONS = \((.*)\)$", text, re.MULTILINE)
    assert checked is not None
    prefix = "Programming Language :: Python :: "
    named = [one.removeprefix(prefix) for one in PROJECT["classifiers"] if one.startswith(prefix)]
    assert named[1:] == re.findall(r'"([\d.]+)"', checked[1])


def test_a_built_description_has_no_link_into_the_repository(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GITHUB_REPOSITORY", "owner/name")
    metadata: dict[str, Any] = {"version": "1.2.3"}
    AddressesHook(str(REPOSITORY), {}).update(metadata)

    text = metadata["readme"]["text"]
    targets = re.findall(r"\]\(([^)\s]+)|src=\"([^\"]+)\"", text)
    assert targets
    for target in filter(None, (found for pair in targets for found in pair)):
        assert re.match("https://|#", target), target
        place = re.fullmatch(r"https://github.com/owner/name/(raw|blob)/v1.2.3/([^#]+).*", target)
        if place is not None:
            assert (REPOSITORY / place[2]).exists(), target
            assert (place[1] == "raw") == (Path(place[2]).suffix in {".png", ".svg"})
    assert set(metadata["urls"]) == {"Homepage", "Documentation", "Changelog", "Issues"}


def test_without_an_address_the_description_is_the_readme(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DLPROF_REPOSITORY", "GITHUB_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    metadata: dict[str, Any] = {"version": "1.2.3"}
    AddressesHook(str(REPOSITORY), {}).update(metadata)

    assert metadata["readme"]["text"] == (REPOSITORY / "README.md").read_text("utf-8")
    assert "urls" not in metadata


def test_the_change_log_has_an_entry_for_this_version() -> None:
    text = (REPOSITORY / "CHANGELOG.md").read_text()
    assert re.search(rf"^## \[?{re.escape(PROJECT['version'])}\b", text, re.MULTILINE)


def test_the_base_installs_few_packages() -> None:
    """Those that pip installs beside a training: this one and what it needs without an extra."""
    installed, waiting = set(), [Requirement(line) for line in PROJECT["dependencies"]]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and name not in installed:
            installed.add(name)
            needed = importlib.metadata.requires(name) or []
            waiting += [Requirement(line) for line in needed]
    assert "numpy" in installed
    assert len(installed) + 1 <= 12, sorted(installed)


def test_the_command_starts_with_few_modules() -> None:
    """Loading modules is what its start takes; seconds depend on the machine."""
    program = (
        "import sys; from profiler_cli.dlprof import main; main(['--help']);"
        " print(*(getattr(one, '__file__', None) or '' for one in sys.modules.values()),"
        " sep='\\n', file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = done.stderr.split("\n")
    assert len(loaded) <= 230
    ours = {"aggregator", "profiler_cli", "_distutils_hack"}
    others = [file for file in loaded if "site-packages" in file and not ours & {*Path(file).parts}]
    assert others == []


@pytest.mark.parametrize("page", ["THREAT_MODEL.md", "SECURITY.md"])
def test_what_the_pages_on_security_name_is_there(page: str) -> None:
    text = (REPOSITORY / page).read_text("utf-8")
    # Tests are named by file below tests/.
    tests = set(re.findall(r"`(\w+/(?:\w+\.py)?)`", text)) - {"tests/"}
    assert [name for name in tests if not (REPOSITORY / "tests" / name).exists()] == []
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert [name for name in links if not (REPOSITORY / name).exists()] == []
    sources = "\n".join(
        path.read_text("utf-8")
        for package in ("aggregator", "viewer", "profiler_cli")
        for path in (REPOSITORY / package).rglob("*.py")
    )
    named = re.findall(r"`(--[a-z][\w-]+|DLPROF_\w+)", text)
    assert named
    assert [name for name in named if f'"{name}"' not in sources] == []


def test_every_threat_names_a_test() -> None:
    text = (REPOSITORY / "THREAT_MODEL.md").read_text("utf-8")
    table = text.partition("## Threats\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    assert len(rows) > 30
    assert [threat for threat, _, shown in rows[1:] if not re.search(r"`\w+/", shown)] == []
