"""Each extra brings what its modules import: nothing that only ``dev`` installs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.containers import REPOSITORY

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
#: The modules that need an extra; all others of the commands and the engine need none.
MODULES = {
    "viewer": ("viewer", "aggregator.jobs"),
    "mcp": ("profiler_cli.assistants",),
    "notebook": ("dlprof_client", "aggregator.tables.plotly"),
}
#: Imported late, by the name of a library.
LATE = {
    "viewer": ("kombu.transport.redis", "celery.backends.redis"),
    "url": ("fsspec.implementations.http",),
    "dask": ("distributed",),
}
IMPORT_ALL = """
import importlib, json, sys
if "viewer" in sys.argv[1:]:
    import django
    django.setup()
failed = {}
for module in sys.argv[1:]:
    try:
        importlib.import_module(module)
    except ImportError as error:
        failed[module] = str(error)
print(json.dumps(failed))
"""


def brought(extra: str) -> set[str]:
    """Distributions that ``pip install open-dlprof[extra]`` installs here, by their names."""
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"].get(extra, [])]
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    while wanted:
        requirement = Requirement(wanted.pop())
        name = canonicalize_name(requirement.name)
        for part in ("", *requirement.extras):
            if (name, part) in seen:
                continue
            seen.add((name, part))
            try:
                needs = distribution(name).requires or []
            except PackageNotFoundError:
                continue  # for another system or Python
            found.add(name)
            wanted += [
                need
                for need in needs
                if (marker := Requirement(need).marker) is None or marker.evaluate({"extra": part})
            ]
    return found


def link_packages(extra: str, folder: Path) -> None:
    """Make a folder of modules that has what the extra brings, and nothing else."""
    folder.mkdir()
    for name in brought(extra):
        found = distribution(name)
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            link = folder / top
            if not link.exists():
                link.symlink_to(str(found.locate_file(top)))


def our_modules() -> list[str]:
    files = (
        path.relative_to(REPOSITORY).with_suffix("")
        for package in ("aggregator", "viewer", "profiler_cli", "dlprof_client")
        for path in (REPOSITORY / package).rglob("*.py")
    )
    names = (".".join(path.parts).removesuffix(".__init__") for path in files)
    return sorted(name for name in names if not re.search(r"\.migrations\b|\.wsgi$|__main__", name))


def extra_of(module: str) -> str:
    return next(
        (
            extra
            for extra, packages in MODULES.items()
            if any(f"{module}.".startswith(f"{package}.") for package in packages)
        ),
        "",
    )


def test_ci_checks_every_extra_with_the_built_wheel() -> None:
    workflow = yaml.safe_load((REPOSITORY / ".github/workflows/ci.yml").read_text("utf-8"))
    job = workflow["jobs"]["extras"]
    extras = {"base", *PROJECT["optional-dependencies"]} - {"dev"}
    assert set(job["strategy"]["matrix"]["extra"]) == extras
    assert "scripts/check_extras.py dist/*.whl ${{ matrix.extra }}" in job["steps"][-1]["run"]


@pytest.mark.parametrize("extra", ["", "viewer", "mcp", "notebook", "url", "dask"])
def test_its_modules_import_nothing_that_it_does_not_bring(extra: str, tmp_path: Path) -> None:
    modules = [name for name in our_modules() if extra_of(name) == extra]
    modules += LATE.get(extra, ())
    assert modules
    link_packages(extra, tmp_path / "packages")
    done = subprocess.run(
        # -S: without the packages of this environment.
        [sys.executable, "-S", "-c", IMPORT_ALL, *modules],
        cwd=tmp_path,
        env={
            "PYTHONPATH": f"{REPOSITORY}:{tmp_path / 'packages'}",
            "DJANGO_SETTINGS_MODULE": "viewer.settings",
            "DLPROF_STATE_DIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {}
