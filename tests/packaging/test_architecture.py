"""docs/architecture.md and the source tree name the same packages, in the same order."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs/architecture.md").read_text(encoding="utf-8")
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
    assert len({line.split("/")[1] for line in files.stdout.splitlines()}) <= 22
