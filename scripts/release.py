"""Build a release and check it as a user would install it: ``make release``.

Writes into ``dist/``: the sdist and the wheel, ``NOTES.md`` (this version's part of the
change log), ``sbom.cdx.json`` (what the wheel contains and installs, as CycloneDX), ``SHA256SUMS``
and, with a key, its signature. Ends with 1 and one
sentence if something is wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
DEMO = ROOT / "demo" / "resnet50_amp.sqlite.xz"
MOST_PACKAGES = 12
MACHINES = ("x86_64", "aarch64")
"""For each of which the wheel holds a library of the collector."""
INSTALLED = """
import importlib.metadata, json
found = [package.metadata for package in importlib.metadata.distributions()]
print(json.dumps([{key: one.get_all(key) for key in one} for one in found]))
"""
"""Prints the metadata of all packages of an environment; ``pip inspect`` lacks licenses."""
NOTES = "NOTES.md"
SBOM = "sbom.cdx.json"
SUMS = "SHA256SUMS"

Metadata = dict[str, list[str]]
"""Fields of a package, each with all its values."""


class ReleaseError(Exception):
    """Why there is no release, in one sentence."""


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Return the output of a command that has to succeed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(
            f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def project_version() -> str:
    """Return the version in pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    found = re.search(r'^version = "(.+)"$', text, re.MULTILINE)
    if found is None:
        raise ReleaseError("pyproject.toml names no version.")
    return found[1]


def release_notes(changes: str, version: str, *, is_draft: bool) -> str:
    """Return a version's part of the change log.

    Raises:
        ReleaseError: if it is missing, empty or, except for a draft, without a date.
    """
    found = re.search(rf"^## {re.escape(version)} - (.+)\n((?:(?!^## ).*\n?)*)", changes, re.M)
    if found is None or not found[2].strip():
        raise ReleaseError(f"CHANGELOG.md has no part for version {version}.")
    if not is_draft and not re.fullmatch(r"\d{4}-\d\d-\d\d", found[1].strip()):
        raise ReleaseError(
            f"CHANGELOG.md has no date for version {version}; write it, or use --draft."
        )
    return f"# open-dlprof {version}\n\n{found[2].strip()}\n"


def write_sums(folder: Path) -> Path:
    """Write ``SHA256SUMS`` of every file of a folder, as ``sha256sum --check`` reads it."""
    files = sorted(path for path in folder.iterdir() if not path.name.startswith(SUMS))
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    sums = folder / SUMS
    sums.write_text("".join(lines), "utf-8")
    return sums


def sign(sums: Path, key: str) -> Path:
    """Sign with an SSH key file (which makes ``.sig``) or a key of GnuPG (which makes ``.asc``)."""
    if Path(key).is_file():
        run("ssh-keygen", "-Y", "sign", "-f", key, "-n", "file", sums)
        return sums.with_name(f"{SUMS}.sig")
    signature = sums.with_name(f"{SUMS}.asc")
    run("gpg", "--batch", "--yes", "--armor", "-u", key, "-o", signature, "--detach-sign", sums)
    return signature


def installed_pythons() -> dict[str, str]:
    """Return the interpreters of this machine by version."""
    found = {}
    for version in PYTHONS:
        for candidate in _candidates(version):
            asked = [candidate, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
            done = subprocess.run(asked, capture_output=True, text=True, check=False)
            if done.stdout.strip() == version:
                found[version] = candidate
                break
    return found


def _candidates(version: str) -> list[str]:
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    names = (sys.executable, f"python{version}", *map(str, pyenv))
    return [path for name in names if (path := shutil.which(name))]


def check_installation(python: str, wheel: Path) -> tuple[list[str], list[Metadata]]:
    """Install the wheel alone in a new environment, analyze the bundled profile and show it.

    Returns:
        The packages that the wheel without extras installs, itself among them, and the metadata of
        those that it installs with the viewer.

    Raises:
        ReleaseError: if a command fails or its result is not there.
    """
    with tempfile.TemporaryDirectory(prefix="dlprof-release-") as name:
        folder = Path(name)
        run(python, "-m", "venv", folder / "environment")
        binaries = folder / "environment" / "bin"
        install: list[str | Path] = [
            binaries / "python",
            "-m",
            "pip",
            "install",
            "-q",
            "-c",
            ROOT / "constraints.txt",
        ]
        run(*install, wheel, cwd=folder)
        listed = run(binaries / "python", "-m", "pip", "freeze", "--all", cwd=folder).splitlines()
        packages = [line for line in listed if not line.startswith(("pip=", "setuptools="))]
        profile = folder / "profile.sqlite"
        with lzma.open(DEMO) as packed, profile.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked)
        run(binaries / "dlprof", f"--database={profile}", "--reports=summary", cwd=folder)
        made = {path.name for path in folder.iterdir()}
        if not {"dlprof_dldb.sqlite", "dlprof_summary.csv"} <= made:
            raise ReleaseError(f"dlprof wrote {sorted(made)} and no database or report.")
        run(*install, f"{wheel}[viewer]", cwd=folder)
        check_viewer(binaries / "dlprofviewer", folder)
        installed = json.loads(run(binaries / "python", "-c", INSTALLED, cwd=folder))
    return packages, installed


