"""A user gets the wheel's content and both commands in an environment without Node.js."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import urllib.error
import urllib.request
import venv
import zipfile
from collections.abc import Callable
from email.parser import Parser
from pathlib import Path, PurePosixPath

import pytest

from tests.jobs.running import RunningViewer

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = {"aggregator", "viewer", "profiler_cli", "dlprof_client", "dlprof_nvtx"}
PAGE = "viewer/static/dlprof/"
MANIFEST = f"{PAGE}.vite/manifest.json"
REPORT_PAGE = "aggregator/html_report/page.html"
SOURCE_SUFFIXES = {".ts", ".tsx", ".jsx", ".map"}
SECRET_SUFFIXES = {".env", ".pem", ".key", ".sqlite", ".sqlite3", ".log", ".pyc"}
FORBIDDEN_PARTS = {
    "tests",
    "frontend",
    "node_modules",
    "demo",
    ".git",
    ".plan",
    ".npmrc",
    "__pycache__",
}
#: `make test` and `make frontend` have built the page of the checkout from the same files with the
#: same two commands: here they are noted, and the second one brings that page.
NPM = f"""#!/bin/sh
set -e
echo "$PWD: $*" >> ../programs/noted
if [ "$1" = run ]; then
  mkdir -p ../viewer/static
  cp -r "{REPOSITORY}/{PAGE}" ../viewer/static/
  cp "{REPOSITORY}/{REPORT_PAGE}" ../{REPORT_PAGE}
fi
"""
ELF_MACHINES = {"x86_64": 62, "aarch64": 183}
START_LIMIT_S = 180


def run(*command: str | Path, cwd: Path, path: str | None = None) -> str:
    """Output of a command that has to succeed; its whole output is in the failure."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if path is not None:
        environment["PATH"] = path
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def checkout_files() -> list[str]:
    """What git holds or would hold, so that a build here is like one in a fresh clone."""
    listed = run("git", "ls-files", "-co", "--exclude-standard", "-z", cwd=REPOSITORY)
    return [name for name in listed.split("\0") if name and (REPOSITORY / name).is_file()]


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that the first of the parallel test processes fills; the others wait for it."""
    base = factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / name
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            (folder / "made").touch()
    return folder


def build_from_a_copy(folder: Path) -> None:
    """Build sdist and wheel without touching the checkout, whose page other tests use."""
    for name in checkout_files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / name, folder / name)
    npm = folder / "programs" / "npm"
    npm.parent.mkdir()
    npm.write_text(NPM)
    npm.chmod(0o755)
    # The build tool is a development dependency already: no second environment for it.
    path = f"{npm.parent}{os.pathsep}{os.environ['PATH']}"
    build = (sys.executable, "-m", "build", "--no-isolation", "--skip-dependency-check")
    run(*build, cwd=folder, path=path)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the sdist and of the wheel made from it."""
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a git checkout")
    if not (REPOSITORY / MANIFEST).is_file():
        pytest.skip("the page is not built: make frontend")
    return made_once(tmp_path_factory, "checkout", build_from_a_copy) / "dist"


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (path,) = dist.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_page_is_built_once_with_the_locked_packages(dist: Path) -> None:
    noted = (dist.parent / "programs" / "noted").read_text().splitlines()
    folder = dist.parent / "frontend"
    assert noted == [f"{folder}: ci --no-audit --no-fund", f"{folder}: run build"]


