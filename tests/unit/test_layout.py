"""The modules of the product are laid out, and import each other, by rule."""

from __future__ import annotations

import importlib.util
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("aggregator", "viewer", "profiler_cli", "dlprof_client")
MOST_NAMES = 23
FEW_LINES = 60
"""A module below this with a single importer elsewhere belongs to that importer."""
ALLOWED = {
    "aggregator.texts.recognition",  # reads the templates of the message catalog
    "viewer.state.prepare",  # the database of jobs, prepared by the server's start
}


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, exclude_type_checking_imports=False, cache_dir=None)


def test_no_module_imports_itself_through_others(graph: grimp.ImportGraph) -> None:
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


@pytest.mark.parametrize("package", PACKAGES)
def test_no_package_imports_itself_through_others(graph: grimp.ImportGraph, package: str) -> None:
    imports = {}
    for child in graph.find_children(package):
        inside = {child, *graph.find_descendants(child)}
        targets = {f"{t}." for m in inside for t in graph.find_modules_directly_imported_by(m)}
        others = graph.find_children(package) - {child}
        imports[child] = {
            other for other in others if any(target.startswith(f"{other}.") for target in targets)
        }
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_the_engine_has_few_names_at_its_top() -> None:
    names = {path.name for path in (ROOT / "aggregator").iterdir() if path.suffix in ("", ".py")}
    names -= {"__init__.py", "__pycache__"}
    assert len(names) <= MOST_NAMES, sorted(names)


def test_no_other_small_module_has_a_single_importer_elsewhere(graph: grimp.ImportGraph) -> None:
    found = []
    for module in sorted(graph.modules):
        importers = graph.find_modules_that_directly_import(module)
        if len(importers) != 1 or graph.find_children(module):
            continue
        importer = next(iter(importers))
        package = module.rpartition(".")[0]
        is_elsewhere = not f"{importer}.".startswith(f"{package}.")
        if is_elsewhere and module not in ALLOWED and _lines(module) < FEW_LINES:
            found.append(f"{module}, imported by {importer} only")
    assert found == []


def _lines(module: str) -> int:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return len(Path(spec.origin).read_text(encoding="utf-8").splitlines())