def bill_of_materials(wheel: Path, installed: list[Metadata]) -> dict[str, Any]:
    """List the packages in the wheel's page and those it installs with the viewer, as CycloneDX."""
    with zipfile.ZipFile(wheel) as archive:
        (own,) = (name for name in archive.namelist() if ".dist-info/sboms/" in name)
        components = json.loads(archive.read(own))["components"]
    main = {}
    for package in sorted(installed, key=lambda package: package["Name"][0].lower()):
        name, version = package["Name"][0], package["Version"][0]
        component = {
            "type": "library",
            "name": name,
            "version": version,
            "licenses": _licenses(package),
            "purl": f"pkg:pypi/{name.lower().replace('_', '-')}@{version}",
        }
        if name == "open-dlprof":
            main = component
        elif name not in {"pip", "setuptools"}:
            components.append(component)
    document = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1}
    return document | {"metadata": {"component": main}, "components": components}


def _licenses(package: Metadata) -> list[dict[str, Any]]:
    """Name the license by its expression, else as the older fields of the metadata do."""
    if expression := package.get("License-Expression"):
        return [{"expression": expression[0]}]
    prefix = "License :: "
    classifiers = [text for text in package.get("Classifier", []) if text.startswith(prefix)]
    named = [text.rpartition(" :: ")[2] for text in classifiers]
    first_lines = [text.partition("\n")[0] for text in package.get("License", [])]
    return [{"license": {"name": name}} for name in named or first_lines]


def check_viewer(command: Path, folder: Path) -> None:
    """Start the viewer of the database on a free port, and ask for its page and its profiles.

    Raises:
        ReleaseError: if it does not start, or one of the answers is wrong.
    """
    words = [str(command), "--port=0", "dlprof_dldb.sqlite"]
    environment = os.environ | {"DLPROF_STATE_DIR": str(folder / "state")}
    with (folder / "viewer.log").open("w+") as log:
        viewer = subprocess.Popen(
            words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            assert viewer.stdout is not None
            first = viewer.stdout.readline().split()
            if not first:
                log.seek(0)
                raise ReleaseError(f"dlprofviewer did not start:\n{log.read()}")
            page, profiles = (
                urllib.request.urlopen(f"{first[-1]}{path}", timeout=60).read()
                for path in ("/", "/api/v1/profiles/")
            )
        except OSError as error:
            raise ReleaseError(f"dlprofviewer did not answer: {error}") from error
        finally:
            viewer.terminate()
            viewer.wait()
    if b"<script" not in page or json.loads(profiles)["count"] != 1:
        raise ReleaseError("dlprofviewer does not show the database.")


def build() -> Path:
    """Build sdist and wheel into an empty ``dist/``; returns the wheel."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--no-isolation")
    (wheel,) = DIST.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        libraries = [name for name in archive.namelist() if name.endswith(".so")]
    if len(libraries) != len(MACHINES):
        raise ReleaseError(f"The wheel holds {len(libraries)} libraries of the collector.")
    return wheel


def make(*, key: str | None, is_draft: bool) -> None:
    """Make everything that belongs to a release.

    Raises:
        ReleaseError: with the first thing that is wrong.
    """
    version = project_version()
    notes = release_notes((ROOT / "CHANGELOG.md").read_text("utf-8"), version, is_draft=is_draft)
    if not is_draft and run("git", "status", "--porcelain").strip():
        raise ReleaseError("The working tree has changes that are not committed.")
    wheel = build()
    pythons = installed_pythons()
    installed: list[Metadata] = []
    for number, python in pythons.items():
        packages, installed = check_installation(python, wheel)
        if len(packages) > MOST_PACKAGES:
            raise ReleaseError(f"{len(packages)} packages without extras: {', '.join(packages)}")
        sys.stdout.write(
            f"Python {number}: {len(packages)} packages without extras; analyzed and showed the "
            "bundled profile\n"
        )
    missing = [number for number in PYTHONS if number not in pythons]
    if missing:
        sys.stdout.write(
            f"Not checked, for it is not on this machine: Python {', '.join(missing)}\n"
        )
    if untranslated := run(sys.executable, "scripts/update_texts.py", "--list"):
        sys.stdout.write(f"Shown in English, for they are not translated:\n{untranslated}")
    (DIST / NOTES).write_text(notes, "utf-8")
    (DIST / SBOM).write_text(json.dumps(bill_of_materials(wheel, installed), indent=1), "utf-8")
    sums = write_sums(DIST)
    signed = sign(sums, key).name if key else "no signature, for no --key was given"
    sys.stdout.write(f"{sums.read_text('utf-8')}{signed}\n")


def main() -> None:
    """Read the options and make the release."""
    parser = argparse.ArgumentParser(description="Build a release and check it.")
    parser.add_argument(
        "--key", help="an SSH private key, or the name of a GnuPG key, to sign with"
    )
    parser.add_argument("--draft", action="store_true", help="a version without a date, any tree")
    options = parser.parse_args()
    try:
        make(key=options.key, is_draft=options.draft)
    except ReleaseError as error:
        sys.exit(f"release: {error}")


if __name__ == "__main__":
    main()