def test_the_wheel_holds_our_packages_and_nothing_else(names: set[str]) -> None:
    tops = {PurePosixPath(name).parts[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} <= PACKAGES


def test_every_file_of_the_packages_is_in_the_wheel(names: set[str]) -> None:
    ours = {name for name in checkout_files() if name.split("/")[0] in PACKAGES}
    assert ours - names == set()


def test_the_wheel_holds_the_built_page(wheel: Path, names: set[str]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        manifest = json.loads(archive.read(MANIFEST))
    built = {f"{PAGE}{entry['file']}" for entry in manifest.values()}
    built |= {f"{PAGE}{sheet}" for entry in manifest.values() for sheet in entry.get("css", [])}
    assert built
    assert built <= names


def test_the_wheel_holds_the_page_of_the_html_report(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        page = archive.read(REPORT_PAGE).decode()
    assert page.count("<!--dlprof:data-->") == 1
    assert page.count("<!--dlprof:title-->") == 1


@pytest.fixture(scope="module")
def libraries(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The collector's libraries in the wheel, by machine."""
    pytest.importorskip("ziglang", reason="the compiler for old versions of glibc is missing")
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    found = (folder / "dlprof_nvtx" / "native").glob("*.so")
    return {path.name.split(".")[1]: path for path in found}


def test_the_wheel_holds_the_collector_for_both_machines(
    wheel: Path, libraries: dict[str, Path]
) -> None:
    # One wheel for all: pip need not choose, for nothing of it is loaded into dlprof's own Python.
    assert wheel.name.endswith("-py3-none-any.whl")
    assert set(libraries) == {"x86_64", "aarch64"}
    for machine, path in libraries.items():
        # The machine in the header of an ELF file.
        assert int.from_bytes(path.read_bytes()[18:20], "little") == ELF_MACHINES[machine]


@pytest.mark.skipif(shutil.which("readelf") is None, reason="binutils are not installed")
def test_the_collector_needs_an_old_glibc_only(libraries: dict[str, Path]) -> None:
    for path in libraries.values():
        symbols = run("readelf", "--dyn-syms", "--wide", path, cwd=path.parent)
        versions = {
            tuple(map(int, one.split("."))) for one in re.findall(r"GLIBC_([\d.]+)", symbols)
        }
        assert versions
        assert max(versions) <= (2, 17)
        exported = re.findall(r"GLOBAL +DEFAULT +\d+ (\w+)", symbols)
        assert set(exported) == {
            "InitializeInjection",
            "InitializeInjectionNvtx2",
            "dlprof_collector_begin",
            "dlprof_collector_detach",
        }


def test_the_collector_of_the_wheel_is_loaded_without_a_compiler(
    libraries: dict[str, Path], tmp_path: Path
) -> None:
    own = libraries.get(platform.machine())
    if own is None:
        pytest.skip("the wheel has no library for this machine")
    script = (
        "import ctypes; from profiler_cli.capture.native import build_library;"
        " found = build_library(); ctypes.CDLL(str(found)).dlprof_collector_begin; print(found)"
    )
    environment = {"PATH": "", "PYTHONPATH": str(own.parents[2]), "DLPROF_CACHE_DIR": str(tmp_path)}
    words = [sys.executable, "-P", "-c", script]
    done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, check=False)
    assert (done.stderr, done.stdout.decode().strip()) == (b"", str(own))
    assert not list(tmp_path.iterdir())


def test_the_page_and_the_html_report_have_the_notices_of_what_is_bundled(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        texts = [archive.read(name).decode() for name in (f"{PAGE}NOTICES.txt", REPORT_PAGE)]
    package = json.loads((REPOSITORY / "frontend/package.json").read_text("utf-8"))
    for name, version in package["dependencies"].items():
        folder = REPOSITORY / "frontend/node_modules" / name
        (license_file,) = folder.glob("LICENSE*")
        for text in texts:
            assert f"{name} {version} (" in text
            assert license_file.read_text("utf-8").strip() in text


def test_the_metadata_lists_the_packages_in_the_page(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        notices = archive.read(f"{PAGE}NOTICES.txt").decode()
        (path,) = (name for name in archive.namelist() if ".dist-info/sboms/" in name)
        listed = json.loads(archive.read(path))
    assert listed["bomFormat"] == "CycloneDX"
    written = re.findall(r"^=+\n\n(\S+) (\S+) \((.+)\)$", notices, re.MULTILINE)
    assert [
        (one["name"], one["version"], one["licenses"][0]["expression"])
        for one in listed["components"]
    ] == written


def test_the_wheel_holds_no_source_of_the_page_no_tests_and_no_secrets(names: set[str]) -> None:
    unwanted = [
        name
        for name in names
        if FORBIDDEN_PARTS & set(PurePosixPath(name).parts)
        or PurePosixPath(name).suffix in SOURCE_SUFFIXES | SECRET_SUFFIXES
        or PurePosixPath(name).name == ".env"
    ]
    assert unwanted == []


def test_the_sdist_can_be_built_again_but_carries_no_dependencies(dist: Path) -> None:
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        held = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {
        "pyproject.toml",
        "hatch_build.py",
        "hatch_metadata.py",
        "LICENSE",
        "frontend/package.json",
        "docs/openapi.json",
        MANIFEST,
        REPORT_PAGE,
    } <= held
    assert not any("node_modules" in name for name in held)


def test_the_metadata_names_the_license_and_both_commands(wheel: Path, names: set[str]) -> None:
    (info,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
    with zipfile.ZipFile(wheel) as archive:
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        entry_points = archive.read(f"{info}/entry_points.txt").decode()
    assert metadata["Name"] == "open-dlprof"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert f"{info}/licenses/LICENSE" in names
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert "dlprof = profiler_cli.dlprof:main" in entry_points
    assert "dlprofviewer = profiler_cli.dlprofviewer:main" in entry_points


# --- installed ---


PIP = (sys.executable, "-m", "pip", "--python")
# Modules are compiled when they are first used: most of them are not.
INSTALL = ("install", "-q", "--no-compile")


@pytest.fixture
def alone(wheel: Path, tmp_path: Path) -> Path:
    """Folder of the commands of a new environment, which borrows what the wheel needs from ours."""
    environment = tmp_path / "venv"
    venv.create(environment)
    run(*PIP, environment, *INSTALL, "--no-deps", "--no-index", wheel, cwd=tmp_path)
    (packages,) = environment.glob("lib/python*/site-packages")
    # Our own package is installed there as the path of the checkout, which is not followed.
    (packages / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    found = run(environment / "bin/python", "-c", "import viewer; print(viewer)", cwd=tmp_path)
    assert str(packages) in found
    return environment / "bin"


def bare_path(commands: Path, folder: Path) -> str:
    """A PATH with the environment and a shell's basics, without Node.js."""
    basics = folder / "basics"
    basics.mkdir()
    for program in ("sh", "env", "uname"):
        if found := shutil.which(program):
            (basics / program).symlink_to(found)
    path = f"{commands}{os.pathsep}{basics}"
    assert shutil.which("node", path=path) is None
    return path


def test_a_profile_becomes_a_page_without_node_beside_folders_named_like_our_packages(
    alone: Path, demo_profile: Path, tmp_path: Path
) -> None:
    # GIVEN a training repository with such folders, PYTHONPATH=., and no Node.js
    project = tmp_path / "project"
    for name in ("aggregator", "viewer"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text("raise SystemExit('not this one')\n")
    environment = os.environ | {
        "PATH": bare_path(alone, tmp_path),
        "PYTHONPATH": ".",
        "DLPROF_STATE_DIR": str(tmp_path / "state"),
    }
    # WHEN both commands run there
    for command in ("dlprof", "dlprofviewer"):
        version = [str(alone / command), "--version"]
        done = subprocess.run(
            version, cwd=project, env=environment, capture_output=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, b"")
    analyze = [str(alone / "dlprof"), f"--database={demo_profile}", "-v=minimal"]
    subprocess.run(analyze, cwd=project, env=environment, check=True, stdout=subprocess.DEVNULL)
    with (tmp_path / "viewer.log").open("w+b") as log:
        server = subprocess.Popen(
            [alone / "dlprofviewer", "--port=0", "dlprof_dldb.sqlite"],
            cwd=project,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            # THEN the page, all that it loads and the API answer
            assert server.stdout is not None
            viewer = RunningViewer(server, server.stdout.readline().split()[-1].rstrip("/"), log)
            loaded = re.findall(r'(?:src|href)="(/[^"]+\.(?:js|css))"', fetch(f"{viewer.url}/"))
            assert loaded
            assert all(fetch(f"{viewer.url}{address}") for address in loaded)
            assert viewer.get("profiles/")["count"] == 1
            # AND the web server and its worker run the packages of the wheel
            job = viewer.wait_for_end(viewer.ask_for_aggregation(iter_start=3, iter_stop=5))
            assert job["state"] == "done"
        finally:
            server.terminate()
            server.wait(START_LIMIT_S)


def fetch(address: str) -> str:
    with urllib.request.urlopen(address, timeout=START_LIMIT_S) as reply:
        return str(reply.read().decode())
