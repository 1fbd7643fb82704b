"""The page of the architecture and the source tree name the same packages, in the same order."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import grimp

from aggregator.answers.registry import ANSWERS

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs/contributing/architecture.md").read_text(encoding="utf-8")
LAYERED = re.compile(r"^\| `aggregator/([\w.]+)/?` \|", re.MULTILINE)
NAMED = re.compile(r"`((?:aggregator|viewer|profiler_cli)/\w+)/`")


def _packages() -> set[str]:
    """Folders with Python files, two levels deep."""
    listed = ["git", "ls-files", "aggregator/*/*.py", "viewer/*/*.py", "profiler_cli/*/*.py"]
    files = subprocess.run(listed, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return {"/".join(line.split("/")[:2]) for line in files.stdout.splitlines()}


def test_every_package_is_described_and_no_other() -> None:
    assert set(NAMED.findall(PAGE)) == _packages()


def test_the_engine_is_listed_in_the_order_of_the_import_contract() -> None:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one.get("containers") == ["aggregator"])
    assert [name.removesuffix(".py") for name in LAYERED.findall(PAGE)] == layers


def test_the_engine_has_few_names_at_its_top() -> None:
    listed = ["git", "ls-files", "aggregator"]
    files = subprocess.run(listed, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    names = {line.split("/")[1] for line in files.stdout.splitlines()}
    assert len(names - {"README.md", "py.typed"}) <= 24


TOPS = ("aggregator", "viewer", "profiler_cli", "dlprof_client", "dlprof_nvtx", "frontend")


def test_every_package_says_what_it_holds_and_where_to_start() -> None:
    for package in (*TOPS, *sorted(_packages())):
        readme = REPOSITORY / package / "README.md"
        assert readme.is_file(), f"{package} has no README.md"
        assert f"[{package}](../../{package}/README.md)" in PAGE
        text = readme.read_text(encoding="utf-8")
        title, _, *holds, _, imports, start = text.splitlines()
        assert (title, all(holds)) == (f"# {package}", True)
        assert imports.startswith("* May import: ")
        assert start.startswith("* Start at: ")
        named = re.findall(r"`([\w/.]+(?:/|\.\w+))`", start)
        assert [name for name in named if not (readme.parent / name).exists()] == []


ENTRY_POINTS = {"profiler_cli.commands", "viewer.api", "viewer.api.replies"}
"""Packages of modules that are run by one other: a command, a URL, a view."""
STANDING_ALONE = {
    "profiler_cli.options.urls": "reads the command's words before they are parsed",
    "viewer.profiles.admission": "decides what becomes a profile",
    "viewer.security.metrics": "a middleware, which the settings name as text",
    "viewer.state.prepare": "migrates the state before the server starts",
}


def test_no_module_serves_only_one_module_of_another_package() -> None:
    """One importer in another package: the module belongs there, unless it uses its own package."""
    graph = grimp.build_graph("aggregator", "viewer", "profiler_cli", cache_dir=None)
    found = set()
    for module in graph.modules:
        package = module.rpartition(".")[0]
        importers = graph.find_modules_that_directly_import(module)
        if len(importers) != 1 or package in {*ENTRY_POINTS, ""} or graph.find_children(module):
            continue
        partners = importers | graph.find_modules_directly_imported_by(module)
        if not any(one == package or one.startswith(f"{package}.") for one in partners):
            found.add(module)
    # The registry names the modules of answers as text.
    answers = {f"aggregator.{answer.function.rpartition('.')[0]}" for answer in ANSWERS.values()}
    assert found - answers == set(STANDING_ALONE)
